"""Matrix products: every descriptor, read as the hardware reads it, meets exactly the elements of the shared tile."""

from __future__ import annotations

import itertools

import pytest
from passes.ptx_machine import SHARED_BASE, Event, Thread
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Block, Region

from tkc.analysis.swizzle import Use, choose
from tkc.backend.ptx_text import print_ptx
from tkc.diagnostics import TkcError
from tkc.ir import context
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES, Major, SharedTile, descriptor_format, operand_address
from tkc.ir.isa.mma import decode_instruction
from tkc.ir.isa.targets import TARGETS, Feature
from tkc.ir.ptx.emit import kernel
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import AccumulatorType, BufferType, Home
from tkc.ir.target import TARGET
from tkc.passes.lowering import products
from tkc.passes.lowering.state import Accumulator, Kernel
from tkc.passes.name_registers import NameRegistersPass

FIRST_WARP, SLOT, DEPTH = 4, 1, 2
OFFSET_A, OFFSET_B = 8192, 65536


def number(value: int) -> IntegerAttr:
    return IntegerAttr(value, i32)


def buffer(name: str, dtype: str, shape: tuple[int, int], across: bool, offset: int) -> s.BufferOp:
    """A ring of operands with the layout that `select-swizzle` gives it."""
    choice = choose(dtype, shape, frozenset({Use.COPY, Use.ACROSS if across else Use.OPERAND}))
    assert choice is not None
    type = BufferType.of(dtype, shape, DEPTH, Home.SHARED, choice.swizzle)
    return s.BufferOp.create(
        properties={"sym_name": StringAttr(name), "offset": number(offset)}, result_types=[type]
    )


class Product:
    """One `stage.mma`, lowered alone: A is [m, k], with `trans_a` [k, m]; B is [k, n], with `trans_b` [n, k]."""

    def __init__(
        self, target: str, dtype: str, m: int, n: int, k: int,
        trans_a: bool, trans_b: bool, groups: int = 1, started: bool = False, offset: int = OFFSET_A,
    ) -> None:  # fmt: skip
        self.target = TARGETS[target]
        self.new, emit = kernel("k", reqntid=32 * (FIRST_WARP + 4 * groups))
        self.a = buffer("a", dtype, (k, m) if trans_a else (m, k), trans_a, offset)
        self.b = buffer("b", dtype, (n, k) if trans_b else (k, n), not trans_b, OFFSET_B)
        properties = {
            "sym_name": StringAttr("r"),
            "warps": number(4 * groups),
            "first_warp": number(FIRST_WARP),
            "groups": number(groups),
        }
        role = s.RoleOp.create(properties=properties, regions=[Region(Block())])
        source = s.KernelOp.create(
            properties={"sym_name": StringAttr("k")}, regions=[Region(Block())]
        )
        state = Kernel(source, self.target, emit)
        state.role = role
        state.declared |= {self.a.buffer: self.a, self.b.buffer: self.b}
        state.thread = emit.special("%tid.x")
        state.warp = emit("shr", ".u32", state.thread, 5)
        state.base = emit.shared_base()
        type = AccumulatorType.of("f32", (m, n))
        values = Block(arg_types=[type, i32])
        in_registers = not self.target.has({Feature.TCGEN05})
        pieces = m // groups // 64 if in_registers else 0
        registers = tuple(emit.undef("f32", n // 2) for _ in range(pieces))
        state.values[values.args[0]] = Accumulator(registers, 64, started)
        state.values[values.args[1]] = SLOT
        op = s.MmaOp.create(
            operands=[values.args[0], self.a.buffer, values.args[1], self.b.buffer, values.args[1]],
            properties={"trans_a": number(trans_a), "trans_b": number(trans_b)},
            result_types=[type],
        )
        (products.wgmma if in_registers else products.tcgen05)(state, op)
        module = ModuleOp([self.new])
        module.attributes[TARGET] = StringAttr(target)
        NameRegistersPass().apply(context(), module)
        self.text = print_ptx(module)

    def instructions(self, group: int = 0) -> list[Event]:
        """The matrix instructions of the first thread of a warpgroup."""
        events = Thread(32 * FIRST_WARP + 128 * group).run(self.text)
        return [e for e in events if ".mma" in e.name]


def check(declared: s.BufferOp, word: int, major: Major, mn: range, k: range, target: str) -> None:
    """The descriptor's element (i, j) is where the tile's element (mn[i], k[j]) lies."""
    type = declared.buffer.type
    assert isinstance(type, BufferType)
    bits, swizzle = DTYPES[type.dtype.data].bits, SWIZZLES[type.swizzle.data]
    tile = SharedTile(type.shape[0], type.shape[1], bits, swizzle.name)
    format = descriptor_format(TARGETS[target].features)
    descriptor = format.decode(word)
    stride = -(-type.slot_bytes // swizzle.align) * swizzle.align
    assert declared.offset is not None
    base = SHARED_BASE + declared.offset.value.data + SLOT * stride
    step = 16 // (bits // 8)
    for i, j in itertools.product(
        range(0, len(mn), 4), range(0, len(k), step if major is Major.K else 1)
    ):
        row, column = (mn[i], k[j]) if major is Major.K else (k[j], mn[i])
        wanted = swizzle.physical(base + tile.offset(row, column))
        assert operand_address(descriptor, major, bits, i, j) == wanted % format.window


CASES = [
    # target, dtype, k of one instruction, layouts of (A, B) as (trans_a, trans_b); (False, True) is K-major both.
    *(("sm_90a", "bf16", 16, layout) for layout in itertools.product((False, True), repeat=2)),
    *(("sm_100a", "bf16", 16, layout) for layout in itertools.product((False, True), repeat=2)),
    ("sm_90a", "f16", 16, (False, True)),
    ("sm_90a", "e4m3", 32, (False, True)),
    ("sm_90a", "tf32", 8, (False, True)),
    *(("sm_100a", "tf32", 8, layout) for layout in itertools.product((False, True), repeat=2)),
    *(("sm_100a", "e4m3", 32, layout) for layout in itertools.product((False, True), repeat=2)),
    ("sm_107a", "bf16", 16, (False, True)),
]


@pytest.mark.parametrize(("target", "dtype", "step", "layout"), CASES)
@pytest.mark.parametrize("shape", [(128, 64, 1), (128, 256, 2), (256, 32, 4)], ids=str)
def test_every_descriptor_meets_the_elements_of_its_operand(
    target: str, dtype: str, step: int, layout: tuple[bool, bool], shape: tuple[int, int, int]
) -> None:
    """By row blocks and K steps, in order, or the other way round where B is kept; operands of one span and of several."""
    m, n, spans = shape
    trans_a, trans_b = layout
    k = spans * 32 // (DTYPES[dtype].bits // 8)
    if not trans_b and dtype == "tf32" and n % 32:
        pytest.skip("no layout")
    groups = 2 if target == "sm_90a" else 1
    rows = 64 if target == "sm_90a" else 128
    made = Product(target, dtype, m, n, k, trans_a, trans_b, groups)
    a_major = Major.MN if trans_a else Major.K
    b_major = Major.K if trans_b else Major.MN
    for group in range(groups):
        found = made.instructions(group)
        share = m // groups
        wanted = list(itertools.product(range(0, share, rows), range(0, k, step)))
        if target == "sm_107a":
            wanted.sort(key=lambda each: each[::-1])
        assert len(found) == len(wanted)
        for event, (first, at) in zip(found, wanted, strict=True):
            first += group * share
            a, b = event.operands[1:3]
            check(made.a, a, a_major, range(first, first + rows), range(at, at + step), target)
            check(made.b, b, b_major, range(n), range(at, at + step), target)


def test_only_the_first_instruction_of_an_item_takes_no_input() -> None:
    """`d = 0` writes nothing: the first K step of each row block ignores the accumulator."""
    for target, started in itertools.product(("sm_90a", "sm_100a"), (False, True)):
        found = Product(target, "bf16", 256, 64, 64, False, True, started=started).instructions()
        flags = [e.operands[3] if target == "sm_90a" else e.operands[4] for e in found]
        one = [int(started), 1, 1, 1]
        assert flags == one * (4 if target == "sm_90a" else 2)


def test_the_row_blocks_of_tensor_memory_lie_beside_each_other() -> None:
    found = Product("sm_100a", "bf16", 256, 64, 32, False, True).instructions()
    assert [e.operands[0] for e in found] == [64, 64, 128, 128]


@pytest.mark.parametrize("layout", list(itertools.product((False, True), repeat=2)), ids=str)
def test_the_instruction_descriptor_says_what_the_product_is(layout: tuple[bool, bool]) -> None:
    trans_a, trans_b = layout
    (event, *_) = Product("sm_100a", "bf16", 128, 96, 64, trans_a, trans_b).instructions()
    said = decode_instruction("f16", event.operands[3])
    assert (said.m, said.n, said.a, said.b, said.d) == (
        128,
        96,
        "bf16",
        "bf16",
        "f32",
    )
    assert (said.a_mn_major, said.b_mn_major) == (trans_a, not trans_b)


@pytest.mark.parametrize(("target", "offset"), [("sm_90a", 200 << 10), ("sm_107a", 300 << 10)])
def test_a_descriptor_reaches_all_shared_memory_of_its_target(target: str, offset: int) -> None:
    """sm_107's 327 KiB take a bit more."""
    made = Product(target, "bf16", 128, 64, 64, False, True, offset=offset)
    word = made.instructions()[0].operands[1]
    start = descriptor_format(TARGETS[target].features).decode(word).start
    assert start == SHARED_BASE + offset + SLOT * 128 * 64 * 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("sm_100a", "bf16", 128, 8, 64, False, True), "TK203", "it takes 16 to 256 columns in steps of 16"),
        (("sm_90a", "bf16", 128, 20, 64, False, True), "TK203", "it takes 8 to 256 columns in steps of 8"),
        (("sm_90a", "bf16", 64, 64, 24, True, False), "TK203", "bf16 takes a multiple of 16"),
        (("sm_90a", "f32", 64, 64, 64, False, True), "TK203", "no product of f32 and f32 into f32"),
        (("sm_90a", "e4m3", 64, 64, 64, True, True), "TK115", "operand a of e4m3"),
        (("sm_90a", "tf32", 64, 64, 32, False, False), "TK115", "operand b of tf32"),
    ],
)  # fmt: skip
def test_what_no_instruction_does_is_refused(
    arguments: tuple[str, str, int, int, int, bool, bool], code: str, message: str
) -> None:
    with pytest.raises(TkcError, match=message) as error:
        Product(*arguments)
    assert error.value.diagnostics[0].code == code

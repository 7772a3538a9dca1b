"""Kernels built by hand assemble with no notice, and their machine code is what was meant."""

from __future__ import annotations

import re

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from tkc.backend.assemble import Assembly, assemble, find_ptxas
from tkc.backend.ptx_text import print_ptx
from tkc.backend.sass import sass, serial_loops
from tkc.ir.locations import file_location
from tkc.ir.ptx.emit import At, Emit, kernel
from tkc.ir.ptx.registers import reg
from tkc.ir.target import TARGET
from tkc.passes.check_target import CheckTargetPass
from tkc.passes.name_registers import NameRegistersPass

pytestmark = pytest.mark.skipif(
    find_ptxas() is None, reason="no ptxas: pip install 'tkc[assemble]'"
)

EVERY_TARGET = ["sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_100f"]
TENSOR_TARGETS = EVERY_TARGET[1:]


def finish(op: Operation, target: str) -> Assembly:
    """Names, checks, prints and assembles; `assemble` refuses notices and spills."""
    module = ModuleOp([op], {TARGET: StringAttr(target)})
    module.verify()
    NameRegistersPass().apply(Context(), module)
    module.verify()
    CheckTargetPass().apply(Context(), module)
    return assemble(print_ptx(module), target)


@pytest.mark.parametrize("target", EVERY_TARGET)
def test_vector_add(target: str) -> None:
    params = [("x", "pointer"), ("y", "pointer"), ("z", "pointer"), ("n", "u32")]
    op, emit = kernel("vector_add", params, reqntid=128, location=file_location("add.tk", 1, 1))
    x, y, z = (emit.param(n, "pointer") for n in "xyz")
    i = emit("mad.lo", ".u32", emit.special("%ctaid.x"), 128, emit.special("%tid.x"))
    first = emit.shl(".b32", i, 2)

    def four() -> None:
        emit.location = file_location("add.tk", 2, 5)
        at = emit("mul.wide", ".u32", first, 4)
        a, b = (emit("ld.vec", ".global.v4.f32", emit.add(".u64", p, at)) for p in (x, y))
        emit("st.vec", ".global.v4.f32", emit.add(".u64", z, at), emit.add(".f32", a, b))

    emit.if_(emit.setp(".lt.u32", first, emit.param("n", "u32")), four)
    text = sass(finish(op, target).cubin)
    assert len(re.findall(r"\bFADD\b", text)) == 4
    assert len(re.findall(r"\bLDG\.E\.128\b", text)) == 2
    assert len(re.findall(r"\bSTG\.E\.128\b", text)) == 1


@pytest.mark.parametrize("target", EVERY_TARGET)
def test_tensor_copy_with_a_barrier(target: str) -> None:
    op, emit = kernel(
        "copy", [("X", "tensormap"), ("Y", "tensormap")], reqntid=32, shared_bytes=8256
    )
    x, y, shared = emit.param_address("X"), emit.param_address("Y"), emit.shared_base()
    bar = At(shared, 8192)
    p = emit("elect.sync", -1)

    def prepare() -> None:
        emit("mbarrier.init", ".shared::cta", bar, 1)
        emit("fence.mbarrier_init")

    emit.if_(p, prepare)
    emit("bar.warp.sync", -1)
    at = emit.special("%ctaid.x")

    def load() -> None:
        emit("mbarrier.arrive.expect_tx", ".release.cta.shared::cta", bar, 8192)
        emit("cp.async.bulk.tensor.load", ".2d.shared::cluster.tile", shared, x, [0, at], bar)

    emit.if_(p, load)
    emit.repeat(lambda: emit("mbarrier.try_wait.parity", ".acquire.cta.shared::cta", bar, 0))

    def store() -> None:
        emit("cp.async.bulk.tensor.store", ".2d.tile", y, [0, at], shared)
        emit("cp.async.bulk.commit_group")
        emit("cp.async.bulk.wait_group.read", 0)

    emit.if_(p, store)
    text = sass(finish(op, target).cubin)
    assert re.search(r"\bUTMALDG\.2D\b", text)
    assert re.search(r"\bUTMASTG\.2D\b", text)
    assert re.search(r"\bU?SYNCS\.", text)
    assert serial_loops(text) == []


def hopper(turns: int | None) -> tuple[Operation, Emit]:
    """A loop of four matrix multiplies a turn on one accumulator of 128 registers."""
    op, emit = kernel("multiply", [("C", "pointer"), ("k", "u32")], reqntid=128, shared_bytes=65536)
    out, tid = emit.param("C", "pointer"), emit.special("%tid.x")
    low = emit("and", ".b32", emit.shr(".u32", emit.shared_base(), 4), 0x3FFF)
    desc = emit("or", ".b64", emit.cvt(".u64.u32", low), 0x4000004000010000)

    def turn(i: SSAValue, acc: SSAValue, keep: SSAValue) -> list[SSAValue]:
        emit("wgmma.fence")
        at = desc
        for step in range(4):
            shape = ".m64n256k16.f32.bf16.bf16"
            acc = emit("wgmma.mma_async", shape, at, at, keep if step == 0 else 1, 1, 1, 0, 0, acc)
            at = emit.add(".u64", at, 2)
        emit("wgmma.commit_group")
        emit("wgmma.wait_group", 0)
        return [acc, emit.setp(".eq.u32", tid, tid)]

    count = emit.param("k", "u32") if turns is None else turns
    no = emit.setp(".ne.u32", tid, tid)
    acc, _ = emit.for_(0, count, 1, turn, [emit.undef("f32", 128), no])
    row = emit("mad.wide", ".u32", tid, 512, out)
    for j in range(0, 128, 4):
        emit("st.vec", ".global.v4.f32", At(row, 4 * j), emit.slice(acc, j, 4))
    return op, emit


@pytest.mark.parametrize("turns", [None, 16])
def test_an_accumulator_is_never_moved(turns: int | None) -> None:
    op, _ = hopper(turns)
    text = sass(finish(op, "sm_90a").cubin)
    multiplies = re.findall(r"HGMMA\.64x256x16\.F32\.BF16 (R\d+), gdesc\[UR\d+\], (!?\w+)", text)
    assert len(multiplies) >= 4
    accumulators = {d for d, _ in multiplies}
    assert len(accumulators) == 1
    (first,) = accumulators
    assert {c for _, c in multiplies} <= {first, "!UPT", "RZ"}
    # The registers of the accumulator are written by nothing else, moves least of all.
    start = int(first[1:])
    held = {f"R{n}" for n in range(start, start + 128)}
    moved = re.findall(r"\b(?:MOV|IMAD\.MOV(?:\.U32)?|CS2R) (R\d+)", text[text.index("HGMMA") :])
    assert not held & set(moved)


@pytest.mark.parametrize("target", TENSOR_TARGETS)
def test_tensor_memory_to_shared_memory(target: str) -> None:
    op, emit = kernel("drain", [("scale", "f32")], reqntid=128, shared_bytes=32768)
    shared, scale = emit.shared_base(), emit.param("scale", "f32")
    tid = emit.special("%tid.x")
    warp = emit.shr(".u32", tid, 5)
    emit("tcgen05.alloc", ".cta_group::1.shared::cta", shared, 64)
    emit("tcgen05.relinquish_alloc_permit", ".cta_group::1")
    emit("barrier.cta.sync", 0)
    taddr = emit.ld(".shared.b32", shared)
    lane = emit.add(".u32", taddr, emit.shl(".b32", warp, 21))
    values = emit("tcgen05.ld", ".32x32b.x64", lane, results=reg("f32", 64))
    emit("tcgen05.wait::ld")
    values = emit.mul(".f32", values, scale)
    packed = emit(
        "cvt.x2", ".rn.bf16x2", emit.slice(values, 1, 32, 2), emit.slice(values, 0, 32, 2)
    )
    row = emit("mad.lo", ".u32", tid, 128, shared)
    for j in range(0, 32, 4):
        emit("st.vec", ".shared.v4.b32", At(row, 1024 + 4 * j), emit.slice(packed, j, 4))
    emit("barrier.cta.sync", 0)
    emit("tcgen05.dealloc", ".cta_group::1", taddr, 64)
    text = sass(finish(op, target).cubin)
    assert re.search(r"\bLDTM\.x64\b", text)
    assert len(re.findall(r"\bSTS\.128\b", text)) == 8
    assert len(re.findall(r"\bF2FP\.BF16\b", text)) == 32


def test_source_lines_reach_the_machine_code() -> None:
    op, emit = kernel("k", [("x", "pointer")], reqntid=32, location=file_location("k.tk", 41, 3))
    emit.st(".global.b32", emit.param("x", "pointer"), emit.special("%clock"))
    assert 'File "k.tk", line 41' in sass(finish(op, "sm_90a").cubin, lines=True)


@pytest.mark.parametrize(
    "name", ["add", "mov", "reg", "entry", "param", "f32", "WARP_SZ", "sm", "ret"]
)
def test_names_of_the_language_do_for_kernels_and_parameters(name: str) -> None:
    op, emit = kernel(
        name, [(name, "u32")] if name != "WARP_SZ" else [], reqntid=32, shared_bytes=16
    )
    if name == "WARP_SZ":
        op, emit = kernel("k", [(name, "u32")], reqntid=32, shared_bytes=16)
    emit.st(".shared.u32", emit.shared_base(), emit.param(name, "u32"))
    assert finish(op, "sm_90a").cubin

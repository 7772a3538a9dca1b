"""The tile dialect: types in text, and what each operation's verifier refuses."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from tkc.ir.stage import STAGE
from tkc.ir.tile import TILE
from tkc.ir.tile.ops import MapOp
from tkc.ir.tile.types import (
    AccumType,
    BlockType,
    RegsType,
    SharedType,
    SliceType,
    TensorType,
)

KERNEL = """
tile.kernel {sym_name = "k", arg_names = ["A", "C", "s"], params = {}, launch = {}} do {
^bb0(%A: !tile.tensor<bf16, [M, K]>, %C: !tile.tensor<f32, [M, 32]>, %s: f32):
  %M = stage.size {symbol = "M"} : () -> (i32)
  %c3 = stage.const {constant = 3 : i32} : () -> (i32)
  %w = tile.schedule %M, %c3 {sym_name = "w", sizes = [64 : i32, 32 : i32], group = 1 : i32} : (i32, i32) -> (!tile.work)
  %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [64, 16], 4>)
  %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<bf16, [16, 32], 4>)
  %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [64, 32], 2>)
  %p = tile.pipe %a, %b {sym_name = "p", producers = ["load"], consumers = ["math"]} : (!tile.shared<bf16, [64, 16], 4>, !tile.shared<bf16, [16, 32], 4>) -> (!tile.pipe_ring)
  tile.role {sym_name = "math"} do {
    %zero = stage.const {constant = 0.0 : f32} : () -> (f32)
    %last = tile.for_tiles %w, %zero : (!tile.work, f32) -> (f32) do {
    ^bb0(%m: !tile.block<64, M>, %n: !tile.block<32, K>, %sum: f32):
      %x = tile.get %p : (!tile.pipe_ring) -> (!tile.regs<bf16, [64, 16]>) do {
      ^bb0(%a1: !tile.shared<bf16, [64, 16], 4>, %b1: !tile.shared<bf16, [16, 32], 4>):
        %x1 = tile.read %a1 : (!tile.shared<bf16, [64, 16], 4>) -> (!tile.regs<bf16, [64, 16]>)
        tile.zero %d : (!tile.accum<f32, [64, 32], 2>)
        tile.mma %d, %a1, %b1 {trans_a = 0 : i32, trans_b = 0 : i32} : (!tile.accum<f32, [64, 32], 2>, !tile.shared<bf16, [64, 16], 4>, !tile.shared<bf16, [16, 32], 4>)
        tile.yield %x1 : (!tile.regs<bf16, [64, 16]>)
      }
      %y = tile.cast %x : (!tile.regs<bf16, [64, 16]>) -> (!tile.regs<f32, [64, 16]>)
      %z = tile.map %y, %s {kind = "mul"} : (!tile.regs<f32, [64, 16]>, f32) -> (!tile.regs<f32, [64, 16]>)
      tile.for_blocks %M {size = 16 : i32} : (i32) do {
      ^bb0(%k: !tile.block<16, M>):
        %t = tile.slice %C, %m, %c3 : (!tile.tensor<f32, [M, 32]>, !tile.block<64, M>, i32) -> (!tile.slice<f32, [64]>)
        %u = tile.slice %C, %m, %k : (!tile.tensor<f32, [M, 32]>, !tile.block<64, M>, !tile.block<16, M>) -> (!tile.slice<f32, [64, 16]>)
        tile.copy %z, %u : (!tile.regs<f32, [64, 16]>, !tile.slice<f32, [64, 16]>)
        tile.yield ()
      }
      tile.yield %sum : (f32)
    }
  }
}
"""


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, STAGE, TILE):
        ctx.load_dialect(dialect)
    return ctx


def module(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


def test_a_right_kernel_verifies_and_round_trips() -> None:
    first = module(KERNEL)
    first.verify()
    stream = StringIO()
    Printer(stream).print_op(first)
    assert module(stream.getvalue()).is_structurally_equivalent(first)


REFUSED = [
    ('["A", "C", "s"]', '["A", "C"]', "a kernel names each of its arguments"),
    ("sizes = [64 : i32, 32 : i32]", "sizes = [64 : i32]", "one block size for each extent"),
    (
        "sizes = [64 : i32",
        "sizes = [128 : i32",
        r"blocks of \[64, 32\] in a loop over blocks of \[128, 32",
    ),
    ("%n: !tile.block<32, K>, %sum: f32", "%sum: f32", "one block for each of 2 axes"),
    ("%sum: f32):", "%sum: f32, %more: f32):", "the body of tile.for_tiles takes"),
    (
        "(!tile.work, f32) -> (f32)",
        "(!tile.work, f32) -> (i32)",
        "carries .f32. and results in .i32.",
    ),
    ("tile.yield %sum : (f32)", "tile.yield ()", "tile.for_tiles yields .., not .f32."),
    ("      tile.yield %sum : (f32)\n", "", "is not a terminator"),
    ("size = 16 : i32", "size = 0 : i32", "at least one element, not 0"),
    ("^bb0(%k:", "^bb0(%j: i32, %k:", "one block for each of 1 axes"),
    ("^bb0(%a1:", "^bb0(%c1: !tile.shared<bf16, [1, 1], 1>, %a1:", "takes its pipes' tiles"),
    ("tile.yield %x1 : (!tile.regs<bf16, [64, 16]>)", "tile.yield ()", "tile.get yields"),
    ("trans_b = 0", "trans_b = 1", r"\[64, 16\] @ \[32, 16\] does not make \[64, 32\]"),
    ('kind = "mul"', 'kind = "wave"', "no elementwise 'wave'; one of add"),
    ('kind = "mul"', 'kind = "exp"', "exp takes 1 operands, not 2"),
    (
        "(!tile.slice<f32, [64]>)",
        "(!tile.slice<f32, [64, 1]>)",
        r"blocks of \[64\] of .* do not make",
    ),
    ("(!tile.slice<f32, [64]>)", "(!tile.slice<bf16, [64]>)", "do not make"),
]
MORE = [
    ("%q = tile.read %a : (!tile.shared<bf16, [64, 16], 4>) -> (!tile.regs<f32, [64, 16]>)", "a read of"),
    ("%q = tile.read %d : (!tile.accum<f32, [64, 32], 2>) -> (!tile.regs<f32, [64, 16]>)", "a read of"),
    ("%q = tile.cast %x : (!tile.regs<bf16, [64, 16]>) -> (!tile.regs<f32, [16, 64]>)", "a cast of"),
    ('%q = tile.map %x {kind = "neg"} : (!tile.regs<bf16, [64, 16]>) -> (!tile.regs<f32, [64, 16]>)', "neg of"),
    (
        "%q = tile.slice %A, %m : (!tile.tensor<bf16, [M, K]>, !tile.block<64, M>) -> (!tile.slice<bf16, [64]>)",
        "a tensor of rank 2 takes 2 indices, not 1",
    ),
    ("tile.copy %a, %b : (!tile.shared<bf16, [64, 16], 4>, !tile.shared<bf16, [16, 32], 4>)", "shapes differ"),
    (
        "%q = tile.slice %C, %m, %c3 : (!tile.tensor<f32, [M, 32]>, !tile.block<64, M>, i32) -> "
        "(!tile.slice<f32, [64]>) tile.copy %q, %q : (!tile.slice<f32, [64]>, !tile.slice<f32, [64]>)",
        "goes through a tile",
    ),
    (
        "%q = tile.shared {sym_name = \"q\"} : () -> (!tile.shared<f16, [64, 16], 4>) "
        "tile.copy %x, %q : (!tile.regs<bf16, [64, 16]>, !tile.shared<f16, [64, 16], 4>)",
        "dtypes differ",
    ),
    (
        "%q = tile.shared {sym_name = \"q\"} : () -> (!tile.shared<bf16, [4, 16, 1], 4>) tile.mma %d, %q, %b "
        "{trans_a = 0 : i32, trans_b = 0 : i32} : (!tile.accum<f32, [64, 32], 2>, !tile.shared<bf16, [4, 16, 1], 4>, "
        "!tile.shared<bf16, [16, 32], 4>)",
        "of two axes",
    ),
]  # fmt: skip


def refuses(text: str, told: str) -> None:
    wrong = module(text)
    with pytest.raises(VerifyException, match=told):
        wrong.verify()


@pytest.mark.parametrize(("old", "new", "told"), REFUSED, ids=[r[2] for r in REFUSED])
def test_a_changed_kernel_is_refused(old: str, new: str, told: str) -> None:
    assert old in KERNEL
    refuses(KERNEL.replace(old, new, 1), told)


@pytest.mark.parametrize(("line", "told"), MORE, ids=[m[1] for m in MORE])
def test_a_wrong_operation_is_refused(line: str, told: str) -> None:
    at = "      %y = tile.cast"
    assert at in KERNEL
    refuses(KERNEL.replace(at, f"      {line}\n{at}", 1), told)


TYPES = [
    (TensorType.of("bf16", ["M", 128]), "!tile.tensor<bf16, [M, 128]>"),
    (SliceType.of("f32", [64]), "!tile.slice<f32, [64]>"),
    (RegsType.of("f16", [64, 32]), "!tile.regs<f16, [64, 32]>"),
    (SharedType.of("bf16", [64, 32], 4), "!tile.shared<bf16, [64, 32], 4>"),
    (SharedType.of("bf16", [64, 32], 4, "64B"), '!tile.shared<bf16, [64, 32], 4, "64B">'),
    (AccumType.of("f32", [64, 32], 2), "!tile.accum<f32, [64, 32], 2>"),
    (BlockType.of(64, "M"), "!tile.block<64, M>"),
    (BlockType.of(64, 1024), "!tile.block<64, 1024>"),
    (BlockType.of(64, "mul.cdiv.M.2.3"), "!tile.block<64, mul.cdiv.M.2.3>"),
]


@pytest.mark.parametrize(("type_", "text"), TYPES, ids=[t for _, t in TYPES])
def test_types_print_and_parse(type_: Attribute, text: str) -> None:
    assert str(type_) == text
    assert Parser(context(), text).parse_type() == type_


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("!tile.regs<b16, [4]>", "no dtype 'b16'"),
        ("!tile.shared<bf16, [4], 0>", "at least one slot, not 0"),
        ("!tile.accum<f32, [4], -1>", "at least one slot, not -1"),
        ("!tile.block<M, 64>", "Expected integer"),
        ("!tile.slice<f32>", "','"),
    ],
)
def test_wrong_types(text: str, told: str) -> None:
    with pytest.raises((VerifyException, ParseError), match=told):
        Parser(context(), text).parse_type()


def test_every_kind_of_map_verifies_with_its_arity() -> None:
    for kind, arity in MapOp.KINDS.items():
        operands = ", ".join(["%y"] * arity)
        types = ", ".join(["!tile.regs<f32, [64, 16]>"] * arity)
        line = f'tile.map {operands} {{kind = "{kind}"}} : ({types}) ->'
        text = KERNEL.replace(
            'tile.map %y, %s {kind = "mul"} : (!tile.regs<f32, [64, 16]>, f32) ->', line
        )
        assert kind in text
        module(text).verify()

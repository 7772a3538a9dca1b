"""What the operations refuse, by the message that they give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tkc.driver import run
from tkc.ir import context
from tkc.ir.ptx.instruction import (
    Instruction,
    _plainly_right,  # pyright: ignore[reportPrivateUsage]
    _verify,  # pyright: ignore[reportPrivateUsage]
)
from tkc.ir.ptx.registers import WIDTHS, reg, retype, type_of
from tkc.ir.ptx.values import UndefOp
from tkc.job import Job

CONTEXT = context()

VALUES = """
  %b16 = ptx.undef : () -> (!ptx.reg<b16>)
  %b32 = ptx.undef : () -> (!ptx.reg<b32>)
  %b64 = ptx.undef : () -> (!ptx.reg<b64>)
  %f32 = ptx.undef : () -> (!ptx.reg<f32>)
  %f64 = ptx.undef : () -> (!ptx.reg<f64>)
  %p = ptx.undef : () -> (!ptx.reg<pred>)
  %i4 = ptx.undef : () -> (!ptx.reg<b32 x 4>)
  %i8 = ptx.undef : () -> (!ptx.reg<b32 x 8>)
  %f4 = ptx.undef : () -> (!ptx.reg<f32 x 4>)
  %c = ptx.imm {value = 1} : () -> (!ptx.reg<b32>)
"""


SHORT = {
    ": M": ": (!ptx.reg<b64>, !ptx.reg<b64>, !ptx.reg<pred>, !ptx.reg<f32 x 4>) -> (!ptx.reg<b32 x 4>)",
    "END": "ptx.yield %b32 : (!ptx.reg<b32>)\n}",
    "V4": 'space = ".global", vec = ".v4", type = ".b32"',
    "BF16": 'shape = ".m64n8k16", dtype = ".f32", atype = ".bf16", btype = ".bf16"',
}


def expand(text: str) -> str:
    """Types without `!ptx.reg`, `S(1, 0, 2)` for segments, and the words of `SHORT`, written out."""
    text = re.sub(r"<(\w+(?: x \d+)?)>", r"!ptx.reg<\1>", text)
    text = re.sub(r"S\((.*?)\)", r"operandSegmentSizes = array<i32: \1>", text)
    for short, long in SHORT.items():
        text = text.replace(short, long)
    return text


def verify(
    text: str, params: str = '{name = "n", kind = "u32"}, {name = "m", kind = "tensormap"}'
) -> None:
    Parser(
        CONTEXT,
        f'ptx.kernel {{sym_name = "k", params = [{params}], reqntid = 32}} do {{{VALUES}{expand(text)}\n}}',
    ).parse_module().verify()


ACCEPTED = [
    '%r = ptx.add %b32, %b32 {type = ".u32"} : (<b32>, <b32>) -> (<b32>)',
    '%r = ptx.add %c, %f32 {type = ".f32"} : (<b32>, <f32>) -> (<f32>)',
    '%r = ptx.add %b32, %f32 {type = ".f32"} : (<b32>, <f32>) -> (<f32>)',
    '%r = ptx.add %i4, %b32 {type = ".u32"} : (<b32 x 4>, <b32>) -> (<b32 x 4>)',
    '%r = ptx.and %f32, %b32 {type = ".b32"} : (<f32>, <b32>) -> (<b32>)',
    'ptx.st %b64, %f32 {space = ".global", type = ".b32"} : (<b64>, <f32>)',
    'ptx.st %b64, %b32 {space = ".global", type = ".u8"} : (<b64>, <b32>)',
    '%r = ptx.ld %b32 {space = ".shared", type = ".u16"} : (<b32>) -> (<b32>)',
    "ptx.if %p : (<pred>) do {\n}",
    'ptx.for %c, %b32, %c {type = ".u32"} : (<b32>, <b32>, <b32>) do {\n^bb0(%i : <b32>):\n}',
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    verify(text)


FOR = (
    '%r = ptx.for %c, %b32, %c, %b32 {type = ".s32"} : (<b32>, <b32>, <b32>, <b32>) -> (<b32>) do '
)

REFUSED = {
    # Instructions
    "ptx.add %b32, %b32 : (<b32>, <b32>) -> (<b32>)": "add needs a type",
    'ptx.add %b32, %b32 {type = ".q7"} : (<b32>, <b32>) -> (<b32>)': "no type .q7",
    'ptx.add %b64, %b32 {type = ".u32"} : (<b64>, <b32>) -> (<b32>)': "a is in b64, but add.u32 takes b32",
    'ptx.add %b32, %b32 {type = ".u32"} : (<b32>, <b32>) -> (<b64>)': "d is in b64, but add.u32 takes b32",
    'ptx.add %f32, %b32 {type = ".u32"} : (<f32>, <b32>) -> (<b32>)': "a is in f32, but add.u32 takes b32",
    'ptx.add %f32, %p {type = ".f32"} : (<f32>, <pred>) -> (<f32>)': "b is in pred",
    'ptx.add %b32 {type = ".u32"} : (<b32>) -> (<b32>)': "takes a, b, but has 1",
    'ptx.add %b32, %b32, %b32 {type = ".u32"} : (<b32>, <b32>, <b32>) -> (<b32>)': "takes a, b, but has 3",
    'ptx.add %b32, %b32 {type = ".u32"} : (<b32>, <b32>)': "has 0 results instead of 1",
    'ptx.add %i4, %i8 {type = ".u32"} : (<b32 x 4>, <b32 x 8>) -> (<b32 x 4>)': "another has 4",
    'ptx.add %i4, %b32 {type = ".u32"} : (<b32 x 4>, <b32>) -> (<b32>)': "result is one register",
    'ptx.st %b64, %i4 {space = ".global", type = ".b32"} : (<b64>, <b32 x 4>)': "a is one register, not a tuple",
    'ptx.st %b64, %b32 {space = ".global", type = ".u64"} : (<b64>, <b32>)': "a is in b32, but st.global.u64",
    'ptx.st %b64, %b32 {space = ".shared", type = ".b32"} : (<b64>, <b32>)': "addr is in b64",
    'ptx.st %b64, %b32 {space = ".global", type = ".b32", offset = "x"} : (<b64>, <b32>)': "number of bytes",
    "ptx.st.vec %b64, %i8 {V4, S(1, 1, 0)} : (<b64>, <b32 x 8>)": "a has 8 registers, but st.global.v4.b32 takes 4",
    "ptx.st.vec %b64, %i4 {V4} : (<b64>, <b32 x 4>)": "needs operandSegmentSizes",
    "ptx.st.vec %b64, %i4 {V4, S(1, 2, 0)} : (<b64>, <b32 x 4>)": "has 2 operands, but segments",
    "ptx.st.vec %b64 {V4, S(1, 0, 0)} : (<b64>)": "a is an empty list",
    "ptx.st.vec %i4 {V4, S(0, 1, 0)} : (<b32 x 4>)": "addr is missing",
    "ptx.st.vec %b64, %b64, %i4 {V4, S(2, 1, 0)} : (<b64>, <b64>, <b32 x 4>)": "addr is one operand, not 2",
    'ptx.tcgen05.st %b32, %b32 {shape = ".32x32b", num = ".x4"} : (<b32>, <b32>)': "a has 1 registers",
    'ptx.tcgen05.st %b32, %i8 {shape = ".32x32b", num = ".x4"} : (<b32>, <b32 x 8>)': "takes 4",
    "ptx.wgmma.wait_group": "count is missing",
    "ptx.wgmma.wait_group {count}": "count is an immediate",
    "ptx.lop3 %b32, %b32, %b32 {table = 7} : (<b32>, <b32>, <b32>) -> (i32)": "d is a i32, not a register",
    "ptx.wgmma.mma_async %b64, %b64, %p, %f4 {BF16} : M": "share registers, but not a type",
    # Values
    "ptx.imm {value = 4294967296} : () -> (<b32>)": "does not fit b32",
    "ptx.imm {value = 2} : () -> (<pred>)": "does not fit pred",
    "ptx.imm {value = 2} : () -> (<b32 x 4>)": "one register without a name",
    "ptx.slice %b32 {start = 0, count = 0, step = 1} : (<b32>) -> (<b32>)": "no parts",
    "ptx.slice %i4 {start = 4, count = 0, step = 1} : (<b32 x 4>) -> (<b32>)": "registers 4 to 4 of a tuple of 4",
    "ptx.slice %i4 {start = 0, count = 3, step = 2} : (<b32 x 4>) -> (<b32 x 3>)": "registers 0 to 4",
    "ptx.slice %i4 {start = 0, count = 2, step = 1} : (<b32 x 4>) -> (<b32>)": "the part is !ptx.reg<b32 x 2>",
    # Kernels
    'ptx.param {param = "q"} : () -> (<b32>)': "no parameter q; it has n, m",
    'ptx.param {param = "n"} : () -> (<b64>)': "parameter n is a u32",
    'ptx.param_address {param = "m"} : () -> (<b32>)': "a generic address is a b64",
    'ptx.param_address {param = "q"} : () -> (<b64>)': "no parameter q",
    "ptx.shared_base : () -> (<b64>)": "a shared address is a b32",
    'ptx.special {register = "%tid.w"} : () -> (<b32>)': "no special register %tid.w",
    'ptx.special {register = "%clock64"} : () -> (<b32>)': "%clock64 is a b64",
    # Control
    "ptx.if %b32 : (<b32>) do {\n}": "the condition is a predicate",
    "ptx.if %p : (<pred>) -> (<b32>) do {\nEND": "results need both regions",
    "ptx.if %p : (<pred>) do {\n^bb0(%x : <b32>):\n}": "take no arguments",
    "ptx.if %p : (<pred>) -> (<b32>) do {\nEND, {\nptx.yield %b64 : (<b64>)\n}": "yields (!ptx.reg<b64>) instead",
    "ptx.if %p : (<pred>) do {\nEND": "instead of ()",
    'ptx.for %c, %b32, %c {type = ".f32"} : (<b32>, <b32>, <b32>) do {\n^bb0(%i : <b32>):\n}': "no counter type .f32",
    'ptx.for %c, %b32, %c {type = ".s64"} : (<b32>, <b32>, <b32>) do {\n^bb0(%i : <b32>):\n}': "is the counter, in b64",
    'ptx.for %c, %b32, %c {type = ".s32"} : (<b32>, <b32>, <b32>) do {\n}': "is the counter",
    FOR[5:] + "{\n^bb0(%i : <b32>):\nEND": "the body takes ()",
    FOR[5:] + "{\n^bb0(%i : <b32>, %x : i32):\nEND": "the body takes (i32)",
    FOR[5:] + "{\n^bb0(%i : <b32>, %x : <b32>):\n}": "the body yields ()",
    "ptx.repeat () do {\n}": "ends in ptx.until",
    "ptx.repeat () do {\nptx.until %b32 : (<b32>)\n}": "the condition is a predicate",
    "ptx.repeat %b32 : (<b32>) -> (<b32>) do {\n^bb0(%x : <b32>):\nptx.until %p : (<pred>)\n}": "the body yields ()",
    "ptx.while () do {\n}, {\n}": "ends in ptx.proceed",
    "ptx.while () do {\nptx.proceed %b32 : (<b32>)\n}, {\n}": "the condition is a predicate",
    "ptx.while %b32 : (<b32>) -> (<b32>) do {\nptx.proceed %p : (<pred>)\n}, {\n^bb0(%x : <b32>):\nEND": "takes ()",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_refused(text: str, message: str) -> None:
    results = "->" in text.split("do ")[0] or ": M" in text
    with pytest.raises((VerifyException, ParseError), match=re.escape(message)):
        verify(("%z = " if results else "") + text)


def test_what_is_no_property_is_an_attribute() -> None:
    module = Parser(
        CONTEXT,
        'ptx.kernel {sym_name = "k", params = [], reqntid = 32} do {\nptx.wgmma.wait_group {count = 0, note = "n"}}',
    ).parse_module()
    module.verify()
    (op,) = [o for o in module.walk() if o.name == "ptx.wgmma.wait_group"]
    assert (op.properties.keys(), op.attributes.keys()) == ({"count"}, {"note"})
    op.properties["note"] = op.attributes["note"]
    with pytest.raises(VerifyException, match="has no property note; it has count"):
        module.verify()


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ('sym_name = "a b", params = [], reqntid = 32', "'a b' is no name in PTX"),
        ('sym_name = "k", params = [{name = "1x", kind = "u32"}], reqntid = 32', "'1x' is no name"),
        (
            'sym_name = "k", params = [{name = "x", kind = "i32"}], reqntid = 32',
            "of no kind i32: one of u32",
        ),
        ('sym_name = "k", params = [{name = "x"}], reqntid = 32', "has a name and a kind"),
        (
            'sym_name = "k", params = [{name = "x", kind = "u32"}, {name = "x", kind = "u32"}], reqntid = 32',
            "one name",
        ),
        ('sym_name = "k", params = [], reqntid = 0', "0 threads instead of 1 to 1024"),
        ('sym_name = "k", params = [], reqntid = 1025', "1025 threads"),
        ('sym_name = "k", params = []', "'reqntid' expected"),
    ],
)
def test_kernels_refused(properties: str, message: str) -> None:
    module = Parser(CONTEXT, f"ptx.kernel {{{properties}}} do {{\n}}").parse_module()
    with pytest.raises(VerifyException, match=message):
        module.verify()


def test_a_kernel_uses_nothing_from_outside() -> None:
    inner = '%r = ptx.add %b32, %b32 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)'
    text = f'ptx.kernel {{sym_name = "k", params = [], reqntid = 32}} do {{{VALUES}{inner}\n}}'
    module = Parser(CONTEXT, text).parse_module()
    module.verify()
    add = next(op for op in module.walk() if op.name == "ptx.add")
    outside = UndefOp.create(result_types=[reg("b32")])
    module.body.block.insert_op_before(outside, module.body.block.first_op)  # type: ignore[arg-type]
    add.operands[1] = outside.results[0]
    with pytest.raises(VerifyException, match="value defined out of its IsolatedFromAbove parent"):
        module.verify()


def test_what_is_right_at_a_glance_is_right() -> None:
    """Every instruction of a kernel, as it is and with each of its values in each class of registers."""
    source = Path(__file__).parents[3] / "examples" / "gemm_bf16.tk"
    module = run(Job(source.read_text(), str(source), "sm_100a")).module
    assert module is not None
    glances = 0
    for op in module.walk():
        if not isinstance(op, Instruction):
            continue
        spelling = op.spelling
        for value in (*op.results, *op.operands):
            own = type_of(value)
            for type in (own, *(reg(kind) for kind in WIDTHS), reg("b32", 4)):
                retype(value, type)
                if _plainly_right(op, spelling):
                    glances += 1
                    op.sizes()
                    _verify(op, spelling)
            retype(value, own)
    assert glances > 500

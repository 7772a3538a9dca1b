"""PTX text: what is read, and what is refused with its line before anything runs."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.kernels import text

from tkc.diagnostics import TkcError
from tkc.emulator import TensorMap, emulate
from tkc.emulator.operands import parse_operands
from tkc.emulator.reader import read
from tkc.emulator.syntax import Address, Name, Number, Pair, Vector


def refused(ptx: str, *args: object, **options: object) -> TkcError:
    with pytest.raises(TkcError) as caught:
        emulate(ptx, **{"grid": 1, "block": 32, "args": list(args), **options})
    return caught.value


def code(error: TkcError) -> str:
    return error.diagnostics[0].code


def test_operands() -> None:
    assert parse_operands("%r1, -5, 0x1F, 0f3F800000") == (
        Name("%r1"), Number("int", -5), Number("int", 31), Number("f32", 0x3F800000),
    )  # fmt: skip
    assert parse_operands("[%rd1+-16], {%r1, %r2}") == (
        Address((Name("%rd1", -16),)), Vector((Name("%r1"), Name("%r2"))),
    )  # fmt: skip
    assert parse_operands("%r1|%p2, !%p3") == (Pair(Name("%r1"), Name("%p2")), Name("%p3", 0, True))
    assert parse_operands("[map, {%r1, 4}], [sm+8]")[0] == Address(
        (Name("map"), Vector((Name("%r1"), Number("int", 4))))
    )
    assert parse_operands("010, 0b101, 4*8, %tid.x") == (
        Number("int", 8), Number("int", 5), Number("int", 32), Name("%tid.x"),
    )  # fmt: skip


MODULE = """
// a comment with { braces and ; marks
.version 8.7 /* and
   another */ .target sm_100a, debug
.address_size 64
.extern .shared .align 1024 .b8 sm[];
.global .align 4 .u32 table[4] = {1, 2, 0x3, 4};
.const .align 8 .f32 half = 0f3F000000;
.visible .entry first(
    .param .align 64 .b8 map[128],
    .param .u64 .ptr .global .align 16 p, .param .f32 x
)
.reqntid 128, 1, 1
.minnctapersm 1
{
    .reg .b32 %r<5>, a, b;
    .reg .pred p0;
    .loc 1 10 3, function_name $L__info_string0, inlined_at 1 2 3
    @p0 add.s32 %r1, a, b;
    { .reg .b32 a; L: mov.u32 a, 1; }
    .pragma "nounroll";
    ret;
}
.func (.param .b32 r) helper(.param .b32 x) { ret; }
.section .debug_abbrev { .b8 1 }
.file 1 "source.cu"
"""


def test_a_module() -> None:
    module = read(MODULE)
    assert module.version == (8, 7)
    assert module.target == "sm_100a"
    assert module.entries == ["first"]
    assert module.files == {1: "source.cu"}
    first = module.functions["first"]
    assert [(p.name, p.size, p.align) for p in first.params] == [
        ("map", 128, 64),
        ("p", 8, 8),
        ("x", 4, 4),
    ]
    assert first.directives == {"reqntid": (128, 1, 1), "minnctapersm": (1,)}
    assert [s.mnemonic for s in first.statements] == ["add.s32", "mov.u32", "ret"]
    assert first.statements[0].guard == ("p0", False)
    assert first.statements[0].place == (1, 10, 3)
    assert [v.name for v in module.variables] == ["sm", "table", "half"]
    assert module.variables[1].data == np.array([1, 2, 3, 4], np.uint32).tobytes()


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ("frobnicate.b32 %r1, %r2; ret;", "frobnicate", "no instruction"),
        ("add.u32 %r1, %r2; ret;", "add.u32", "does not take these operands"),
        ("add.u32 %r1, %r2, %d3; ret;", "add.u32", "64 bits"),
        ("mov.u32 %r1, %nothing; ret;", "%nothing", "no register"),
        ("add.u32 %q1, %r1, 1; ret;", "%q1", "no register"),
        ("bra NOWHERE; ret;", "NOWHERE", "no label"),
        ("setmaxnreg.inc.sync.aligned.u32 100; ret;", "setmaxnreg", "multiple of 8"),
        ("@%r1 mov.u32 %r2, 1; ret;", "@%r1", "no predicate"),
    ],
)
def test_refusals_name_the_line(body: str, line: str, said: str) -> None:
    ptx = text(body, ("a0",))
    error = refused(ptx, np.zeros(1, np.uint32))
    diagnostic = error.diagnostics[0]
    assert diagnostic.location is not None
    assert line in ptx.splitlines()[diagnostic.location.line - 1]
    assert said in diagnostic.message


def test_several_mistakes_at_once() -> None:
    error = refused(text("bad.one %r1; ret;\nbad.two %r1;", ("a0",)), np.zeros(1, np.uint32))
    assert len(error.diagnostics) == 2


@pytest.mark.parametrize(
    ("ptx", "found"),
    [
        ("", "TK417"),
        (".version 8.6\n.target sm_100a\n.address_size 32\n", "TK417"),
        (".version 8.6\n.target sm_100a\n", "TK417"),
        (".version 8.6\n.target sm_100a\n.entry k() {", "TK417"),
        (".version 8.6\n.target sm_100a\n.entry k() { mov.u32 %r1 5 }", "TK417"),
        (".version 8.6\n.target sm_99x\n.address_size 64\n.entry k() { ret; }", "TK201"),
        ("hello", "TK417"),
    ],
)
def test_texts_that_cannot_be_read(ptx: str, found: str) -> None:
    assert code(refused(ptx)) == found


def test_arguments_and_launches() -> None:
    ptx = text("ret;", ("a", "b"))
    one = np.zeros(1, np.uint32)
    assert code(refused(ptx, one)) == "TK401"
    assert code(refused(ptx, one, np.uint32(3))) == "TK403"
    assert code(refused(ptx, one, "text")) == "TK403"
    assert code(refused(ptx, one, one, entry="other")) == "TK417"
    assert code(refused(ptx, one, one, block=2000)) == "TK208"
    assert code(refused(ptx, one, one, shared_bytes=1 << 20)) == "TK204"
    assert code(refused(ptx, one, one, grid=3, cluster=2)) == "TK418"
    assert code(refused(ptx, one, one, schedule="sometimes")) == "TK120"
    assert code(refused(ptx, one, one, model="loose")) == "TK120"
    emulate(ptx, grid=1, block=32, args=[None, one])


def test_scalars_go_by_their_width() -> None:
    ptx = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u16 a, .param .f32 b, .param .u64 c, .param .s8 d)
{
    .reg .b64 %d<4>; .reg .b32 %r<6>; .reg .f32 %f<2>; .reg .b16 %h<2>;
    ld.param.u64 %d0, [out];
    ld.param.u16 %h0, [a]; cvt.u32.u16 %r0, %h0; st.global.u32 [%d0], %r0;
    ld.param.f32 %f0, [b]; st.global.f32 [%d0+4], %f0;
    ld.param.u64 %d1, [c]; st.global.u64 [%d0+8], %d1;
    ld.param.s8 %r1, [d]; st.global.u32 [%d0+16], %r1;
    ret;
}
"""
    for args in (
        (np.uint16(7), np.float32(1.5), np.int64(-2), np.int8(-3)),
        (7, 1.5, -2, -3),
    ):
        out = np.zeros(5, np.uint32)
        report = emulate(ptx, grid=1, block=1, args=[out, *args])
        assert not report.findings
        assert out.tolist() == [7, 0x3FC00000, 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD]
    assert code(refused(ptx, np.zeros(5, np.uint32), np.uint32(7), 1.5, -2, -3)) == "TK403"
    assert code(refused(ptx, np.zeros(5, np.uint32), 70000, 1.5, -2, -3)) == "TK501"


def test_arrays_that_share_memory_alias() -> None:
    whole = np.zeros(64, np.uint32)
    left, right = whole[:40], whole[24:]
    ptx = text(
        "st.global.u32 [%d0+128], 5; ld.global.u32 %r1, [%d1+32]; st.global.u32 [%d1], %r1; ret;",
        ("a", "b"),
    )
    report = emulate(ptx, grid=1, block=1, args=[left, right])
    assert not report.findings
    assert whole[32] == 5
    assert whole[24] == 5


def test_a_tensor_map_refuses_what_the_driver_refuses() -> None:
    array = np.zeros((8, 64), np.float32)
    good = dict(dtype="f32", sizes=[64, 8], strides=[256], box=[32, 4], swizzle="128B")
    TensorMap(array, **good)
    for change in (
        {"box": [64, 4]},
        {"box": [33, 4]},
        {"strides": [250]},
        {"sizes": [0, 8]},
        {"box": [32, 257]},
        {"swizzle": "256B"},
        {"element_strides": [1, 9]},
        {"interleave": "16B"},
        {"dtype": "i32", "fill": "nan"},
    ):
        with pytest.raises(TkcError) as caught:
            TensorMap(array, **{**good, **change})
        assert code(caught.value) == "TK207"

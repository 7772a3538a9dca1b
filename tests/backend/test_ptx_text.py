"""The text of kernels: header, directives, declarations, source lines, control, and the form that it needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FusedLoc, ModuleOp, NoneAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from tkc.backend.ptx_text import print_ptx
from tkc.diagnostics import Bug, TkcError
from tkc.ir.locations import file_location
from tkc.ir.ptx.emit import At, Emit, kernel
from tkc.ir.ptx.registers import reg, retype
from tkc.ir.target import TARGET
from tkc.passes.name_registers import NameRegistersPass


def module(*kernels: Operation, target: str = "sm_90a") -> ModuleOp:
    made = ModuleOp(list(kernels), {TARGET: StringAttr(target)})
    made.verify()
    NameRegistersPass().apply(Context(), made)
    return made


def lines(fill: Callable[[Emit], object], target: str = "sm_90a") -> list[str]:
    """The lines of a kernel's body."""
    op, emit = kernel("k", reqntid=32)
    fill(emit)
    text = print_ptx(module(op, target=target)).splitlines()
    return [line.strip() for line in text[text.index("{") + 1 : text.index("}")]]


def test_a_whole_module() -> None:
    first, emit = kernel(
        "first",
        [("x", "pointer"), ("n", "u32"), ("map", "tensormap"), ("alpha", "f32")],
        reqntid=128,
        shared_bytes=4096,
        cluster=2,
        min_ctas=3,
    )
    base, alpha = emit.shared_base(), emit.param("alpha", "f32")
    emit.st(".shared.f32", At(base, 8), emit.mul(".f32", alpha, 2.0))
    emit.param_address("map")
    emit("ld.vec", ".global.v2.b64", emit.param("x", "pointer"))
    second, _ = kernel("second", reqntid=32)
    assert (
        print_ptx(module(first, second))
        == """\
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 sm[];
.visible .entry first(
    .param .u64 .ptr .global .align 16 x,
    .param .u32 n,
    .param .align 64 .b8 map[128],
    .param .f32 alpha
)
.reqntid 128, 1, 1
.minnctapersm 3
.reqnctapercluster 2, 1, 1
{
    .reg .b32 %r<1>;
    .reg .b64 %rd<4>;
    .reg .f32 %f<2>;
    mov.u32 %r0, sm;
    ld.param.f32 %f0, [alpha];
    mul.f32 %f1, %f0, 0f40000000;
    st.shared.f32 [%r0+8], %f1;
    mov.b64 %rd0, map;
    cvta.param.u64 %rd0, %rd0;
    ld.param.u64 %rd1, [x];
    ld.global.v2.b64 {%rd2, %rd3}, [%rd1];
    ret;
}
.visible .entry second(
)
.reqntid 32, 1, 1
.minnctapersm 1
{
    ret;
}
"""
    )


@pytest.mark.parametrize(
    ("target", "fill", "version"),
    [
        ("sm_90a", lambda e: None, "8.0"),
        ("sm_100a", lambda e: None, "8.6"),
        ("sm_100f", lambda e: None, "8.8"),
        ("sm_107a", lambda e: None, "9.4"),
        # 128-bit registers, a modifier, and an instruction each need more than the target.
        ("sm_90a", lambda e: e.undef("b128"), "8.3"),
        (
            "sm_90a",
            lambda e: e("mbarrier.arrive", ".relaxed.cta.shared::cta", e.undef("b32")),
            "8.6",
        ),
        (
            "sm_100a",
            lambda e: e("tcgen05.alloc", ".exclusive.cta_group::1.shared::cta", e.undef("b32"), 32),
            "9.4",
        ),
    ],
)
def test_the_lowest_version_that_will_do(
    target: str, fill: Callable[[Emit], object], version: str
) -> None:
    op, emit = kernel("k", reqntid=32)
    fill(emit)
    assert print_ptx(module(op, target=target)).startswith(
        f".version {version}\n.target {target}\n"
    )


def test_source_lines_where_they_change() -> None:
    op, emit = kernel("k", reqntid=32, location=file_location("k.tk", 1, 1))
    a = emit.special("%tid.x")
    emit.location = file_location("k.tk", 2, 5)
    emit.add(".u32", a, 1)
    emit.sub(".u32", a, 1)
    emit.location = FusedLoc([file_location('dir\\"x".tk', 7, 9)], NoneAttr())
    emit.xor(".b32", a, a)
    emit.location = FusedLoc([], NoneAttr())
    emit.xor(".b32", a, a)
    text = print_ptx(module(op)).splitlines()
    assert [line for line in text if ".file" in line] == [
        '.file 1 "k.tk"',
        '.file 2 "dir\\\\\\"x\\".tk"',
    ]
    assert [line.strip() for line in text[text.index("{") + 2 : -2]] == [
        ".loc 1 1 1",
        "mov.u32 %r0, %tid.x;",
        ".loc 1 2 5",
        "add.u32 %r1, %r0, 1;",
        "sub.u32 %r2, %r0, 1;",
        ".loc 2 7 9",
        "xor.b32 %r3, %r0, %r0;",
        "xor.b32 %r4, %r0, %r0;",
    ]


def test_names_that_ptx_or_the_module_has() -> None:
    first, emit = kernel("sm", [("sm$", "u32"), ("WARP_SZ", "u32")], reqntid=32, shared_bytes=1)
    emit.param("WARP_SZ", "u32")
    emit.shared_base()
    text = print_ptx(module(first))
    assert ".extern .shared .align 1024 .b8 sm$$[];" in text
    assert "mov.u32 %r1, sm$$;" in text
    assert ".param .u32 WARP_SZ$" in text
    assert "ld.param.u32 %r0, [WARP_SZ$];" in text


def test_tuples() -> None:
    def fill(emit: Emit) -> None:
        t = emit.special("%tid.x")
        a = emit("mov", ".b32", t, results=reg("f32", 4))
        packed = emit("cvt.x2", ".rn.bf16x2", emit.slice(a, 1, 2, 2), emit.slice(a, 0, 2, 2))
        emit("st.vec", ".shared.v2.b32", t, packed)
        emit("st.vec", ".shared.v2.b32", At(t, 8), [emit.slice(packed, 1), t])

    assert lines(fill)[-8:-1] == [
        "mov.b32 %f1, %r0;",
        "mov.b32 %f2, %r0;",
        "mov.b32 %f3, %r0;",
        "cvt.rn.bf16x2.f32 %r1, %f1, %f0;",
        "cvt.rn.bf16x2.f32 %r2, %f3, %f2;",
        "st.shared.v2.b32 [%r0], {%r1, %r2};",
        "st.shared.v2.b32 [%r0+8], {%r2, %r0};",
    ]


def predicate(emit: Emit) -> SSAValue:
    return emit.setp(".lt.u32", emit.special("%tid.x"), 4)


def test_one_instruction_is_predicated() -> None:
    def fill(emit: Emit) -> None:
        p, bar = predicate(emit), emit.special("%laneid")
        emit.if_(p, lambda: emit("mbarrier.arrive", ".shared::cta", bar))
        emit.if_(p, lambda: emit("mbarrier.arrive", ".shared::cta", bar), negated=True)

    assert lines(fill)[-3:-1] == [
        "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];",
        "@!%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];",
    ]


@pytest.mark.parametrize(
    "then",
    [
        lambda e: (e("wgmma.fence"), None)[1],  # needs every lane of the warp
        lambda e: (e.add(".u32", 1, e.undef("b32", 2)), None)[1],  # is two lines
        lambda e: (
            e("tcgen05.fence::before_thread_sync"),
            e("tcgen05.fence::after_thread_sync"),
            None,
        )[2],
        lambda e: (e.special("%clock"), None)[1],
        lambda e: None,
    ],
)
def test_anything_else_is_branched_round(then: Callable[[Emit], None]) -> None:
    found = lines(lambda emit: emit.if_(predicate(emit), lambda: then(emit)))
    assert "@!%p1 bra $L1;" in found
    assert found[-2:] == ["$L1:", "ret;"]


def test_two_sides() -> None:
    def fill(emit: Emit) -> None:
        p = predicate(emit)
        emit.if_(
            p, lambda: emit.special("%clock") and None, lambda: emit("wgmma.fence"), negated=True
        )

    assert lines(fill)[-7:-1] == [
        "@%p1 bra $L1;",
        "mov.u32 %r1, %clock;",
        "bra $L2;",
        "$L1:",
        "wgmma.fence.sync.aligned;",
        "$L2:",
    ]


def test_loops() -> None:
    def fill(emit: Emit) -> None:
        bar = emit.special("%laneid")
        emit.repeat(
            lambda: emit("mbarrier.try_wait.parity", ".acquire.cta.shared::cta", At(bar, 8), 0)
        )
        emit.for_(0, bar, 1, lambda i: None)
        emit.while_(lambda: emit.setp(".lt.u32", bar, 4), lambda: emit("wgmma.fence"))

    assert lines(fill)[3:] == [
        "$L1:",
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r0+8], 0;",
        "@!%p1 bra $L1;",
        "mov.b32 %r1, 0;",
        "setp.ge.s32 %p0, %r1, %r0;",
        "@%p0 bra $L3;",
        "$L2:",
        "add.s32 %r1, %r1, 1;",
        "setp.lt.s32 %p0, %r1, %r0;",
        "@%p0 bra $L2;",
        "$L3:",
        "$L4:",
        "setp.lt.u32 %p2, %r0, 4;",
        "@!%p2 bra $L5;",
        "wgmma.fence.sync.aligned;",
        "bra $L4;",
        "$L5:",
        "ret;",
    ]


def test_a_lone_loop_declares_its_predicate() -> None:
    assert ".reg .pred %p<1>;" in lines(lambda emit: emit.for_(0, 4, 1, lambda i: None))


# The form that it needs


def unnamed(fill: Callable[[Emit], object]) -> ModuleOp:
    op, emit = kernel("k", reqntid=32)
    fill(emit)
    return ModuleOp([op], {TARGET: StringAttr("sm_90a")})


def test_registers_without_names_are_a_bug() -> None:
    for fill in (
        lambda e: e.special("%tid.x"),
        lambda e: e.add(".u32", 1, 2),
        lambda e: e("ld.vec", ".shared.v2.b32", 4),
        lambda e: e.undef("b32"),
    ):
        with pytest.raises(Bug, match=r"ptx text.*name"):
            print_ptx(unnamed(fill))


def test_operations_of_other_dialects_are_a_bug() -> None:
    made = unnamed(lambda e: e.insert(ModuleOp([])))
    with pytest.raises(Bug, match=r"builtin\.module is no operation of a PTX kernel"):
        print_ptx(made)
    with pytest.raises(Bug, match=r"builtin\.module stands beside kernels"):
        print_ptx(ModuleOp([ModuleOp([])], {TARGET: StringAttr("sm_90a")}))


def test_a_module_without_a_target_is_refused() -> None:
    with pytest.raises(TkcError, match="set-target"):
        print_ptx(ModuleOp([]))


def carry(emit: Emit) -> object:
    return emit.for_(0, 4, 1, lambda i, x: [x], [emit.special("%tid.x")])


def branch(emit: Emit) -> object:
    one, other = emit.special("%tid.x"), emit.special("%tid.y")
    return emit.if_(emit.undef("pred"), lambda: [one], lambda: [other])


def turn(emit: Emit) -> object:
    return emit.repeat(lambda x: (emit.undef("pred"), x), [emit.special("%tid.x")])


def proceed(emit: Emit) -> object:
    return emit.while_(lambda x: emit.undef("pred"), lambda x: [x], [emit.special("%tid.x")])


@pytest.mark.parametrize("fill", [carry, branch, turn, proceed])
def test_a_carried_value_under_two_names_is_a_bug(fill: Callable[[Emit], object]) -> None:
    made = unnamed(fill)
    NameRegistersPass().apply(Context(), made)
    print_ptx(made)
    op = next(o for o in made.walk() if o.regions and o.results)
    retype(op.results[0], reg("b32", 0, 99))
    with pytest.raises(Bug, match="carries one value under several names"):
        print_ptx(made)


def test_modifiers_that_a_row_does_not_have_are_a_bug() -> None:
    made = unnamed(lambda e: e("wgmma.fence"))
    NameRegistersPass().apply(Context(), made)
    op = next(o for o in made.walk() if o.name == "ptx.wgmma.fence")
    made_up = next(o for o in unnamed(lambda e: e.add(".u32", 1, 2)).walk() if o.name == "ptx.add")
    made_up.properties["type"] = StringAttr(".q")
    made_up.detach()
    parent = op.parent
    assert parent is not None
    parent.insert_op_after(made_up, op)
    with pytest.raises(Bug, match=r"ptx\.add add has no type \.q"):
        print_ptx(made)

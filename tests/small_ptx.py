"""Small PTX texts for tests, written by hand."""

from __future__ import annotations

HEADER = """\
.version 8.6
.target sm_90a
.address_size 64
"""

SCALE = (
    HEADER
    + """\
.file 1 "scale.tk"
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 factor, .param .u32 n)
.reqntid 64
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;
    .reg .f32 %f<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.f32 %f1, [factor];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r4, %r3, 64, %r2;
    setp.ge.u32 %p1, %r4, %r1;
    @%p1 ret;
    mul.wide.u32 %rd3, %r4, 4;
    add.u64 %rd1, %rd1, %rd3;
    add.u64 %rd2, %rd2, %rd3;
    .loc 1 2 5
    ld.global.f32 %f2, [%rd1];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%rd2], %f3;
    ret;
}
"""
)
"""y = x * factor for n floats, one to a thread, 64 to a CTA; its accesses are line 2 of scale.tk."""

SCALE_STRUCT = (
    SCALE.replace(
        ".param .u64 x, .param .u64 y, .param .f32 factor, .param .u32 n",
        ".param .align 8 .b8 p[24]",
    )
    .replace("[x]", "[p]")
    .replace("[y]", "[p+8]")
    .replace("[factor]", "[p+16]")
    .replace("[n]", "[p+20]")
)
"""The same with a structure of x, y, factor and n as its parameter."""

TWO = (
    HEADER
    + """\
.visible .entry first() { ret; }
.visible .entry second() { ret; }
"""
)

LOAD_TILE = """\
{
    .reg .pred %p<3>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    mov.b64 %rd1, %MAP%;
    ld.param.u64 %rd2, [out];
    mov.u32 %r2, tile;
    mov.u32 %r3, bar;
    @%p1 bra WAIT;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {0, 0}], [%r3];
WAIT:
    bar.sync 0;
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra AGAIN;
    shl.b32 %r4, %r1, 2;
    add.u32 %r2, %r2, %r4;
    ld.shared.u32 %r5, [%r2];
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd2, %rd2, %rd3;
    st.global.u32 [%rd2], %r5;
    ret;
}
"""
_SHARED = ".shared .align 128 .b8 tile[128];\n.shared .align 8 .b64 bar;\n"

TILE = (
    HEADER
    + _SHARED
    + ".visible .entry tile_out(.param .align 64 .b8 map[128], .param .u64 out) .reqntid 32\n"
    + LOAD_TILE.replace(
        "mov.b64 %rd1, %MAP%;", "mov.b64 %rd1, map;\n    cvta.param.u64 %rd1, %rd1;"
    )
)
"""Copies a box of 8 x 8 f16 through shared memory to `out`; the tensor map is a parameter."""

TILE_BY_POINTER = (
    HEADER
    + _SHARED
    + ".visible .entry tile_out(.param .u64 map, .param .u64 out) .reqntid 32\n"
    + LOAD_TILE.replace("mov.b64 %rd1, %MAP%;", "ld.param.u64 %rd1, [map];")
)
"""The same with a pointer to the tensor map."""

HANG = (
    HEADER
    + """\
.shared .align 8 .b64 bar;
.visible .entry hang() .reqntid 32
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    mov.u32 %r1, bar;
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
    @!%p1 bra AGAIN;
    ret;
}
"""
)
"""Waits for an arrival that nobody makes."""

LOOP = (
    HEADER
    + """\
.visible .entry loop(.param .u64 out) .reqntid 32
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, 0;
AGAIN:
    add.u32 %r1, %r1, 1;
    st.global.u32 [%rd1], %r1;
    bra AGAIN;
}
"""
)
"""Never ends, and never waits."""

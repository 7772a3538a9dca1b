"""Disassembly, and the detector of serialising loops on guards of every kind."""

from __future__ import annotations

import pytest

from tkc.backend.assemble import assemble, find_ptxas
from tkc.backend.sass import instructions, sass, serial_loops
from tkc.backend.tools import find
from tkc.diagnostics import TkcError

needs_tools = pytest.mark.skipif(
    find_ptxas() is None or find("nvdisasm") is None,
    reason="no ptxas or nvdisasm here: pip install tkc[assemble]",
)

LISTING = """
	.section	.text.k,"ax",@progbits
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
.L_x_1:
        /*0010*/                   PLOP3.LUT P0, PT, PT, PT, PT, 0x80, 0x8 ;
.L_x_0:
        /*0020*/               @P0 ELECT P1, URZ, PT ;
        /*0030*/                   UTMALDG.2D [UR4], [UR8] ;
        /*0040*/              @P0 BRA.U.ANY `(.L_x_0) ;
.L_x_2:
        /*0050*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2 ;
        /*0060*/             @!UP0 BRA.U.ANY `(.L_x_2) ;
        /*0070*/               @P0 BRA.U.ANY `(.L_x_3) ;
.L_x_3:
        /*0080*/                   EXIT ;
"""


def test_instructions() -> None:
    code, labels = instructions(LISTING)
    assert len(code) == 9
    assert (code[2].kernel, code[2].address, code[2].text) == ("k", 0x20, "@P0 ELECT P1, URZ, PT")
    assert labels[("k", ".L_x_2")] == 0x50


def test_a_loop_is_told_from_a_spin_and_a_forward_branch() -> None:
    (loop,) = serial_loops(LISTING)
    assert (loop.kernel, loop.start, loop.end) == ("k", 0x20, 0x40)
    assert loop.work == ("UTMALDG.2D [UR4], [UR8]",)


def test_the_listing_of_cuobjdump() -> None:
    """It has addresses in place of labels, and another head."""
    listing = (
        LISTING.replace(".text.k:", "\t\tFunction : k")
        .replace("`(.L_x_0)", "0x20")
        .replace("`(.L_x_2)", "0x50")
    )
    listing = "\n".join(
        line
        for line in listing.replace("`(.L_x_3)", "0x80").splitlines()
        if not line.startswith(".L_x")
    )
    assert [(h.kernel, h.start) for h in serial_loops(listing)] == [("k", 0x20)]


HEAD = """.version {version}
.target {target}
.address_size 64
.file 1 "k.tk"
.extern .shared .align 1024 .b8 tile[];
"""
ENTRY = """
.visible .entry k{number}(.param .align 64 .b8 source[128])
{block}
{{
    .shared .align 8 .b64 full;
    .reg .pred p, q;
    .reg .b32 t, u, v, w, z;
    .reg .b64 from;
    .loc 1 {number} 1
    mov.u32 t, tile; mov.u32 u, full; mov.u32 z, 0;
    mov.b64 from, source; cvta.param.u64 from, from;
    {guard}
    @!p bra DONE;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [t], [from, {{z, z}}], [u];
DONE:
    ret;
}}
"""
REQNTID, MAXNTID = ".reqntid 128, 1, 1", ".maxntid 128, 1, 1"
WARP = "mov.u32 v, %tid.x; shr.u32 v, v, 5; setp.eq.u32 p, v, 0;"
GUARDS = {
    "elect.sync": (False, REQNTID, "elect.sync _|p, 0xffffffff;"),
    "elect.sync and a warp": (
        False,
        REQNTID,
        f"elect.sync _|q, 0xffffffff; {WARP} and.pred p, p, q;",
    ),
    "laneid == 0": (False, REQNTID, "mov.u32 v, %laneid; setp.eq.u32 p, v, 0;"),
    "tid == 0, block known": (False, REQNTID, "mov.u32 v, %tid.x; setp.eq.u32 p, v, 0;"),
    "tid == 0, block unknown": (True, MAXNTID, "mov.u32 v, %tid.x; setp.eq.u32 p, v, 0;"),
    "tid & 31 == 0": (True, REQNTID, "mov.u32 v, %tid.x; and.b32 v, v, 31; setp.eq.u32 p, v, 0;"),
    "laneid < 1": (True, REQNTID, "mov.u32 v, %laneid; setp.lt.u32 p, v, 1;"),
    "a warp": (True, REQNTID, WARP),
}
TARGETS = {"sm_90a": "8.0", "sm_100a": "8.6"}


@needs_tools
@pytest.mark.parametrize("target", list(TARGETS))
def test_guards(target: str) -> None:
    entries = [
        ENTRY.format(number=i, block=block, guard=guard)
        for i, (_, block, guard) in enumerate(GUARDS.values())
    ]
    ptx = HEAD.format(version=TARGETS[target], target=target) + "".join(entries)
    listing = sass(assemble(ptx, target).cubin, lines=True)
    code, _ = instructions(listing)
    looping = {loop.kernel for loop in serial_loops(listing)}
    for i, (guard, (loops, _, _)) in enumerate(GUARDS.items()):
        assert sum("UTMALDG" in c.text for c in code if c.kernel == f"k{i}") == 1, guard
        assert (f"k{i}" in looping) == loops, guard
    assert 'File "k.tk", line 5' in listing


@needs_tools
def test_rubbish() -> None:
    with pytest.raises(TkcError, match="TK210"):
        sass(b"no cubin")


def test_no_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    from tkc.backend import sass as module

    monkeypatch.setattr(module, "find", lambda name: None)
    with pytest.raises(TkcError, match=r"no disassembler found.*TK212"):
        module.sass(b"")

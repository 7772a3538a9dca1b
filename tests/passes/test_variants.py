"""Sizes, depths and dtypes of the GEMM through ptxas: no notice, no spill, registers as the passes meant."""

from __future__ import annotations

import pytest
from passes.programs import gemm, ptx

from tkc.backend.assemble import assemble
from tkc.backend.tools import find

needs_ptxas = pytest.mark.skipif(find("ptxas") is None, reason="no ptxas")

VARIANTS: list[tuple[str, dict[str, int | str]]] = [
    ("sm_90a", {"bm": 64, "bn": 16, "bk": 16, "stages": 1}),  # one slot: each release is immediate
    ("sm_90a", {"bm": 64, "bn": 256, "bk": 128, "stages": 2}),
    ("sm_90a", {"bm": 128, "bn": 24, "bk": 32, "stages": 3}),  # slices of one 16-byte span
    ("sm_90a", {"bm": 128, "bn": 200, "bk": 64, "stages": 3}),  # an odd eight of columns
    ("sm_90a", {"bm": 192, "bn": 128, "bk": 64, "stages": 3}),  # three row pieces in one warpgroup
    ("sm_90a", {"bm": 256, "bn": 128, "bk": 64, "stages": 3, "group": 1}),
    ("sm_90a", {"bm": 128, "bn": 128, "bk": 32, "stages": 4, "dtype": "tf32", "out": "f32"}),
    ("sm_90a", {"bm": 128, "bn": 96, "bk": 128, "stages": 4, "dtype": "e4m3", "out": "f16"}),
    ("sm_100a", {"bm": 64, "bn": 24, "bk": 16, "stages": 1, "depth": 1}),  # half the lanes
    ("sm_100a", {"bm": 64, "bn": 256, "bk": 128, "stages": 2}),
    ("sm_100a", {"bm": 128, "bn": 96, "bk": 32, "stages": 6, "group": 64}),
    (
        "sm_100a",
        {"bm": 256, "bn": 256, "bk": 64, "stages": 2},
    ),  # row blocks; a depth that does not fit
    ("sm_100a", {"bm": 128, "bn": 128, "bk": 32, "stages": 4, "dtype": "tf32", "out": "f32"}),
    ("sm_107a", {"bm": 128, "bn": 256, "bk": 64, "stages": 6}),
]


@needs_ptxas
@pytest.mark.parametrize(("target", "sizes"), VARIANTS, ids=str)
def test_a_variant_assembles_without_notices_or_spills(
    target: str, sizes: dict[str, int | str]
) -> None:
    """`assemble` raises on every notice, every warning and every spill."""
    made = assemble(ptx(gemm(**sizes), target), target, lineinfo=False)  # type: ignore[arg-type]
    assert made.registers["gemm"] <= 255


EPILOGUES = {
    "one map": """%e = tile.map %r, %r {{kind = "mul"}} : ({r}, {r}) -> ({r})""",
    "a chain": """%x = tile.map %r {{kind = "neg"}} : ({r}) -> ({r})
        %y = tile.map %x {{kind = "exp"}} : ({r}) -> ({r})
        %one = stage.const {{constant = 1.0 : f32}} : () -> (f32)
        %z = tile.map %y, %one {{kind = "add"}} : ({r}, f32) -> ({r})
        %s = tile.map %z {{kind = "rcp"}} : ({r}) -> ({r})
        %e = tile.map %r, %s {{kind = "mul"}} : ({r}, {r}) -> ({r})""",
}


@needs_ptxas
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_an_epilogue_stays_in_registers(target: str, epilogue: str) -> None:
    text = EPILOGUES[epilogue].format(r="!tile.regs<f32, [128, 256]>")
    assemble(ptx(gemm(epilogue=text), target), target, lineinfo=False)

"""What the assembler makes of the GEMM: tensor core, copy engine and commits are there, and no loop over lanes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tkc
from tkc.backend.sass import instructions, serial_loops
from tkc.backend.tools import find

GEMM = Path(__file__).parent.parent / "examples" / "gemm_bf16.tk"

pytestmark = pytest.mark.skipif(
    find("ptxas") is None or find("nvdisasm") is None, reason="no ptxas or no nvdisasm"
)

STEPS = 4
"""K steps of one stage: 64 elements in steps of 16."""

EXPECTED = {
    "sm_90a": {"HGMMA": STEPS, "UTMALDG": 2, "UTMASTG": 4, "USETMAXREG": 2, "STSM": 16},
    "sm_100a": {"UTCHMMA": STEPS, "UTMALDG": 2, "UTMASTG": 1, "UTCBAR": 2, "LDTM": 1},
    "sm_103a": {"UTCHMMA": STEPS, "UTMALDG": 2, "UTMASTG": 1, "UTCBAR": 2, "LDTM": 1},
    "sm_107a": {"UTCHMMA": STEPS, "UTMALDG": 2, "UTMASTG": 1, "UTCBAR": 2, "LDTM": 1},
}
"""How often each instruction of the chip stands in the kernel: one group of products, one box of each operand."""

VERSIONS = {"sm_90a": "8.0", "sm_100a": "8.6", "sm_103a": "8.8", "sm_100f": "8.8", "sm_107a": "9.4"}
"""The lowest `.version` that names the target and has every instruction."""


def opcodes(text: str) -> list[str]:
    """Each instruction's name without guard and modifiers."""
    found, _ = instructions(text)
    return [re.sub(r"^@\S+ ", "", i.text).split()[0].split(".")[0] for i in found]


@pytest.mark.parametrize("target", EXPECTED)
def test_the_chip_does_what_the_program_says(target: str) -> None:
    text = tkc.compile(GEMM, target=target).sass()
    found = opcodes(text)
    assert {name: found.count(name) for name in EXPECTED[target]} == EXPECTED[target]
    assert serial_loops(text) == []


@pytest.mark.parametrize("target", VERSIONS)
def test_the_text_asks_for_the_lowest_version(target: str) -> None:
    assert tkc.compile(GEMM, target=target).ptx.startswith(f".version {VERSIONS[target]}\n")

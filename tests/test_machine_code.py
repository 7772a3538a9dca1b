"""What the assembler makes of the GEMM: tensor core, copy engine and commits are there, and no loop over lanes."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
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
    "sm_107a": {"UTCHMMA": STEPS, "UTMALDG": 2, "UTMASTG": 1, "UTCBAR": 3, "LDTM": 1},
}
"""How often each instruction of the chip stands in the kernel: one group of products, one box of each operand. On sm_107a
A's slots are given back by themselves, when they are read."""

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


SCALED_STEPS = {"sm_100a": 4, "sm_103a": 4, "sm_107a": 2}
"""K steps of one stage of gemm_nvfp4: 256 elements in steps of 64, or 128."""


@pytest.mark.parametrize(
    ("target", "params"),
    [*((target, {}) for target in SCALED_STEPS), ("sm_103a", {"BK": 384, "STAGES": 2})],
)
def test_block_scales_are_copied_by_the_tensor_core(target: str, params: dict[str, int]) -> None:
    """An atom of scales of either operand for 64 elements of K, loads of data boxes and of two scale boxes.

    384 elements are six steps of 64, or four of 96, which lie in two spans.
    """
    text = tkc.compile(GEMM.with_name("gemm_nvfp4.tk"), target=target, params=params).sass()
    found = opcodes(text)
    expected = {"UTCOMMA": SCALED_STEPS[target], "UTCCP": 8, "UTMALDG": 4, "STL": 0, "LDL": 0}
    if params:
        expected |= {"UTCOMMA": 4, "UTCCP": 12, "UTMALDG": 6}
    assert {name: found.count(name) for name in expected} == expected
    assert serial_loops(text) == []


@pytest.mark.parametrize("target", VERSIONS)
def test_the_text_asks_for_the_lowest_version(target: str) -> None:
    assert tkc.compile(GEMM, target=target).ptx.startswith(f".version {VERSIONS[target]}\n")


# Guards as people write them

OF_A_WARP = (
    "lane == 0",
    "thread % 32 == 0",
    "(thread & 31) == 0",
    "warp == 0 and lane == 0",
    "warp == 0",
)
OF_A_ROLE = ("thread == 0", "warp == 0 and lane == 0", "lane == 0 and warp == 0", "(thread & 31) == 0 and warp == 0",
             "warp == 0")  # fmt: skip
LEVEL2 = {"sm_90a": "gemm_bf16_level2_sm90", "sm_100a": "gemm_bf16_level2"}
RIGHT: set[str] = set()
"""PTX that has been found right: several guards make the same text."""


def guarded(text: str, of_a_warp: str, of_a_role: str) -> str:
    """The program with its elections written as tests: in roles of one warp, and in the role that stores."""
    roles = text.split("\n    role ")
    for at, role in enumerate(roles[1:], 1):
        test = of_a_role if "warps 4" in role.split("\n")[0] else of_a_warp
        roles[at] = role.replace("elect:", f"if {test}:")
    return "\n    role ".join(roles)


@pytest.mark.share(2)
@pytest.mark.parametrize(("of_a_warp", "of_a_role"), [*zip(OF_A_WARP, OF_A_ROLE, strict=True)])
@pytest.mark.parametrize("target", LEVEL2)
def test_every_guard_of_one_thread_is_one_branch(
    target: str, of_a_warp: str, of_a_role: str
) -> None:
    """No loop over lanes is made of it, and the program stays right."""
    source = (GEMM.parent / f"{LEVEL2[target]}.tk").read_text(encoding="utf-8")
    kernel = tkc.compile(guarded(source, of_a_warp, of_a_role), target=target)
    if kernel.ptx in RIGHT:
        return
    assert serial_loops(kernel.sass()) == []
    numbers = np.random.default_rng()
    a, b = (numbers.uniform(-1, 1, (n, 136)).astype(ml_dtypes.bfloat16) for n in (200, 264))
    c = np.full((200, 264), np.nan, ml_dtypes.bfloat16)
    assert not kernel.emulate(a, b, c, sm_count=2).findings
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - wanted) < 3e-3 * np.linalg.norm(wanted)
    RIGHT.add(kernel.ptx)


# The page with the counts


def load_counts() -> ModuleType:
    path = Path(__file__).parent.parent / "bench" / "machine_code.py"
    spec = importlib.util.spec_from_file_location("machine_code", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COUNTS = load_counts()


@pytest.mark.parametrize(
    "name",
    [
        name if name == "NVFP4" else pytest.param(name, marks=pytest.mark.soak)
        for name in COUNTS.OURS
    ],
)
def test_the_page_says_what_is_made(name: str) -> None:
    counts = COUNTS.ours(name)
    assert COUNTS.row(f"**tkc** {name}", counts) in COUNTS.PAGE.read_text()
    assert (counts.loop_fences, counts.serial_loops, counts.spills) == (0, 0, 0)


def test_the_page_sets_whole_kernels_side_by_side() -> None:
    """Both tables say the same of a kernel, and those that others ship are there as they were counted."""
    page = COUNTS.PAGE.read_text()
    rows = [
        [c.strip() for c in line.split("|")[1:-1]]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    long = {r[0]: [r[1], r[2], r[5]] for r in rows if len(r) == len(COUNTS.COLUMNS)}
    short = {r[0]: r[1:] for r in rows if len(r) == 4}
    both = [name for name in short if name in long and name != "kernel"]
    assert len(both) == len(short) - len(COUNTS.SHIPPED) - 1
    assert [long[name] for name in both] == [short[name] for name in both]
    for name, (_, *counts) in COUNTS.SHIPPED.items():
        assert short[name] == [*map(str, counts)]
    assert "**tkc** NVFP4" in short
    assert "ThunderKittens nvfp4_b200, N = 256" in short


def test_the_page_says_what_joining_copies_saves() -> None:
    text = COUNTS.before_and_after("gemm_nvfp4_slow")
    assert text in COUNTS.PAGE.read_text()
    assert "| waits for barriers | 5 | 2 |" in text


def test_peers_take_more_instructions_for_a_product() -> None:
    """Of the page: products are of the same size, so that fewer instructions for each are fewer in all."""
    rows = [
        line.split(" | ")
        for line in COUNTS.PAGE.read_text().splitlines()
        if line.count("|") > 5 and ("b200" in line or "**tkc**" in line)
    ]
    assert len(rows) == len(COUNTS.OURS) + len(COUNTS.peers())
    rows = [r for r in rows if ", sm_" not in r[0]]
    for word, peer in (
        ("bf16", "bf16_b200"),
        ("e4m3", "fp8_b200"),
        ("MXFP8", "mxfp8_b200"),
        ("NVFP4", "nvfp4_b200"),
    ):
        mine = [r for r in rows if f"**tkc** {word}" in r[0]]
        theirs = [r for r in rows if peer in r[0]]
        for column in (10, 11):
            assert max(float(r[column]) for r in mine) < min(float(r[column]) for r in theirs), word

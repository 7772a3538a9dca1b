"""Failures that users of other compilers met, by their numbers: each has a test, or a reason why it has none yet."""

from __future__ import annotations

import re
from pathlib import Path

CASES = {
    "FE": (1, 3, 5), "LAY": (1, 3, 5, 7, 9, 11), "TMA": (1, 3, 5, 7, 9), "TGT": (1, 3, 5, 7), "REG": (1, 3),
    "SHP": (1, 3, 5, 7, 9, 11), "LCH": (1, 3, 5, 7), "CVG": (1, 3, 5), "NUM": (1, 3, 5, 7, 9, 11),
    "TMM": (1, 3, 5, 7, 9, 11), "CTA2": (1, 3, 5, 7, 9),
}  # fmt: skip
"""Front end, layouts, copies, targets, registers, shapes, launches, convergence, numbers, tensor memory, pairs.

Block scales are tested where their code is: `test_bsc_N` of tests/emulator, tests/frontend and tests/backend.
"""
BSC = (1, 3, 5, 7, 9)

PARTS_WITHOUT_A_TEST = {
    "NUM-7": "merging of split rows, for which the language has no words; rows of which nothing counts are tested",
    "NUM-9": "beta · C: an epilogue reads what it names and nothing else; there is no beta to be 0",
}
"""What of a case needs features that are not there."""


def test_each_case_has_a_test() -> None:
    texts = "\n".join(
        p.read_text(encoding="utf-8") for p in Path(__file__).parent.glob("test_*.py")
    )
    named = set(re.findall(r"^def test_\w+", texts, re.MULTILINE))
    tested = {m for name in named for m in re.findall(r"([A-Z]+2?_\d+)(?=_)", name)}
    assert {f"{kind}_{n}" for kind, numbers in CASES.items() for n in numbers} == tested
    others = "\n".join(
        p.read_text(encoding="utf-8") for p in Path(__file__).parents[1].glob("*/test_*.py")
    )
    assert {*BSC} <= {int(n) for n in re.findall(r"^def test_bsc_(\d+)_", others, re.MULTILINE)}
    assert all(case.replace("-", "_") in tested for case in PARTS_WITHOUT_A_TEST)

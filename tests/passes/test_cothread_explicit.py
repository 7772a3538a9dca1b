"""Copies of block scales between barriers that a program spells out: what moves, what stays and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tkc
from tkc.analysis.happens_before import check
from tkc.driver import run
from tkc.job import Job
from tkc.passes import pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOW = (EXAMPLES / "gemm_nvfp4_level2_slow.tk").read_text(encoding="utf-8")

COPIES = """\
                wait full[slot], phase
                wait spare[slot], phase ^ 1
                fence tcgen05 after
                elect:
                    copy sa[slot] <- a[slot].scales
                    copy sb[slot] <- b[slot].scales
                    commit ready[slot]
"""
PRODUCTS = """\
                wait ready[slot], phase
                fence tcgen05 after
                elect:
                    mma d[i] += a[slot].scaled(sa[slot]) @ b[slot].scaled(sb[slot]).T, not k.first
                    commit empty[slot]
                    commit spare[slot]
"""
assert COPIES in SLOW
assert PRODUCTS in SLOW


def changed(*changes: tuple[str, str]) -> str:
    text = SLOW
    for old, new in changes:
        assert old in text, f"no {old!r}"
        text = text.replace(old, new)
    return text


def without_lines(text: str) -> str:
    """PTX without the places in the source and the kernel's name."""
    kept = [line for line in text.splitlines() if not re.match(r"\s*(\.loc|\.file)", line)]
    return re.sub(r"gemm_nvfp4_level2(_slow)?", "gemm", "\n".join(kept))


def ptx(source: str | Path) -> str:
    return without_lines(tkc.compile(source, target="sm_100a").ptx)


FAST = ptx(EXAMPLES / "gemm_nvfp4_level2.tk")


def told(text: str) -> str:
    """The one remark about the copies."""
    job = Job(text, "k.tk", "sm_100a")
    (found,) = [d.message for d in run(job).diagnostics if d.code == "TK222"]
    return found


MOVES = {
    "as it stands": [],
    "products that wait for the tiles, too": [(PRODUCTS, "                wait full[slot], phase\n" + PRODUCTS)],
    "copies that free the tiles, too": [
        ("barrier empty * STAGES, count = 1", "barrier empty * STAGES, count = 2"),
        ("                    commit ready[slot]\n", "                    commit ready[slot]\n                    commit empty[slot]\n"),
    ],
    "no barrier of the columns": [
        ("    barrier spare * STAGES, count = 1\n", ""),
        ("                wait spare[slot], phase ^ 1\n                fence tcgen05 after\n", ""),
        ("                    commit spare[slot]\n", ""),
    ],
    "waits in the election": [
        ("                wait ready[slot], phase\n                fence tcgen05 after\n                elect:\n",
         "                elect:\n                    wait ready[slot], phase\n                    fence tcgen05 after\n"),
    ],
    "other names": [(COPIES, COPIES.replace("slot", "s").replace("phase", "p"))],
    "a phase by itself": [(COPIES, COPIES.replace("phase ^ 1", "1 - phase"))],
}  # fmt: skip
MOVES["other names"] = [
    (COPIES + SLOW.split(COPIES)[1].split("\n\n")[0],
     re.sub(r"\bphase\b", "p", re.sub(r"\bslot\b", "s", COPIES + SLOW.split(COPIES)[1].split("\n\n")[0]))),
    ("    role move:\n        slot = 0\n        phase = 0\n", "    role move:\n        s = 0\n        p = 0\n"),
]  # fmt: skip


@pytest.mark.parametrize("changes", MOVES.values(), ids=MOVES)
def test_the_role_and_its_barriers_go(changes: list[tuple[str, str]]) -> None:
    text = changed(*changes)
    assert re.match(r"copies of role move move to the products of role math: barriers ready.* are gone", told(text))
    made = ptx(text)
    if "waits in the election" not in [n for n, c in MOVES.items() if c is changes]:
        assert made == FAST
    assert made.count("tcgen05.cp") == FAST.count("tcgen05.cp")
    assert made.count("mbarrier.init") == FAST.count("mbarrier.init")


STAYS = {
    "loops that differ": (
        [(COPIES, COPIES), ("    role move:\n        slot = 0\n        phase = 0\n        for m, n in work:\n            for k in blocks(K, BK):\n",
          "    role move:\n        slot = 0\n        phase = 0\n        for m, n in work:\n            for k in range(cdiv(K, BK)):\n                sync warp\n")],
        "role move does more than copy (stage.warp_sync)",
    ),
    "one block more": (
        [("    role move:\n        slot = 0\n        phase = 0\n        for m, n in work:\n            for k in blocks(K, BK):\n",
          "    role move:\n        slot = 0\n        phase = 0\n        for m, n in work:\n            for k in range(cdiv(K, BK) + 1):\n")],
        "the loops round those of role move and the products of role math differ",
    ),
    "another first slot": (
        [("    role move:\n        slot = 0\n", "    role move:\n        slot = 1\n")],
        "role math waits for no barrier that they alone complete",
    ),
    "no election": (
        [(COPIES, COPIES.replace("elect:", "if lane == 0:"))],
        "stage.copy_scales stands in several places, or in no election of one thread",
    ),
    "several elections": (
        [(COPIES, COPIES.replace("                    copy sb", "                elect:\n                    copy sb"))],
        "stage.copy_scales stands in several places, or in no election of one thread",
    ),
    "a second reader of the signal": (
        [("        for m, n in work:\n            wait done[i], turn\n", "        for m, n in work:\n            wait ready[0], 0\n            wait done[i], turn\n")],
        "role math waits for no barrier that they alone complete",
    ),
    "a barrier that others wait for": (
        [("    barrier ready *", "    barrier other * STAGES, count = 1\n    barrier ready *"),
         ("                    commit ready[slot]\n", "                    commit ready[slot]\n                    commit other[slot]\n")],
        "role move also says on barrier other that they are done",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "why"), STAYS.values(), ids=STAYS)
def test_what_stays_says_why(changes: list[tuple[str, str]], why: str) -> None:
    assert told(changed(*changes)) == f"copies of role move are not moved to the products: {why}"


def test_columns_that_products_may_still_read_stay() -> None:
    """Scales in a ring of two slots: only their own barrier says when the products have left them."""
    text = changed(
        ("sa: scales[ue4m3 / 16, BM, BK] * STAGES", "sa: scales[ue4m3 / 16, BM, BK] * 1"),
        ("copy sa[slot]", "copy sa[0]"),
        (".scaled(sa[slot])", ".scaled(sa[0])"),
        ("spare * STAGES", "spare * 1"),
        ("wait spare[slot], phase ^ 1", "wait spare[0], flip ^ 1"),
        ("commit spare[slot]", "commit spare[0]"),
        ("    role move:\n", "    role move:\n        flip = 0\n"),
        ("                    commit ready[slot]\n", "                    commit ready[slot]\n                flip = flip ^ 1\n"),
    )
    assert told(text) == (
        "copies of role move are not moved to the products: without their barriers, nothing orders the tensor-memory "
        "read of sa by scaled_mma in role math and the tensor-memory write of sa by copy_scales in role math, "
        "1 iteration of k later"
    )


@pytest.mark.parametrize("apart", [True, False])
def test_every_access_is_in_order_before_and_after(apart: bool) -> None:
    passes = pipeline("sm_100a")
    if apart:
        passes = passes.replace("cothread-copies,", "")
    kernel = tkc.compile(SLOW, passes=passes, params={"STAGES": 3})
    assert [f.message for f in check(kernel.module(after="insert-fences"))] == []

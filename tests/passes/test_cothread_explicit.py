"""Copies of block scales between barriers that a program spells out: what moves, what stays and why."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import tkc
from tkc.analysis.happens_before import check
from tkc.driver import run
from tkc.job import Job
from tkc.passes import pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOW = (EXAMPLES / "gemm_nvfp4_level2_slow.tk").read_text(encoding="utf-8")

START = """\
    role move:
        slot = 0
        phase = 0
        for m, n in work:
            for k in blocks(K, BK):
"""
WAIT = "wait ready[slot], phase"
READY = "                    commit ready[slot]\n"
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
ROLE = START + SLOW.split(START)[1].split("\n\n")[0]
assert START in SLOW
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


@cache
def fast() -> str:
    return ptx(EXAMPLES / "gemm_nvfp4_level2.tk")


def told(text: str) -> str:
    """The one remark about the copies."""
    job = Job(text, "k.tk", "sm_100a")
    (found,) = [d.message for d in run(job).diagnostics if d.code == "TK222"]
    return found


MOVES = {
    "as it stands": [],
    "products that wait for the tiles, too": [
        (PRODUCTS, "                wait full[slot], phase\n" + PRODUCTS)
    ],
    "copies that free the tiles, too": [
        ("barrier empty * STAGES, count = 1", "barrier empty * STAGES, count = 2"),
        (READY, READY + "                    commit empty[slot]\n"),
    ],
    "no barrier of the columns": [
        ("    barrier spare * STAGES, count = 1\n", ""),
        ("                wait spare[slot], phase ^ 1\n                fence tcgen05 after\n", ""),
        ("                    commit spare[slot]\n", ""),
    ],
    "waits in the election": [
        (f"                {WAIT}\n                fence tcgen05 after\n                elect:\n",
         f"                elect:\n                    {WAIT}\n                    fence tcgen05 after\n")
    ],
    "other names": [(ROLE, re.sub(r"\bphase\b", "p", re.sub(r"\bslot\b", "s", ROLE)))],
    "a phase by itself": [(COPIES, COPIES.replace("phase ^ 1", "1 - phase"))],
}  # fmt: skip


@pytest.mark.parametrize("changes", MOVES.values(), ids=MOVES)
def test_the_role_and_its_barriers_go(changes: list[tuple[str, str]]) -> None:
    text = changed(*changes)
    assert re.match(
        r"copies of role move move to the products of role math: barriers ready.* are gone",
        told(text),
    )
    made = ptx(text)
    if "waits in the election" not in [n for n, c in MOVES.items() if c is changes]:
        assert made == fast()
    assert made.count("tcgen05.cp") == fast().count("tcgen05.cp")
    assert made.count("mbarrier.init") == fast().count("mbarrier.init")


LOADED = "                    load b[slot] <- B[n, k], full[slot]\n"
STORED = """\
    role store, warps 4:
        i = 0
        turn = 0
        for m, n in work:
"""
BEFORE_STORED = (
    STORED.replace("        for m", "        slot = 0\n        phase = 0\n        for m")
    + START.split("work:\n")[1]
    + COPIES
    + SLOW.split(COPIES)[1].split("\n\n")[0]
    + "\n"
)
ELSEWHERE = {
    "a role that does more": ("move", [(START, START + "                sync warp\n")]),
    "the loader": ("load", [(ROLE + "\n\n", ""), (LOADED, LOADED + COPIES)]),
    "the role that stores": ("store", [(ROLE + "\n\n", ""), (STORED, BEFORE_STORED)]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("role", "changes"),
    [
        pytest.param(*case, id=name, marks=[] if name == "the loader" else pytest.mark.soak)
        for name, case in ELSEWHERE.items()
    ],
)
def test_copies_leave_a_role_that_does_more(role: str, changes: list[tuple[str, str]]) -> None:
    """The role stays, without its copies and without what it did for them; nothing is left out of order."""
    text = changed(*changes)
    assert (
        told(text)
        == f"copies of role {role} move to the products of role math: barriers ready and spare are gone"
    )
    kernel = tkc.compile(text)
    assert [f.message for f in check(kernel.module(after="insert-fences"))] == []
    found = [
        re.findall(r"(?:tcgen05|mbarrier|cp\.async|fence)\.[\w.:]+", made)
        for made in (without_lines(kernel.ptx), fast())
    ]
    assert found[0] == found[1]


ROLE_OF_OTHERS = """\
    role others:
        elect:
            mma d[0] += a[0].scaled(sa[0]) @ b[0].scaled(sb[0]).T"""

STAYS = {
    "one block more": (
        [(START, START.replace("blocks(K, BK)", "range(cdiv(K, BK) + 1)"))],
        "the loops or conditions round those of role move and the products of role math differ",
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
        [("                    copy sb", "                elect:\n                    copy sb")],
        "stage.copy_scales stands in several places, or in no election of one thread",
    ),
    "a second reader of the signal": (
        [("            wait done[i], turn\n", "            wait ready[0], 0\n            wait done[i], turn\n")],
        "role math waits for no barrier that they alone complete",
    ),
    "a wait that the products do not make": (
        [("    barrier ready *", "    barrier other * STAGES, count = 1\n    barrier ready *"),
         ("                wait spare", "                wait other[i], 0\n                wait spare"),
         (START, START.replace("slot = 0", "slot = 0\n        i = 3")),
         ("load a[slot]", "arrive other[slot]\n                    load a[slot]")],
        "role math has no number of the same slot or phase at the products",
    ),
    "two roles that multiply": (
        [("    role store,", ROLE_OF_OTHERS + "\n\n    role store,")],
        "roles math and others read them",
    ),
    "a barrier that others wait for": (
        [("    barrier ready *", "    barrier other * STAGES, count = 1\n    barrier ready *"),
         (READY, READY + "                    commit other[slot]\n")],
        "role move also says on barrier other that they are done",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "why"), STAYS.values(), ids=STAYS)
def test_what_stays_says_why(changes: list[tuple[str, str]], why: str) -> None:
    assert told(changed(*changes)) == f"copies of role move are not moved to the products: {why}"


def test_columns_that_products_may_still_read_stay() -> None:
    """Scales of A in one slot: only their own barrier says when the products have left them."""
    text = changed(
        ("sa: scales[ue4m3 / 16, BM, BK] * STAGES", "sa: scales[ue4m3 / 16, BM, BK] * 1"),
        ("copy sa[slot]", "copy sa[0]"),
        (".scaled(sa[slot])", ".scaled(sa[0])"),
        ("spare * STAGES", "spare * 1"),
        ("wait spare[slot], phase ^ 1", "wait spare[0], flip ^ 1"),
        ("commit spare[slot]", "commit spare[0]"),
        ("    role move:\n", "    role move:\n        flip = 0\n"),
        (
            READY,
            "                    commit ready[slot]\n                flip = flip ^ 1\n",
        ),
    )
    said = told(text)
    assert said.startswith(
        "copies of role move are not moved to the products: without their barriers, nothing orders"
    )
    assert said.endswith("write of sa by `copy` in role math, 1 iteration of k later")


@pytest.mark.parametrize("apart", [True, False])
def test_every_access_is_in_order_before_and_after(apart: bool) -> None:
    passes = pipeline("sm_100a")
    if apart:
        passes = passes.replace("cothread-copies,", "")
    kernel = tkc.compile(SLOW, passes=passes, params={"STAGES": 3})
    assert [f.message for f in check(kernel.module(after="insert-fences"))] == []

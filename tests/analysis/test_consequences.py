"""One mistake is one diagnostic, with what comes of it as notes; two mistakes are two."""

from __future__ import annotations

import pytest

from tests.analysis.bug_cases import changed
from tests.analysis.test_twins import diagnosed
from tests.analysis.twins import HANDED, RING

IN_PLACE = """\
kernel k(X: global[f32, N], Y: global[f32, N]):
    launch persistent
    schedule work: n in blocks(N, 128)
    shared v: vector[f32, 128]
    barrier full, count = 1
    role all, warps 4:
        phase = 0
        for n in work:
            elect:
                expect full, bytes(v)
                load v <- X[n], full
            wait full, phase
            phase = phase ^ 1
            v[0][thread] <- read(v[0][thread]) * 2
            fence proxy shared
            sync role
            elect:
                store Y[n] <- v
                commit stores
                wait stores, read
"""

TWO_READERS = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 32))
    shared x: tile[f32, 64, 32] * 2
    barrier full * 2, count = 1
    barrier empty * 2, count = 8
    role load:
        t = 0
        for m, n in work:
            wait empty[t % 2], t // 2 % 2 ^ 1
            elect:
                expect full[t % 2], bytes(x)
                load x[t % 2] <- X[m, n], full[t % 2]
            t = t + 1
    role add[i in 0, 1], warps 4:
        t = 0
        for m, n in work:
            wait full[t % 2], t // 2 % 2
            for r in range(8):
                Y[m.index * 64 + r * 8 + i * 4 + warp, n.index * 32 + lane] <- read(x[t % 2][r * 8 + i * 4 + warp, lane])
            fence proxy shared
            sync warp
            arrive empty[t % 2], each = warp
            t = t + 1
"""

ONE_MISTAKE = {
    # a missing fence is missing for all that its threads did
    "fence": (IN_PLACE, ("            fence proxy shared\n", ""), "TK302", "store Y"),
    # a missing wait: the copy meets the next one, and may be under way at the end
    "wait": (RING, ("            wait full[i], phase\n", ""), "TK301", "read(x[i])"),
    "release": (RING, ("            wait empty[i], phase ^ 1\n", ""), "TK309", "load x"),
    # copies of a role
    "roles": (TWO_READERS, ("            fence proxy shared\n", ""), "TK302", "load x"),
    "slot": (
        HANDED,
        ("            phase = phase ^ i\n            i = 1 - i\n    role store", "            i = 1 - i\n    role store"),
        "TK306",
        "wait free",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ONE_MISTAKE.values(), ids=ONE_MISTAKE)
def test_one_mistake_is_told_once(case: tuple[str, tuple[str, str], str, str]) -> None:
    good, change, code, line = case
    assert diagnosed(good, "sm_90a") == []
    text = changed(good, change)
    [told] = diagnosed(text, "sm_90a")
    assert told.code == code
    assert told.location is not None
    assert line in text.splitlines()[told.location.line - 1]


def test_what_comes_of_it_is_a_note() -> None:
    [told] = diagnosed(changed(RING, ("            wait full[i], phase\n", "")), "sm_90a")
    also = [n for n in told.notes if n.message.startswith("so, too: ")]
    assert [n.location.line if n.location else 0 for n in also] == [15, 15]
    assert "may end while" in also[1].message


TO_AND_FRO = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared x: tile[f32, 128, 32]
    shared y: tile[f32, 128, 32]
    pipe there(x): load -> math
    pipe back(y): math -> load
    role load:
        for m, n in work:
            get back: Y[m, n] <- y
            put there: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get there: v = read(x)
            put back: y <- v
"""


def test_a_ring_of_waits_is_one_deadlock() -> None:
    assert [d.code for d in diagnosed(TO_AND_FRO, "sm_90a")] == ["TK314"]


def test_two_mistakes_are_two() -> None:
    both = changed(
        HANDED,
        ("            wait ready[i], phase\n", ""),
        ("            wait empty, phase ^ 1\n", ""),
    )
    said = [
        (d.code, both.splitlines()[d.location.line - 1].split()[0])
        for d in diagnosed(both, "sm_90a")
        if d.location
    ]
    assert said == [("TK309", "load"), ("TK301", "store")]


PHASE = "            phase = phase ^ i\n            i = 1 - i\n        elect: wait stores\n"


def test_a_phase_that_is_not_followed_hides_no_hang() -> None:
    unknown = changed(RING, (PHASE, PHASE.replace("^ i", "^ (m.index % 2)")))
    assert [d.code for d in diagnosed(unknown, "sm_90a")] == ["TK306"]
    stuck = changed(unknown, ("wait empty[i], phase ^ 1", "wait empty[i], phase"))
    assert [d.code for d in diagnosed(stuck, "sm_90a")] == ["TK306", "TK314"]


def test_grids_that_no_role_waits_for_are_one_mistake() -> None:
    late = changed(
        RING,
        ("launch persistent", "launch persistent, dependent"),
        ("        elect: wait stores\n", "        elect: wait stores\n        wait pdl\n"),
    )
    (found,) = diagnosed(late, "sm_90a")
    assert (found.code, len(found.notes)) == ("TK318", 1)
    assert "so, too: role math touches global memory" in found.notes[0].message

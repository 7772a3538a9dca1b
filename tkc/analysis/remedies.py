"""What mends a barrier, in the words of a program that spells it out."""

from __future__ import annotations

TURNS = (
    "a slot and a phase that go on in each turn in which the barrier is used: `slot = slot + 1`, and behind the last "
    "slot `slot = 0` and `phase = phase ^ 1`; `tkc emulate` tries the program as it is"
)
"""Where it is not known which item a wait or an arrival is for."""

BRANCHES = (
    "the arrival in every branch, or a barrier of its own for each role that takes turns; `tkc emulate` tries the "
    "program as it is"
)
"""Where a condition decides who arrives."""

FREE = (
    "a wait that is to pass before anything has arrived, as for a slot that is free at first, takes the other parity: "
    "`wait empty[slot], phase ^ 1`"
)
"""Where waits come before what would end them."""

AHEAD = "a wait for the item itself, not for the one before in its slot: `wait full[slot], phase` without `^ 1`"
"""Where a wait passes before what it is to wait for."""


def of_count(barrier: str, needed: int, given: int, sometimes: bool, copied: bool) -> str:
    """Where a phase gets another number of arrivals than completes it; `sometimes`: others get some; `copied`: copies
    complete on the barrier."""
    if not given and sometimes:
        return BRANCHES
    if not given and copied:
        return (
            f"`expect {barrier}[slot], bytes(a)` ahead of the copies into it: it is an arrival, too"
        )
    if not given:
        return f"`arrive {barrier}[slot]`, or behind products `commit {barrier}[slot]`, by who is done with the item"
    return f"`count = {given}` where {barrier} is declared, or {'more' if given < needed else 'fewer'} arrivals"

"""The banks of shared memory: in how many turns the accesses of one warp instruction are served.

Shared memory has 32 banks of 4 bytes; one turn (a wavefront) gives each bank one word, which any number of lanes may
share (CUDA C++ Programming Guide, shared memory). Wide accesses are served by groups of lanes, 128 bytes at most in a
turn: 32 lanes of up to 4 bytes, 16 of 8, 8 of 16; so are the 8 rows of each matrix of ldmatrix and stmatrix.
"""

from __future__ import annotations

from collections.abc import Sequence

BANKS = 32
WORD = 4
TURN = BANKS * WORD
"""Bytes that one turn moves at most."""


def lanes_in_a_turn(size: int) -> int:
    """Lanes, or rows of matrices, of `size` bytes that are served together."""
    return min(32, TURN // size)


def wavefronts(addresses: Sequence[int], size: int) -> int:
    """Turns for one access of `size` bytes at each address, in the order of lanes; a lane that is off has none."""
    group = lanes_in_a_turn(size)
    return sum(
        _turns(addresses[first : first + group], size) for first in range(0, len(addresses), group)
    )


def least(count: int, size: int) -> int:
    """Turns for `count` accesses without a conflict."""
    return -(-count // lanes_in_a_turn(size))


def _turns(addresses: Sequence[int], size: int) -> int:
    """The most different words that one bank has to give."""
    words: dict[int, set[int]] = {}
    for address in addresses:
        for word in range(address // WORD, (address + size - 1) // WORD + 1):
            words.setdefault(word % BANKS, set()).add(word)
    return max(len(found) for found in words.values())

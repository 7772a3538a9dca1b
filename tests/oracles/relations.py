"""Relations on a few dozen events, as rows of bits: `r[a]` has bit b where a is before b."""

from __future__ import annotations

from collections.abc import Iterator

Relation = list[int]


def bits(mask: int) -> Iterator[int]:
    """The positions of the ones."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def empty(n: int) -> Relation:
    return [0] * n


def union(*relations: Relation) -> Relation:
    result = list(relations[0])
    for r in relations[1:]:
        for i, row in enumerate(r):
            result[i] |= row
    return result


def compose(first: Relation, then: Relation) -> Relation:
    result = empty(len(first))
    for a, row in enumerate(first):
        for b in bits(row):
            result[a] |= then[b]
    return result


def closure(relation: Relation) -> Relation:
    """The transitive closure (Warshall, a row at a time)."""
    r = list(relation)
    for k in range(len(r)):
        bit, row = 1 << k, r[k]
        for i in range(len(r)):
            if r[i] & bit:
                r[i] |= row
    return r


def inverse(relation: Relation) -> Relation:
    result = empty(len(relation))
    for a, row in enumerate(relation):
        for b in bits(row):
            result[b] |= 1 << a
    return result


def acyclic(relation: Relation) -> bool:
    return all(not row >> i & 1 for i, row in enumerate(closure(relation)))


def disjoint(a: Relation, b: Relation) -> bool:
    return all(not x & y for x, y in zip(a, b, strict=True))

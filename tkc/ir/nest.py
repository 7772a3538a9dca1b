"""Where an operation stands: the operations round it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from xdsl.ir import Block, Operation


def around(place: Operation | Block) -> Iterator[Operation]:
    """The operations round an operation or block, innermost first."""
    block = place if type(place) is Block else place.parent
    while block is not None:
        region = block.parent
        if region is None or region.parent is None:
            return
        yield region.parent
        block = region.parent.parent


def outward(op: Operation) -> Iterator[Operation]:
    """An operation, and then those round it."""
    return chain((op,), around(op))

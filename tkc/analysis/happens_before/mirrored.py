"""Which accesses of a CTA's memory are those of another CTA's with the numbers of the two changed, so that pairs of
them are judged once.

`Symmetry.swaps` are automorphisms of the graph: with all numbers of CTAs changed by one of them, each role is one that
does the same, and each barrier one that is equal. Where also all that a verdict asks of bytes and slots is the same in
an access and in its image, a pair has the verdict of its image.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from tkc.ir.isa.memory import Space

if TYPE_CHECKING:
    from tkc.analysis.happens_before.graph import Graph, Node
    from tkc.analysis.happens_before.verdicts import Place

Images = list[int | None]
"""Of each place of a buffer, where its image is among those of the same buffer in another CTA; None: it has none that
is the same in all that is asked of it."""


def images_of(graph: Graph, found: Mapping[Hashable, list[Place]]) -> dict[Hashable, Images]:
    """The images of places, by space, buffer and owner; only where these are a CTA's that is looked at before."""
    swaps = graph.symmetry.swaps
    if not swaps:
        return {}
    nodes: dict[Hashable, Node] = {}
    for node in graph.nodes:
        role = node.role
        nodes[role.declared or role.name, role.copy, role.cta, node.number] = node
    images: dict[Hashable, Images] = {}
    for key, here in found.items():
        space, place, owner = key  # pyright: ignore
        least, swap = min((owner ^ k, k) for k in (0, *swaps))
        if swap and space in (Space.SHARED, Space.TENSOR) and (space, place, least) in found:
            at = {(p.node, id(p.access)): n for n, p in enumerate(found[space, place, least])}
            images[key] = [_image(p, swap, nodes, at) for p in here]
    return images


def judged_before(images: Images, first: int, second: int) -> bool:
    """Whether the images of two places are a pair that is judged, in this order."""
    one, other = images[first], images[second]
    return one is not None and other is not None and one <= other


def _image(
    place: Place, swap: int, nodes: dict[Hashable, Node], at: dict[Hashable, int]
) -> int | None:
    node, role = place.node, place.node.role
    other = nodes.get((role.declared or role.name, role.copy, role.cta ^ swap, node.number))
    if other is None or other.event is None or node.event is None or place.turns is not None:
        return None
    number = next(n for n, a in enumerate(node.event.accesses) if a is place.access)
    image = other.event.accesses[number]
    a, b = place.access, image
    slots = [(s.before, s.period) if s is not None else None for s in (a.slot, b.slot)]
    same = (
        slots[0] == slots[1]
        and (a.part, a.region, a.lines, a.atomic) == (b.part, b.region, b.lines, b.atomic)
        and a.share is b.share is None
        and (a.area is b.area or a.area == b.area)
    )
    return at.get((other, id(image))) if same else None

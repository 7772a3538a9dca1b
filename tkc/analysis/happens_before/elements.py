"""Whether threads of one statement touch different elements, and work units different parts of a tensor.

Units have no order among them but by flags in global memory, which are not followed: where a kernel acquires at the
scope of the GPU, that is a warning. What cannot be decided is not reported here: the emulator sees it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation

from tkc.analysis.guards import Varies, varies
from tkc.analysis.happens_before.areas import Area, meet, shared
from tkc.analysis.happens_before.events import Access, Role, ThreadFence
from tkc.analysis.happens_before.graph import Graph, Node
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.happens_before.verdicts import Place, places
from tkc.analysis.moments import finding_at
from tkc.ir.isa.memory import Scope, Space
from tkc.ir.nest import around
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import ElementOp, LoadElementOp, StoreElementOp
from tkc.ir.stage.scalar import ConstOp


def check_elements(graph: Graph) -> Iterator[Finding]:
    """Stores of several threads of one statement to one element (A16: of different values)."""
    for node in graph.nodes:
        if node.event is None or graph.symmetry.repeats(node.role):
            continue
        for access in node.event.accesses:
            if access.element and access.write and not access.atomic and access.area is not None:
                yield from _collision(node, access, access.area)


def _collision(node: Node, access: Access, area: Area) -> Iterator[Finding]:
    event = node.event
    assert event is not None
    threads = shared(area, node.threads)
    if threads is None or not isinstance(event.op, StoreElementOp):
        return
    if varies(event.op.source) is Varies.NOWHERE or not area.known:
        return
    yield finding_at(
        "TK301",
        node,
        f"threads {threads[0]} and {threads[1]} of role {node.role.name} store to one element in {event.told}, and "
        "nothing orders them: an index that differs between all threads that come to it, one thread only, or an atomic "
        "operation",
    )


# Flags ---------------------------------------------------------------------------------------------------------------


def flags(graph: Graph) -> frozenset[tuple[Role, Role]]:
    """Roles of which the first may tell the second by a word that it releases and the other acquires.

    What such words order is followed in the simplest form (`words.py`); else nothing is said of what two such roles
    touch.
    """
    released: dict[Hashable, set[Role]] = {}
    acquired: dict[Hashable, set[Role]] = {}
    for node in graph.nodes:
        op = node.event.op if node.event is not None else None
        if isinstance(op, ElementOp) and op.strong:
            word = _word(op, "sem")
            place: Hashable = op.place  # pyright: ignore
            touched = node.event.accesses if node.event is not None else ()
            if not touched or ("word", touched[0].buffer) in graph.program.barriers:
                continue
            if word in ("release", "acq_rel") or (
                not isinstance(op, LoadElementOp) and _fences(node)
            ):
                released.setdefault(place, set()).add(node.role)
            if word in ("acquire", "acq_rel") or (
                not isinstance(op, StoreElementOp) and _fences(node)
            ):
                acquired.setdefault(place, set()).add(node.role)
    return frozenset(
        (one, other)
        for place, roles in released.items()
        for one in roles
        for other in acquired.get(place, ())
    )


def _fences(node: Node) -> bool:
    """Whether the role of a node has fences of threads, which make releases and acquires of relaxed accesses."""
    return any(
        isinstance(e.act, ThreadFence) and not isinstance(e.op, ElementOp)
        for e in node.role.events()
    )


def _word(op: Operation, name: str) -> str:
    found = op.properties.get(name)
    return found.data if isinstance(found, StringAttr) else ""


# Work units ----------------------------------------------------------------------------------------------------------


def check_units(graph: Graph) -> Iterator[Finding]:
    """Writes of a tensor that meet an access of another work unit."""
    if graph.program.alone:
        return
    for here in places(graph).values():
        if here[0].access.space is Space.GLOBAL and any(p.access.write for p in here):
            yield from _between_units([p for p in here if not graph.symmetry.repeats(p.node.role)])


def acquires_of_units(graph: Graph) -> bool:
    """Whether a kernel may learn of what another work unit did, so that units have an order which is not followed."""
    return any(_acquires(node) for node in graph.nodes)


def _acquires(node: Node) -> bool:
    """Whether a node may learn of what another work unit did."""
    event = node.event
    if event is None:
        return False
    if isinstance(event.act, ThreadFence):
        return event.act.scope in (Scope.GPU, Scope.SYS)
    op = event.op
    if not isinstance(op, ElementOp):
        return False
    return _word(op, "sem") in ("acquire", "acq_rel") and _word(op, "scope") != Scope.CTA


def _between_units(here: list[Place]) -> Iterator[Finding]:
    here = [p for p in here if not _one_unit(p)]
    for i, first in enumerate(here):
        for second in here[i:]:
            a, b = first.access, second.access
            if not (a.write or b.write) or (a.atomic and b.atomic):
                continue
            if a.area is None or b.area is None or not meet(a.area, b.area):
                continue
            if first is second and _one_value(first):
                continue
            yield _two_units(first, second)


def _two_units(first: Place, second: Place) -> Finding:
    names = [f"{p.event.told} in role {p.node.role.name}" for p in (first, second)]
    said = f"all work units write the same elements by {names[0]}"
    if first is not second:
        said = f"two work units touch the same elements by {names[0]} and {names[1]}"
    return Finding(
        "TK301",
        f"{said}, and nothing orders work units",
        "unordered",
        first.event.op,
        second.event.op,
        remedy="indices that go on with the schedule, one work unit only, or atomic operations",
        roles=tuple(dict.fromkeys((first.node.role.name, second.node.role.name))),
        other="in another work unit",
    )


def _one_unit(place: Place) -> bool:
    """Whether a condition, or a schedule of one item, may let one work unit through only."""
    op, area = place.event.op, place.access.area
    if area is None or area.asked:
        return True
    for at in around(op) if op is not None else ():
        if isinstance(at, s.ForOp) and isinstance(upper := at.upper.owner, ConstOp):
            if isinstance(upper.constant, IntegerAttr) and upper.constant.value.data <= 1:
                return True
    return False


def _one_value(place: Place) -> bool:
    """Whether every work unit stores the same constant (A16)."""
    op = place.event.op
    return isinstance(op, StoreElementOp) and isinstance(op.source.owner, ConstOp)

"""Whether several warps do each what one thread would: an election of each warp round a copy or a product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tkc.analysis.guards import Varies, varies
from tkc.analysis.happens_before.areas import Area
from tkc.analysis.happens_before.events import Access, Some, Threads
from tkc.analysis.happens_before.graph import Graph, Node
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.moments import finding_at
from tkc.diagnostics import Severity
from tkc.ir.isa.memory import Proxy, Space
from tkc.ir.stage import ops as s

IDEMPOTENT = frozenset({"min", "max"})
"""What gives the same once more."""


def check_repeated(graph: Graph) -> Iterator[Finding]:
    """Copies and products that several threads issue with one destination: with one source they do the same (A16), as a
    sum several times, and else nothing says which of them stays."""
    for node in graph.nodes:
        event = node.event
        threads = _threads(node)
        if event is None or event.op is None or threads < 2 or graph.symmetry.repeats(node.role):
            continue
        written = next((a for a in event.accesses if a.write and _engine(a)), None)
        if written is None:
            continue
        if all(varies(v) is Varies.NOWHERE for v in event.op.operands):
            yield _alike(graph, node, written, threads)
        elif written.area is not None and _one_place(written.area):
            yield finding_at(
                "TK301", node,
                f"{event.name} in role {node.role.name} is done by {threads} threads with one destination and sources "
                "of their own, and nothing orders them",
            )  # fmt: skip


def _threads(node: Node) -> int:
    """How many threads each do what one does; of what all do together, 0."""
    if isinstance(node.threads, Some):
        return len(node.threads.members or ())
    return node.role.warps if node.threads is Threads.LANE else 0


def _engine(access: Access) -> bool:
    """Whether the copy engine or the tensor core writes, a tile at a time."""
    return not access.element and (access.proxy is Proxy.ASYNC or access.space is Space.TENSOR)


def _one_place(area: Area) -> bool:
    """Whether all threads that come have the same indices."""
    return area.known and all(
        axis is not None and len({axis.at(t) for t in area.threads}) == 1 for axis in area.axes
    )


def _alike(graph: Graph, node: Node, written: Access, threads: int) -> Finding:
    event = node.event
    assert event is not None
    remedy = "`elect:` round it lets one thread of the role do it"
    said = f"{event.name} in role {node.role.name} is done by each of {threads} threads"
    if _sums(event.op):
        return _with(finding_at("TK327", node, f"{said}, which all add the same"), remedy)
    if "A16" not in graph.assumed and written.space is Space.GLOBAL:
        found = finding_at("TK301", node, f"{said} with one destination, and nothing orders them")
        return _with(found, remedy)
    found = finding_at("TK327", node, f"{said}, which all write the same to one place")
    return _with(found, remedy, Severity.WARNING)


def _sums(op: object) -> bool:
    """Whether an operation adds to what is there."""
    if isinstance(op, s.TmaStoreOp):
        return op.reduce is not None and op.reduce.data not in IDEMPOTENT
    return isinstance(op, s.MmaOp | s.ScaledMmaOp)


def _with(found: Finding, remedy: str, severity: Severity = Severity.ERROR) -> Finding:
    return replace(found, remedy=remedy, severity=severity)

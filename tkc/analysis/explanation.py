"""Why each synchronisation of a kernel is there, and why one that was taken away is not needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from xdsl.ir import Operation

from tkc.analysis.happens_before.chains import orders
from tkc.analysis.happens_before.events import Event
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.findings import describe, findings
from tkc.analysis.happens_before.paths import Unfollowed
from tkc.analysis.happens_before.proofs import Proofs, steps_of
from tkc.analysis.happens_before.rules import PROFILES, RULES
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Verdict
from tkc.analysis.unseen import hidden_spaces
from tkc.diagnostics import Location
from tkc.ir.certificates import Certificate, Link, Order, label, origin
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Close, Done, Meet, Proxy, Signal
from tkc.ir.isa.memory import Order as Ordering
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.maps import ArrayOp, MapAcquireOp


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a chain, in words and by its rule; `lines`: of the source, where it starts and ends (0: none)."""

    start: str
    end: str
    rule: str
    says: str
    section: str
    assumptions: tuple[str, ...]
    crosses: bool = False
    """Whether another role, or another CTA, knows of it then."""
    lines: tuple[int, int] = (0, 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self.start,
            "to": self.end,
            "lines": list(self.lines),
            "rule": self.rule,
            "section": self.section,
            "assumptions": list(self.assumptions),
        }


@dataclass(frozen=True, slots=True)
class Witness:
    """Two accesses that would meet without a synchronisation: `instances` of the loop `loop`."""

    first: str
    second: str
    instances: tuple[int, int] | None
    loop: str
    why: str

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "second": self.second,
            "instances": list(self.instances or ()),
            "loop": self.loop,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Site:
    """One synchronisation: what it is, what became of it, and why. `chains`: the pairs that it guarded, each with its
    proof (the two accesses in words, the way there, the way back); `stays`: why it is there though nothing needs it."""

    id: str
    role: str
    op: str
    kind: str
    location: Location | None
    origin: str
    verdict: str
    before: str
    after: str
    chains: tuple[tuple[str, tuple[Step, ...], tuple[Step, ...]], ...] = ()
    orders: tuple[int, ...] = ()
    witness: Witness | None = None
    stays: str = ""
    instructions: tuple[str, ...] = ()
    profiles: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def assumptions(self) -> tuple[str, ...]:
        return tuple(
            sorted(
                {a for _, *ways in self.chains for way in ways for x in way for a in x.assumptions}
            )
        )

    def to_json(self) -> dict[str, Any]:
        place = self.location
        chain = [step.to_json() for _, there, back in self.chains[:1] for step in (*there, *back)]
        hazards = [
            {
                "pair": pair,
                "there": [x.to_json() for x in there],
                "back": [x.to_json() for x in back],
            }
            for pair, there, back in self.chains
        ]
        return {
            "id": self.id,
            "op": self.op,
            "kind": SCHEMA_KINDS.get(self.kind, self.kind),
            "location": None
            if place is None
            else {"file": place.file, "line": place.line, "column": place.column},
            "origin": self.origin,
            "verdict": self.verdict,
            "before": self.before,
            "after": self.after,
            "instructions": list(self.instructions),
            "profiles": self.profiles,
            "chain": chain,
            "hazards": hazards,
            "witness": None if self.witness is None else self.witness.to_json(),
            "stays": self.stays,
        }


SCHEMA_KINDS = {"meet": "wait"}
"""What the schema calls a kind of ours: a barrier of threads is a wait for the others; its `op` says which."""


def kind_of(op: Operation) -> str:
    """The word of the schema for an operation's row; "" where it synchronises nothing."""
    for row in effects_of(op) or ():
        match row:
            case Ordering(first=Proxy.TENSOR):
                return "tcgen05-fence"
            case Meet():
                return "meet"
            case Await(done=Done.TCGEN05_COMMIT) | Close():
                return "commit"
            case Await():
                return "wait"
            case Signal(bytes_of=None):
                return "arrive"
            case Ordering(first=Proxy.GENERIC, then=Proxy.ASYNC) if isinstance(op, s.ProxyFenceOp):
                return "proxy-fence"
            case Ordering(then=Proxy.TENSORMAP):
                return "proxy-fence"
            case _:
                pass
    return "thread-fence" if op.name == "stage.fence" else ""


def explain(
    kernel: s.KernelOp,
    earlier: s.KernelOp,
    certificate: Certificate | None,
    model: str,
    fences: str = "minimal",
) -> list[Site]:
    """Every synchronisation of a kernel, and every one that `earlier`, the same before fences went, has beside them;
    in the order of the earlier program. `fences`: which were to stay (`--fences`)."""
    known = {x.id: x for x in certificate.sites} if certificate is not None else {}
    lines = {label(op): _line(op) for op in kernel.walk()}
    left = {label(op): op for op in kernel.walk() if kind_of(op)}
    reasons = Reasons(kernel, model)
    found: list[Site] = []
    for role, op in _in_both(earlier, kernel, known):
        id = label(op)
        site = known.get(id)
        verdict = "kept" if site is None else site.verdict
        words = op.name.removeprefix("stage.")
        before = site.before if site is not None else words
        after = site.after if site is not None else words
        chains: tuple[tuple[str, tuple[Step, ...], tuple[Step, ...]], ...] = ()
        numbers: tuple[int, ...] = ()
        if site is not None and certificate is not None and verdict != "kept":
            numbers = site.rested or site.orders
            proved = [certificate.orders[i] for i in numbers]
            chains = tuple(
                (told(o), steps(o.forward, lines), steps(o.back, lines))
                for o in sorted(proved, key=_telling)
                if o.forward or o.back
            )
        witness = reasons.witness(left[id]) if id in left and verdict != "removed" else None
        stays = ""
        if id in left and verdict == "kept" and witness is None:
            stays = _stays(op, fences)
            chains = tuple(
                (told(o), steps(o.forward, lines), steps(o.back, lines))
                for o in reasons.without(left[id])
            )
        found.append(
            Site(
                id,
                role,
                op.name,
                kind_of(op),
                location_of(op),
                origin(id),
                verdict,
                before,
                after,
                chains,
                numbers,
                witness,
                stays,
            )
        )
    return found


STAY = {
    "wait": "only waits of the program's own are taken out, where the model proves every pair",
    "arrive": "what signals is not taken out",
    "commit": "what signals is not taken out",
    "meet": "barriers of threads are not taken out",
}


def _stays(op: Operation, fences: str) -> str:
    """Why a synchronisation stays that no pair of accesses needs."""
    mine = origin(label(op)) == "user"
    kind = kind_of(op)
    asked = kind not in STAY or (kind == "wait" and mine)
    if asked and fences == "conservative":
        return "--fences minimal takes out what is not needed"
    if asked and mine and fences == "as-written":
        return "--fences as-written leaves the program's own"
    return STAY.get(kind, "it was not tried, or may order what is not followed (--remarks=fences)")


def _in_both(
    earlier: s.KernelOp, kernel: s.KernelOp, known: Mapping[str, object]
) -> Iterator[tuple[str, Operation]]:
    """The synchronisations of the earlier kernel, and in each role those that have been put in since."""
    there = {label(op) for _, op in _synchronisations(earlier)}
    later = [
        (role, op)
        for role, op in _synchronisations(kernel)
        if label(op) not in there and label(op) in known
    ]
    roles = list(dict.fromkeys(role for role, _ in (*_synchronisations(earlier), *later)))
    for name in roles:
        yield from ((role, op) for role, op in _synchronisations(earlier) if role == name)
        yield from ((role, op) for role, op in later if role == name)


def _line(op: Operation) -> int:
    place = location_of(op)
    return place.line if place is not None else 0


def _synchronisations(kernel: s.KernelOp) -> Iterator[tuple[str, Operation]]:
    for role in [r for r in kernel.body.block.ops if isinstance(r, s.RoleOp)]:
        for op in role.walk():
            if op is not role and kind_of(op):
                yield role.sym_name.data, op


def _telling(order: Order) -> tuple[bool, bool]:
    """What tells most first: two roles, two accesses."""
    return order.first.role == order.second.role, order.first == order.second


def told(order: Order) -> str:
    """A pair of accesses in words."""
    first, second = (
        f"{end.site}({operand})" for end, operand in zip(order[:2], order.operands, strict=True)
    )
    return f"{first} and {second}" if first != second else f"{first} and itself"


def steps(
    chain: Sequence[Link] | None, lines: Mapping[str, int] = MappingProxyType({})
) -> tuple[Step, ...]:
    """A chain's steps with what their rules say; `lines` of the source by the ids of operations."""
    found: list[Step] = []
    for link in chain or ():
        row = RULES[link.rule]
        end = link.end.site or f"role {link.end.role}"
        crosses = link.start._replace(site="") != link.end._replace(site="")
        found.append(
            Step(
                link.start.site,
                end,
                link.rule,
                row.says,
                row.section,
                row.assumes,
                crosses,
                (lines.get(link.start.site, 0), lines.get(link.end.site, 0)),
            )
        )
    return tuple(found)


@dataclass
class Reasons:
    """What would go wrong without one synchronisation or another."""

    kernel: s.KernelOp
    model: str

    def __post_init__(self) -> None:
        self.events: dict[Operation, list[Event]] = {}
        self.proofs: Proofs | None = None
        try:
            self.proofs = Proofs(self.kernel, self.model)
        except Unfollowed:
            return
        for role in self.proofs.graph.program.roles:
            for event in role.events():
                if event.act is not None:
                    self.events.setdefault(event.op, []).append(event)

    def witness(self, op: Operation) -> Witness | None:
        """The nearest accesses that nothing orders without an operation; None where the analysis knows of none."""
        if isinstance(op, MapAcquireOp) and isinstance(op.array.owner, ArrayOp):
            why = "copies may see what lay there before the launch put its tensor maps there"
            return Witness("", "", None, "", why)
        if self.proofs is None:
            return None
        away = frozenset(self.events.get(op, ()))
        judges = {m: Judge(self.proofs.graph, PROFILES[m], away) for m in PROFILES}
        for hazard in sorted(self.proofs.hazards, key=_plainness):
            if away.isdisjoint(steps_of(hazard)):
                continue
            again = self.proofs.again(judges, hazard)
            if again.verdict is not Verdict.ORDERED:
                return _witness(again)
        return self._broken(op) or self._unseen()

    def without(self, op: Operation) -> Iterator[Order]:
        """The proof, without an operation that nothing needs, of the pair whose proof names it that tells most."""
        if self.proofs is None:
            return
        away = frozenset(self.events.get(op, ()))
        judges = {m: Judge(self.proofs.graph, PROFILES[m], away) for m in PROFILES}
        for hazard in sorted(self.proofs.hazards, key=_plainness):
            if not away.isdisjoint(steps_of(hazard)):
                again, model = self.proofs.again(judges, hazard), self.proofs.model_of(hazard)
                others = self.proofs.others[hazard.first, hazard.second]
                yield orders(judges[model], again, others, model)[0]
                return

    def _unseen(self) -> Witness | None:
        """What is said where a kernel has accesses that nobody follows."""
        if not hidden_spaces(self.kernel):
            return None
        return Witness(
            "",
            "",
            None,
            "",
            "single elements or atomics, which are not followed, may not be in order",
        )

    def _broken(self, op: Operation) -> Witness | None:
        """What the protocol of barriers or the kernel's end lacks without an operation that nothing else uses."""
        block, following = op.parent_block(), op.next_op
        if op.results or block is None:
            return None
        op.detach()
        try:
            found = findings(program(self.kernel), self.model)
        finally:
            if following is None:
                block.add_op(op)
            else:
                block.insert_op_before(op, following)
        return Witness("", "", None, "", found[0].message) if found else None


def _plainness(hazard: Hazard) -> tuple[bool, bool]:
    """What tells most first: a read and a write, of two roles."""
    first, second = hazard.first, hazard.second
    return first.access.write and second.access.write, first.node.role is second.node.role


def _witness(hazard: Hazard) -> Witness:
    first, second = hazard.first, hazard.second
    counts = hazard.witness
    if counts is not None and counts[1] < counts[0]:
        first, second, counts = second, first, (counts[1], counts[0])
    why = "nothing orders them"
    if hazard.verdict is Verdict.WRONG_PROXY:
        why = "ordered, but no proxy fence stands between them"
    return Witness(describe(first), describe(second), counts, hazard.clock.name, why)

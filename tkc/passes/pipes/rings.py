"""A ring's barriers: who signals them, whose of a cluster they are, and how many arrivals complete a phase."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Attribute, Block, SSAValue

from tkc.analysis.items import role_of
from tkc.diagnostics import Bug, TkcError
from tkc.ir.emit import Emitter
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import Across, How, To
from tkc.ir.stage.structure import PAIR
from tkc.ir.stage.types import BarriersType

ARRIVALS: dict[How, str] = {
    How.TMA: "expect",
    How.BULK: "one",
    How.TCGEN05: "commit",
    How.WGMMA: "lane",
    How.GENERIC: "lane",
    How.TENSOR: "lane",
}
"""How each kind of access signals (R3): by announced bytes, by one thread, by a tcgen05 commit, by one lane a warp."""


@dataclass(frozen=True)
class Reach:
    """Whose barriers of the cluster the two ends of a ring signal: their own CTA's where None.

    `full` and `empty` say who signals the same barrier, so that arrivals count once for each: the CTAs of a pair, or
    all.
    """

    commit: To | None = None
    release: To | None = None
    full: To | None = None
    empty: To | None = None


REACHES: dict[str | None, Reach] = {
    None: Reach(),
    Across.MULTICAST: Reach(release=To.ALL, empty=To.ALL),
    Across.GATHER: Reach(commit=To.LEADER, full=To.PAIR, release=To.PAIR),
    Across.SPREAD: Reach(commit=To.PAIR, release=To.LEADER, empty=To.PAIR),
    Across.SHARED: Reach(commit=To.LEADER, full=To.PAIR, release=To.ALL, empty=To.ALL),
    Across.EVERY: Reach(commit=To.ALL, full=To.ALL, release=To.ALL, empty=To.ALL),
    Across.ANSWER: Reach(release=To.FIRST, empty=To.ALL),
}
"""Barriers across a cluster (R15): who writes into a CTA's slot must know that all who read it are done, and the
reverse."""


def arrivals(how: tuple[How, ...], warps: int, groups: int = 1, ctas: int = 1) -> int:
    """Arrivals on a slot's barrier by one role that touches the slot so, in `ctas` CTAs (R4).

    A role that does not touch it still arrives. What one thread does, one of each warpgroup does that shares rows.
    Bytes are announced by the CTA whose barrier it is, for all.
    """
    counts = {"lane": warps * ctas, "expect": groups}
    kinds = {ARRIVALS[h] for h in how}
    return sum(counts.get(kind, groups * ctas) for kind in kinds) or groups * ctas


@dataclass
class Ring:
    """A pipe and its barriers."""

    pipe: s.PipeOp
    full: SSAValue | None = None
    empty: SSAValue | None = None
    scopes: dict[type[s.CommitOp | s.ReleaseOp], dict[str, Attribute]] = field(
        default_factory=dict[type[s.CommitOp | s.ReleaseOp], dict[str, Attribute]]
    )

    @property
    def depth(self) -> int:
        return self.pipe.depth.value.data

    @property
    def name(self) -> str:
        return self.pipe.sym_name.data

    @property
    def reach(self) -> Reach:
        return REACHES[None if self.pipe.across is None else self.pipe.across.data]

    def scope(self, signal: type[s.CommitOp | s.ReleaseOp]) -> dict[str, Attribute]:
        """Signals across a cluster order what threads do themselves at its scope; the copy engine and products, whose
        completion says so itself, at the scope of a CTA. Found once: signals of roles that are lowered are gone."""
        if signal not in self.scopes:
            signals = [u.operation for u in self.pipe.ring.uses if isinstance(u.operation, signal)]
            own = any({How.GENERIC, How.TENSOR} & {*how_of(o)} for o in signals)
            wide = own and self.reach != Reach()
            self.scopes[signal] = {"scope": StringAttr("cluster")} if wide else {}
        return self.scopes[signal]


def how_of(op: s.CommitOp | s.ReleaseOp) -> tuple[How, ...]:
    return tuple(How(h.data) for h in op.how)


def kinds_of(op: s.CommitOp | s.ReleaseOp) -> set[str]:
    return {ARRIVALS[h] for h in how_of(op)}


def make_barriers(ring: Ring, roles: list[s.RoleOp], ctas: int = 1) -> None:
    """The ring's two barrier arrays, with the arrivals that its ends make, of `ctas` CTAs where they all do."""
    signalling = {None: 1, To.PAIR: min(PAIR, ctas), To.ALL: ctas}
    full, empty = (signalling[who] for who in (ring.reach.full, ring.reach.empty))
    counts = {
        "full": _arrivals_of(ring, roles, s.CommitOp, ring.pipe.producers, full),
        "empty": _arrivals_of(ring, roles, s.ReleaseOp, ring.pipe.consumers, empty),
    }
    shared = ring.pipe.across is not None and ring.pipe.across.data == Across.ANSWER
    emit = Emitter(Block(), ring.pipe.location)
    made = [
        emit.value(
            s.BarriersOp.create(
                properties={
                    "sym_name": StringAttr(f"{ring.name}.{side}"),
                    "depth": ring.pipe.depth,
                    "count": IntegerAttr(count, i32),
                    **({"shared": UnitAttr()} if shared and side == "empty" else {}),
                },
                result_types=[BarriersType()],
            ),
            f"{ring.name}_{side}",
        )
        for side, count in counts.items()
    ]
    ring.full, ring.empty = made
    block = ring.pipe.parent_block()
    assert block is not None
    for op in list(emit.block.ops):
        op.detach()
        block.insert_op_before(op, ring.pipe)


def _alike(signals: list[s.CommitOp | s.ReleaseOp]) -> None:
    """Every block of a role signals in the same ways, since a phase counts as many arrivals of each item: a block that
    does not touch its slot, or touches it otherwise, signals as the others do, too."""
    if len({frozenset(kinds_of(o)) for o in signals}) > 1:
        every = dict.fromkeys(h for o in signals for h in how_of(o))
        for op in signals:
            op.properties["how"] = ArrayAttr([StringAttr(h) for h in every])


def _arrivals_of(
    ring: Ring,
    roles: list[s.RoleOp],
    kind: type[s.CommitOp | s.ReleaseOp],
    ends: ArrayAttr[StringAttr],
    ctas: int,
) -> int:
    """Arrivals of one side, from what the roles at that end do; TK107 where others do it, or one of them does not."""
    signals = [u.operation for u in ring.pipe.ring.uses]
    found: dict[s.RoleOp, list[s.CommitOp | s.ReleaseOp]] = {}
    names = [end.data for end in ends]
    verb, what = ("puts into", "producers") if kind is s.CommitOp else ("gets from", "consumers")
    for op in signals:
        if isinstance(op, kind):
            role = role_of(op)
            if role is None:
                raise Bug("lower-pipes", f"{op.name} stands outside every role")
            if role.sym_name.data not in names:
                raise TkcError.at(
                    "TK107",
                    f"role {role.sym_name.data} {verb} pipe {ring.name}, whose {what} are "
                    f"{', '.join(names) or 'none'}",
                    location_of(op),
                )
            found.setdefault(role, []).append(op)
    counts: list[int] = []
    for name in names:
        role = next((r for r in roles if r.sym_name.data == name), None)
        mine = found.get(role, []) if role is not None else []
        if role is None or not mine:
            raise TkcError.at(
                "TK107",
                f"role {name} stands at an end of pipe {ring.name} but never opens it",
                location_of(ring.pipe),
            )
        _alike(mine)
        warps, groups = role.warps.value.data, role.groups.value.data
        acting = ctas if role.leads is None else -(-ctas // PAIR)
        counts.append(arrivals(how_of(mine[0]), warps, groups, acting))
    if ring.pipe.turns is None or kind is s.CommitOp:
        return sum(counts)
    if ring.depth % len(counts):
        raise TkcError.at(
            "TK110",
            f"pipe {ring.name} has {ring.depth} slots for {len(counts)} roles by turns: not supported yet, since "
            "a role must see every phase of the slots that it takes",
            location_of(ring.pipe),
        )
    if len(set(counts)) > 1:
        raise TkcError.at(
            "TK110",
            f"roles {', '.join(names)} take turns at pipe {ring.name} and release its slots by different numbers of "
            f"arrivals ({', '.join(map(str, counts))}): not supported yet",
            location_of(ring.pipe),
        )
    return counts[0]

"""From a pair of accesses that nothing orders to a finding: its code, who did what, and the cheapest order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tkc.emulator.clocks import ORDER, PENDING, RUN
from tkc.emulator.events import GENERIC, SEVERAL, Who
from tkc.emulator.lanes import FULL
from tkc.ir.isa.memory import Kind

if TYPE_CHECKING:
    from tkc.emulator.findings import Findings as Record
    from tkc.emulator.program import Program
    from tkc.emulator.view import View


PRODUCTS = ("wgmma.mma", "tcgen05.mma")
"""How the names of instructions begin that read tiles for the tensor core."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Access `number` (of `lane`) was made before that of the view, and does not come before it."""

    view: View
    number: int
    lane: int
    before: Kind
    now: Kind
    old: Who
    new: Who
    swapped: bool = False

    @property
    def place(self) -> str:
        return str(getattr(self.view.place, "name", "memory"))


def name_of(who: Who) -> str:
    """An agent for a report."""
    agent = who.agent
    if not hasattr(agent, "cta"):
        return agent.describe()
    return agent.name if who.mask.bit_count() == agent.threads else agent.describe(who.mask)


def sentence(who: Who, place: str, program: Program) -> str:
    """One access for a report."""
    ins = who.ins
    where = program.location(ins.statement)
    source = f", {where}" if where is not None else ""
    return f"{who.verb} of {place} by {name_of(who)}: {ins.statement.mnemonic} at line {ins.line}{source}"


def in_order(record: Record, pair: Pair) -> Pair:
    """The pair with the access that came first in the program as its old one."""
    writes_first = pair.before is Kind.WRITE and pair.now is Kind.READ
    if writes_first and not _known(record, pair)[0] and _after_issue(record, pair):
        # The thread that wrote knew of the operation, whose read has come only now.
        return replace(pair, old=pair.new, new=pair.old, swapped=True)
    return pair


def describe(record: Record, pair: Pair) -> tuple[str, str, tuple[str, ...]]:
    """(code, message, notes)."""
    if pair.swapped:
        return _reuse(record, pair, True)
    runs, ordered = _known(record, pair)
    if pair.number in record.map_reads and pair.now is Kind.WRITE:
        return (
            "TK317",
            f"{_what(pair.new)} edits a tensor map that {_what(pair.old)} may still use",
            (f"cheapest order: {_cheapest(record, pair, True)}",),
        )
    if pair.view.event in record.map_reads:
        return (
            "TK302" if ordered else "TK301",
            f"{_what(pair.old)} edits the tensor map of {_what(pair.new)}, and no tensormap fence lies between",
            (
                "cheapest order: fence.proxy.tensormap::generic.release (or tensormap.cp_fenceproxy) after the edit, a"
                " barrier, and fence.proxy.tensormap::generic.acquire of the map by the thread that copies",
            ),
        )
    hazard = f"{_verb(pair.before)} and {_verb(pair.now)}"
    old, new = pair.old, pair.new
    pending = record.events.time[pair.number] == PENDING
    from_async = record.events.kind[pair.number] != GENERIC
    crosses = from_async != pair.view.is_async
    if ordered and (crosses or (record.strict and from_async)):
        # Or two of the async proxies of two CTAs, which strict does not take for one.
        fence = f"fence.proxy.async{_space(pair)}"
        return (
            "TK302",
            f"{_what(old)} reaches {_what(new)} of {pair.place} with no proxy fence on the way",
            (f"cheapest order: {fence} {_where_fence(pair, from_async)}",),
        )
    if pair.before is Kind.READ and from_async and (pending or runs or _issue_known(record, pair)):
        return _reuse(record, pair, pending)
    if runs and not ordered:
        return (
            "TK301",
            f"{hazard} of {pair.place} are in this order only by a relaxed operation, or one whose scope is too small",
            (
                "cheapest order: .release and .acquire, of .cluster scope where CTAs differ, on that barrier",
            ),
        )
    return (
        "TK301",
        f"{hazard} of {pair.place} are not ordered",
        (f"cheapest order: {_cheapest(record, pair, pending)}",),
    )


def _known(record: Record, pair: Pair) -> tuple[bool, bool]:
    """Whether the first access is known to have run before the second, and to be ordered before it."""
    clock = pair.view.clock
    if record.events.cluster[pair.number] != clock.components.number:
        return False, False
    times = clock.fit()
    time = record.events.time[pair.number]
    at = record.lane_component(pair.number, pair.lane)
    return bool((times[RUN, at] >= time).all()), bool((times[ORDER, at] >= time).all())


def _issue_known(record: Record, pair: Pair) -> bool:
    """Whether the operation had been issued, as far as the second access knows."""
    op: Any = pair.old.agent
    issue = getattr(op, "issue", None)
    if not issue or record.events.cluster[pair.number] != pair.view.clock.components.number:
        return False
    component, time = issue
    if pair.view.clock.fit()[RUN, component] >= time:
        return True
    new = pair.new.agent
    return hasattr(new, "clock") and getattr(new, "cta", None) is op.warp.cta and new is op.warp


def _after_issue(record: Record, pair: Pair) -> bool:
    """Whether a thread made the first access after the second, an operation, had been issued."""
    thread, op = pair.old.agent, pair.new.agent
    if not hasattr(op, "issue") or not hasattr(thread, "cta"):
        return False
    if thread.cta.cluster is not op.warp.cta.cluster:
        return False
    component, time = op.issue
    if thread is op.warp:
        return bool(record.events.time[pair.number] > time)
    return any(part.clock.fit()[RUN, component] >= time for part in record.of(thread).parts)


def _verb(kind: Kind) -> str:
    return "a read" if kind is Kind.READ else "a write"


def _what(who: Who) -> str:
    return f"the {who.verb} at line {who.ins.line} ({who.ins.statement.mnemonic.split('.')[0]})"


def _space(pair: Pair) -> str:
    if pair.view.home is None:
        return ".global"
    return ".shared::cta"


def _where_fence(pair: Pair, from_async: bool) -> str:
    if from_async:
        return "by the thread that has waited, before its access"
    rank = getattr(getattr(pair.old.agent, "cta", None), "rank", pair.view.home)
    if pair.view.home is not None and rank != pair.view.home:
        issuer = f"by the thread that issues line {pair.new.ins.line}, after its wait"
        return f"{issuer}: a fence is for its own CTA's memory"
    return (
        f"by {name_of(pair.old)} between its access and its next arrival or barrier, or by the thread that issues"
        f" line {pair.new.ins.line}, after its wait"
    )


def _reuse(record: Record, pair: Pair, pending: bool) -> tuple[str, str, tuple[str, ...]]:
    """A buffer is written while an asynchronous operation may still read it."""
    old, new = pair.old, pair.new
    op: Any = old.agent
    name = getattr(op, "name", "")
    message = f"{_what(new)} overwrites {pair.place} while {_what(old)} may still be under way"
    if "store" in name and pending:
        thread = op.warp.describe(1 << op.lane)
        waits = record.machine.waits_of(op)
        if waits == "other":
            return (
                "TK307",
                f"{message}: another thread waits for its bulk groups",
                (f"cheapest order: commit_group and wait_group.read in {thread}, which issued it",),
            )
        if waits == "short":
            return (
                "TK308",
                f"{message}: the wait_group count leaves its group out",
                (f"cheapest order: a smaller count in cp.async.bulk.wait_group.read of {thread}",),
            )
        return (
            "TK309",
            message,
            (
                f"cheapest order: cp.async.bulk.wait_group.read in {thread} before the buffer is handed on",
            ),
        )
    return "TK309", message, (f"cheapest order: {_cheapest(record, pair, pending)}",)


def _cheapest(record: Record, pair: Pair, pending: bool) -> str:
    old: Any = pair.old.agent
    new: Any = pair.new.agent
    name = getattr(old, "name", "")
    if name == "wgmma":
        return "wgmma.wait_group for its group, before the arrival that hands the buffer on"
    if name.startswith("tcgen05"):
        return "tcgen05.commit to an mbarrier, and a wait for it"
    if "store" in name or "reduc" in name:
        return "cp.async.bulk.wait_group of the issuing thread, then a barrier or an arrival"
    if "load" in name or "copy" in name or name in ("st.async", "try_cancel"):
        return "a wait for the phase of the mbarrier on which it completes"
    if name == "cp.async":
        return "cp.async.wait_group, then a barrier"
    if hasattr(old, "cta") and hasattr(new, "cta"):
        if old is new:
            return "bar.warp.sync between the lanes"
        if old.cta is new.cta:
            return "bar.sync, or an arrival and a wait on an mbarrier"
        if old.cta.cluster is new.cta.cluster:
            return "barrier.cluster, or an arrival and a wait of .cluster scope on an mbarrier"
        return "a release and an acquire of .gpu scope through a word of global memory"
    return "an arrival by the first and a wait by the second on an mbarrier"


def _ended(who: Who) -> bool:
    """Whether the threads that made an access, or issued it, have ended before others of a cluster."""
    agent: Any = who.agent
    if hasattr(agent, "cta"):
        warp, mask = agent, who.mask
    else:
        warp, mask = agent.warp, 1 << agent.lane if agent.lane >= 0 else FULL
    return bool(warp.cta.cluster.size > 1 and not warp.alive & mask)


def assumptions_of(old: Who, new: Who) -> tuple[str, ...]:
    """The assumptions of the practice profile that order a pair of such accesses, or make it harmless."""
    first, then = old.ins.row.name, new.ins.row.name
    threads = hasattr(old.agent, "cta"), hasattr(new.agent, "cta")
    ranks = [a.cta.rank if hasattr(a, "cta") else a.rank for a in (old.agent, new.agent)]
    found: list[str] = []
    if _ended(old) and not _ended(new):
        return ("A28",)
    if first == "tcgen05.alloc" and not threads[1] and ranks[0] != ranks[1]:
        return ("A24",)
    if ranks[0] != ranks[1]:
        found += ["A1", "A2"]
        if threads[0] and not threads[1] and old.verb == Kind.READ:
            found.append("A25")
    if ranks[0] == ranks[1] and then.startswith(PRODUCTS) and old.verb == Kind.WRITE:
        if first.startswith(("cp.async", "st")) and "bulk" not in first:
            return ("A27",)
    if not any(threads):
        if first.startswith("tcgen05") and then.startswith("tcgen05"):
            found.append("A9" if "cp" in then else "A14")
        elif old.verb == new.verb == Kind.WRITE:
            lanes = old.ins is new.ins and old.agent.lane != new.agent.lane
            found.append("A16" if lanes else "A5")
    elif not threads[0]:
        if first.startswith("tcgen05"):
            found.append("A6")
        elif first.startswith("wgmma"):
            found.append("A12")
        elif old.verb == Kind.READ:
            found.append("A7")
    elif first.startswith("tcgen05.alloc") or then.startswith("tcgen05.alloc"):
        found.append("A30" if then.startswith("ld") else "A19")
    elif first.startswith("tcgen05") or then.startswith("tcgen05"):
        found.append("A20")
    elif (first, then) == ("ldmatrix", "stmatrix"):
        found.append("A22")
    elif old.ins is new.ins:
        found.append("A16")
    elif "atom" in first + then or "red" in first + then:
        found.append("A18")
    elif all(threads):
        found.append("A17")
    if not found and first.startswith("wgmma"):
        found.append("A12")
    return tuple(found) or ("A19",)


__all__ = ["SEVERAL", "Pair", "describe", "name_of", "sentence"]

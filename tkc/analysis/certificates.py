"""Whether the chains of a certificate put each pair of accesses in order, in the program as it is now.

Runs the roles on small numbers (`instances`) and follows each chain from every instance of the first access: which
threads know of which threads' parts of it, and through which proxy. Shares the tables of rules and assumptions with the
analysis that made the chains, and no code.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tkc.analysis.happens_before.rules import PROFILES, RULES
from tkc.analysis.instances import Copy, Event, owners, runs
from tkc.analysis.known import (
    ACQUIRED,
    COMPLETE,
    GENERIC,
    JOINED,
    MAPPED,
    PIPE,
    PIPED,
    TENSOR_WORK,
    UNDER_WAY,
    Access,
    Broken,
    Known,
    in_registers,
)
from tkc.analysis.steps import STEPS, Step, Steps, kinds_of
from tkc.ir.isa.assumptions import PIPELINED
from tkc.ir.isa.memory import Done, Kind, Proxy, Space, Touch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tkc.ir.certificates import Certificate, End, Link, Order
    from tkc.ir.stage import ops as s


def wrong(certificate: Certificate, kernel: s.KernelOp) -> dict[int, str]:
    """The pairs of a certificate whose chains do not hold in a kernel, and why.

    Raises Unknown where the kernel cannot be run on small numbers.
    """
    if not certificate.orders:
        return {}
    found: dict[int, str] = {}
    for i, order in enumerate(certificate.orders):
        try:
            _allowed(order, PROFILES[order.model])
        except Broken as error:
            found[i] = str(error)
    for sizes, traces in runs(kernel):
        all_runs = {m: Run(kernel, traces, m) for m in {o.model for o in certificate.orders}}
        for numbers, pair in _pairs(certificate).items():
            try:
                all_runs[pair.order.model].check(pair)
            except Broken as error:
                one = pair.order
                why = f"{one.first} and {one.second}: {error} ({sizes})"
                found |= {i: why for i in numbers if i not in found}
    return found


@dataclass
class Pair:
    """Two accesses with every chain that a certificate has for them: of a loop's turns each may have its own."""

    order: Order
    forward: list[tuple[Link, ...]]
    back: list[tuple[Link, ...]]


def _pairs(certificate: Certificate) -> dict[tuple[int, ...], Pair]:
    found: dict[Any, tuple[list[int], Pair]] = {}
    for i, order in enumerate(certificate.orders):
        chains = order.forward, order.back
        ends = [(order.first, order.operands[0]), (order.second, order.operands[1])]
        key = (*ends, order.owner, order.model)
        turned = (*ends[::-1], order.owner, order.model)
        if turned in found and key not in found:
            key, chains = turned, chains[::-1]
        numbers, pair = found.setdefault(key, ([], Pair(order, [], [])))
        numbers.append(i)
        for chain, known in zip(chains, (pair.forward, pair.back), strict=True):
            if chain is not None and chain not in known:
                known.append(chain)
    return {tuple(numbers): pair for numbers, pair in found.values()}


def _allowed(order: Order, assumed: frozenset[str]) -> None:
    for rule in order.rules():
        if rule not in RULES:
            raise Broken(f"no rule is called {rule}")
        beyond = set(RULES[rule].assumes) - assumed
        if beyond:
            raise Broken(f"{rule} assumes {', '.join(sorted(beyond))}, which the model does not")


class Run(Steps):
    """One run of a kernel, and the chains that are followed in it by the rules of a model."""

    def __init__(self, kernel: s.KernelOp, traces: Mapping[Copy, list[Event]], model: str) -> None:
        super().__init__(traces, PROFILES[model], kinds_of(kernel))
        self.cluster = 1 if kernel.cluster is None else kernel.cluster.value.data
        self.why = ""
        self.found: dict[tuple[End, str, int], list[Access]] = {}

    # Pairs -----------------------------------------------------------------------------------------------------------

    def check(self, pair: Pair) -> None:
        """Raises Broken where two instances that touch the same slot are in no order."""
        order = pair.order
        firsts = self._accesses(order.first, order.operands[0], order.owner)
        alone = (order.first, order.operands[0]) == (order.second, order.operands[1])
        seconds = firsts if alone else self._accesses(order.second, order.operands[1], order.owner)
        self._same_memory(firsts, seconds)
        by_slot: dict[Any, tuple[list[Access], list[Access]]] = {}
        for side, accesses in ((0, firsts), (1, seconds)):
            for access in accesses:
                by_slot.setdefault(access.slot, ([], []))[side].append(access)
        for ones, others in by_slot.values():
            if not ones or not others:
                continue
            forward = [self._earliest(pair.forward, x, others[0]) for x in ones]
            back = forward if alone else [self._earliest(pair.back, y, ones[0]) for y in others]
            for i, x in enumerate(ones):
                for j, y in enumerate(others):
                    same = x.copy == y.copy and x.at == y.at
                    if not same and not (y.at >= forward[i] or x.at >= back[j]):
                        raise Broken(self._why(pair, i, j, x, y))

    def _earliest(self, chains: list[tuple[Link, ...]], x: Access, y: Access) -> float:
        """From where on in its role the second access comes after an instance of the first, by any of the chains."""
        best = float("inf")
        for chain in chains:
            try:
                best = min(best, self._follow(chain, x, y))
            except Broken as error:
                self.why = str(error)
        return best

    def _why(self, pair: Pair, i: int, j: int, x: Access, y: Access) -> str:
        why, self.why = self.why, ""
        told = (
            f": {why}"
            if why
            else ""
            if pair.forward or pair.back
            else ": they were said never to meet"
        )
        return f"nothing orders instance {i} of the first and {j} of the second{told}"

    def _same_memory(self, firsts: list[Access], seconds: list[Access]) -> None:
        buffers = {a.buffer for a in (*firsts, *seconds)}
        if len(buffers) > 1:
            raise Broken("the two do not touch the same memory")
        if firsts and seconds and Kind.WRITE not in (firsts[0].touch.kind, seconds[0].touch.kind):
            raise Broken("neither writes")

    def _accesses(self, end: End, operand: str, owner: int) -> list[Access]:
        key = end, operand, owner
        if key not in self.found:
            self.found[key] = self._find(*key)
        return self.found[key]

    def _find(self, end: End, operand: str, owner: int) -> list[Access]:
        copy = Copy(end.role, end.copy, end.cta)
        found: list[Access] = []
        for at in self.where.get((copy, end.site), ()):
            event = self.traces[copy][at]
            touch = next(
                (r for r in event.rows() if isinstance(r, Touch) and r.operand == operand), None
            )
            if touch is None:
                raise Broken(f"{end.site} does not touch {operand}")
            done = touch.done
            if done is Done.TCGEN05_COMMIT and touch.space is Space.SHARED and in_registers(event):
                done = Done.WGMMA_GROUP
            if touch.space is not Space.GLOBAL and owner not in owners(
                event, copy.cta, self.cluster
            ):
                raise Broken(f"{end.site} does not touch memory of CTA {owner}")
            home = owner if "A1" in self.assumed and touch.space is Space.SHARED else copy.cta
            found.append(Access(copy, at, event, operand, touch, done, home))
        return found

    # Chains ----------------------------------------------------------------------------------------------------------

    def _follow(self, chain: Sequence[Link], x: Access, y: Access) -> float:
        if any(link.rule == "read-between" for link in chain):
            cut = next(i for i, link in enumerate(chain) if link.rule == "read-between")
            return self._through(chain[:cut], chain[cut].start, chain[cut + 1 :], x, y)
        known = self._known(chain[:-1], x)
        return self._accepted(chain[-1].rule, known, y).at if known else float("inf")

    def _known(self, steps: Sequence[Link], x: Access) -> list[Known]:
        """What the steps of a chain say of an instance, the earliest first; nothing where one no longer happens."""
        known = [self._start(x)]
        for link in steps:
            if link.rule == "group":  # groups are counted where they are awaited
                continue
            known = self._step(link, known)
            if not known:
                return []
        return sorted(known, key=lambda k: k.at)

    def _accepted(self, rule: str, known: list[Known], y: Access) -> Known:
        """The earliest of what is known that orders the access."""
        why = Broken("a chain that does not lead to the access")
        for found in known:
            try:
                if found.copy != y.copy:
                    raise Broken("a chain that does not lead to the access")
                self._accept(rule, found, y)
            except Broken as error:
                why = error
            else:
                return found
        raise why

    def trail(self, order: Order, forward: bool) -> list[tuple[Copy, int]]:
        """The events of a chain from the first instance for which it leads to one of the other access; none, where it
        does so for none."""
        ends = [(order.first, order.operands[0]), (order.second, order.operands[1])]
        chain = order.forward if forward else order.back
        if chain is None or any(step.rule == "read-between" for step in chain):
            return []
        xs, ys = (self._accesses(*end, order.owner) for end in (ends if forward else ends[::-1]))
        for x in xs:
            for y in ys:
                if x.slot != y.slot or (x.copy == y.copy and y.at <= x.at):
                    continue
                known = [k for k in self._known(chain[:-1], x) if k.copy == y.copy and k.at <= y.at]
                if known:
                    return [*known[0].trail, (y.copy, y.at)]
        return []

    def _through(
        self, there: Sequence[Link], read: End, back: Sequence[Link], x: Access, y: Access
    ) -> float:
        """By a read that comes after the first, and before the second."""
        operand = self._operand_of(read, x)
        reads = [r for r in self._accesses(read, operand, x.home) if r.slot == x.slot]
        if not reads:
            return float("inf")
        if reads[0].touch.kind is Kind.WRITE:
            raise Broken("what stands between is no read")
        from_there = self._follow(there, x, reads[0])
        first = next((r for r in reads if r.at >= from_there), None)
        return float("inf") if first is None else self._follow(back, first, y)

    def _operand_of(self, end: End, x: Access) -> str:
        copy = Copy(end.role, end.copy, end.cta)
        for at in self.where.get((copy, end.site), ()):
            event = self.traces[copy][at]
            for row in event.rows():
                if isinstance(row, Touch) and getattr(event.op, row.operand) is x.buffer:
                    return row.operand
        raise Broken("a read between of other memory")

    def _start(self, x: Access) -> Known:
        own = {t: frozenset({t}) for t in x.event.threads}
        if x.tensor:
            waits = "st" if x.touch.kind is Kind.WRITE else "ld"
            state = {Done.TCGEN05_COMMIT: "tracked", Done.TCGEN05_WAIT: waits}.get(x.done, COMPLETE)
        else:
            state = UNDER_WAY.get(x.done, GENERIC if x.touch.proxy is Proxy.GENERIC else COMPLETE)
        return Known(x, x.copy, x.at, state, own, trail=((x.copy, x.at),))

    def _step(self, link: Link, known: list[Known]) -> list[Known]:
        """What one step adds to each thing known, where the certificate says or at the next place that is alike (the
        step of another branch, or of the next loop); none: no more of it happens in this run."""
        copy = Copy(link.start.role, link.start.copy, link.start.cta)
        named, others = self.places(copy, link.start.site)
        take = STEPS.get(link.rule)
        if take is None:
            raise Broken(f"{link.rule} cannot be followed")
        trace = self.traces[copy]
        found: dict[Any, Known] = {}
        why: Broken | None = None
        for one in known:
            if one.copy != copy:
                why = Broken(f"{link.start} is not where the chain has come to")
                continue
            for sites in (named,) if len(named) == len(others) else (named, others):
                try:
                    more = self._next(take, link, one, sites, trace)
                except Broken as error:
                    why = error
                    continue
                if more is not None:
                    found.setdefault(
                        (more.copy, more.at, more.state, more.fence, tuple(more.threads.items())),
                        more,
                    )
        if not found and why is not None:
            raise why
        return list(found.values())

    def _next(
        self, take: Step, link: Link, known: Known, sites: list[int], trace: list[Event]
    ) -> Known | None:
        for at in sites[bisect_left(sites, known.at) :]:
            more = take(self, link, known._replace(at=at), trace[at])
            if more is not None:
                told = () if more.copy == known.copy else ((more.copy, more.at - 1),)
                return more._replace(trail=(*known.trail, (known.copy, at), *told))
        return None

    # The end -------------------------------------------------------------------------------------------------------

    def _accept(self, rule: str, known: Known, y: Access) -> None:
        """Whether what is known orders the access: in its proxy, and for all threads' parts."""
        x = known.source
        if x.tensor:
            self._accept_tensor(rule, known, y)
        else:
            ways = {
                "generic": known.state == GENERIC and y.touch.proxy is Proxy.GENERIC,
                "bridged": known.state in (JOINED, ACQUIRED) and y.touch.proxy is Proxy.ASYNC and known.cta == y.home,
                "mapped": known.state == MAPPED and y.touch.proxy is Proxy.TENSORMAP and known.cta == y.copy.cta,
                "one-proxy": known.state == COMPLETE
                and y.touch.proxy is x.touch.proxy is Proxy.ASYNC
                and x.home == y.home
                and x.copy.cta == y.copy.cta,
                "one-proxy-home": known.state == COMPLETE and y.touch.proxy is x.touch.proxy is Proxy.ASYNC
                and x.home == y.home,
            }  # fmt: skip
            if not ways.get(rule, False) or known.fence == 2:
                raise Broken(
                    f"{rule} does not join the {x.touch.proxy} and the {y.touch.proxy} proxy here"
                )
        own = known.copy == x.copy and self._same_part(x, y)
        for t in y.event.threads:
            needed = frozenset({t}) & x.event.threads if own else x.event.threads
            if not needed <= known.threads.get(t, frozenset()):
                raise Broken("not all threads that access know of all threads' parts")

    def _accept_tensor(self, rule: str, known: Known, y: Access) -> None:
        x = known.source
        if rule == "po" and known.state == COMPLETE:
            return
        if known.state not in ("tracked", PIPE) or rule not in self._piped(x, y):
            raise Broken(f"{rule} does not order these")
        if known.state == "tracked" and (
            known.copy != x.copy or x.event.threads != y.event.threads
        ):
            raise Broken("pipelined only within a thread")

    def _piped(self, x: Access, y: Access) -> set[str]:
        """The rules by which the tensor core keeps two operations of one thread in order."""
        kinds = [TENSOR_WORK.get(a.event.op.name.removeprefix("stage.")) for a in (x, y)]
        writes = [a.touch.kind is Kind.WRITE for a in (x, y)]
        found: set[str] = set()
        for row in PIPELINED:
            if [row.first, row.then] != kinds or not (row.needs in self.assumed or not row.needs):
                continue
            wanted = [row.same, True] if kinds == ["mma", "mma"] else writes
            if writes == wanted:
                found.add(PIPED.get(row.needs, "pipelined"))
        return found

    def _same_part(self, x: Access, y: Access) -> bool:
        """Whether a thread's part of the second is its part of the first: the same fragment at the same place."""
        return x.fragment is not None and x.fragment == y.fragment

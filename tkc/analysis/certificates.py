"""Whether the chains of a certificate put each pair of accesses in order, in the program as it is now.

Runs the roles on small numbers (`instances`) and follows each chain from every instance of the first access: which
threads know of which threads' parts of it, and through which proxy. Shares the tables of rules and assumptions with the
analysis that made the chains, and no code.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from tkc.analysis.happens_before.rules import PROFILES, RULES
from tkc.analysis.instances import Copy, Edited, Event, Instruction, Opened
from tkc.analysis.known import (
    ACQUIRED,
    COMPLETE,
    GENERIC,
    JOINED,
    MAPPED,
    MISSING,
    PIPE,
    PIPED,
    TENSOR_WORK,
    UNDER_WAY,
    Access,
    Broken,
    Known,
    Like,
    alone,
    depth,
    fragment_of,
    in_registers,
)
from tkc.analysis.phases import owners, runs
from tkc.analysis.steps import STEPS, Step, Steps, kinds_of
from tkc.ir.isa.assumptions import PIPELINED
from tkc.ir.isa.memory import Done, Kind, Proxy, Space, Touch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import SSAValue

    from tkc.ir.certificates import Certificate, End, Link, Order
    from tkc.ir.stage import ops as s


WAITS = ("stage.mbarrier_wait", "stage.bulk_wait", "stage.cluster_barrier")
"""Without one of these phases may be lapped, also where it orders no pair."""


def wrong(certificate: Certificate, kernel: s.KernelOp) -> dict[int, str]:
    """The pairs of a certificate whose chains do not hold in a kernel, and why.

    Raises Unknown where the kernel cannot be run on small numbers.
    """
    if not certificate.orders and not any(x.op in WAITS for x in certificate.sites):
        return {}
    found: dict[int, str] = {}
    for i, order in enumerate(certificate.orders):
        try:
            _allowed(order, PROFILES[order.model])
        except Broken as error:
            found[i] = str(error)
    kinds, pairs = kinds_of(kernel), _pairs(certificate)
    models, likes = {o.model for o in certificate.orders}, dict[Instruction, Like]()
    for sizes, traces in runs(kernel):
        all_runs = {m: Run(kernel, traces, m, kinds, likes) for m in models}
        for numbers, pair in pairs.items():
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


def _all_in_order(
    ones: list[Access], others: list[Access], forward: list[float], back: list[float]
) -> bool:
    """Whether each of some accesses comes after those of the other side that do not come after it, which looks at each
    once; where it does not, an access that stands on both sides may be why."""
    latest = list(accumulate(back, max))
    if ones is others:
        return all(y.at >= before for y, before in zip(others[1:], latest, strict=False))
    places = [y.at for y in others]
    for x, after in zip(ones, forward, strict=True):
        earlier = bisect_left(places, after)
        if earlier and x.at < latest[earlier - 1]:
            return False
    return True


def _slots_alike(firsts: list[Access], seconds: list[Access]) -> bool:
    """Whether slots of two buffers, which may lie in one place, are the same where they have the same number."""
    return len({depth(a.buffer) for a in (*firsts[:1], *seconds[:1]) if a.held}) < 2


def _start(x: Access) -> Known:
    """What is known of an access right after it was issued."""
    if x.tensor:
        waits = "st" if x.touch.kind is Kind.WRITE else "ld"
        state = {Done.TCGEN05_COMMIT: "tracked", Done.TCGEN05_WAIT: waits}.get(x.done, COMPLETE)
    else:
        state = UNDER_WAY.get(x.done, GENERIC if x.touch.proxy is Proxy.GENERIC else COMPLETE)
    return Known(x, x.copy, x.at, state, alone(x.event.threads), trail=((x.copy, x.at),))


def _unlike(known: list[Known]) -> list[Known]:
    """Each thing known once."""
    found: dict[Any, Known] = {}
    for one in known:
        found.setdefault((one.copy, one.at, one.state, one.fence, tuple(one.threads.items())), one)
    return list(found.values())


Way = tuple[Copy, Step, tuple[list[int], ...], "list[Event]"]
"""How a step is followed: in which role's copy and its trace, by which rule, at which of its places."""


Taken = tuple[int, "Link", Way]
"""A step with its number: that of all chains that begin with the same steps."""


class Route(NamedTuple):
    """A chain in one run: its steps, and the rule at its end; by a read, the ways to and from it."""

    steps: list[Taken]
    rule: str
    through: tuple[Route, End, Route] | None = None


class Run(Steps):
    """One run of a kernel, and the chains that are followed in it by the rules of a model."""

    def __init__(
        self,
        kernel: s.KernelOp,
        traces: Mapping[Copy, list[Event]],
        model: str,
        kinds: Mapping[str, Like] | None = None,
        likes: dict[Instruction, Like] | None = None,
    ) -> None:
        kinds = kinds_of(kernel) if kinds is None else kinds
        super().__init__(traces, PROFILES[model], kinds, {} if likes is None else likes)
        self.cluster = 1 if kernel.cluster is None else kernel.cluster.value.data
        self.why = ""
        self.found: dict[tuple[End, str, int], list[Access]] = {}
        self.by_slot: dict[int, dict[Any, list[Access]]] = {}
        """By the identity of a list of `found`."""
        self.routes: dict[int, Route] = {}
        """By the identity of a chain, of a certificate that stays as it is meanwhile."""
        self.taken: dict[tuple[int, Link], Taken] = {}
        """Steps by the number of the step before and what they are."""
        self.trailing = False

    # Pairs -----------------------------------------------------------------------------------------------------------

    def check(self, pair: Pair) -> None:
        """Raises Broken where two instances that touch the same slot are in no order."""
        order = pair.order
        firsts = self._accesses(order.first, order.operands[0], order.owner)
        alone = (order.first, order.operands[0]) == (order.second, order.operands[1])
        seconds = firsts if alone else self._accesses(order.second, order.operands[1], order.owner)
        self._same_memory(firsts, seconds)
        slots = self._slots(firsts), self._slots(seconds)
        if not _slots_alike(firsts, seconds):
            slots = {None: firsts}, {None: seconds}
        for slot, ones in slots[0].items():
            others = slots[1].get(slot)
            if others is None:
                continue
            forward = [self._earliest(pair.forward, x, others[0]) for x in ones]
            back = forward if alone else [self._earliest(pair.back, y, ones[0]) for y in others]
            if _all_in_order(ones, others, forward, back):
                continue
            for i, x in enumerate(ones):
                for j, y in enumerate(others):
                    same = x.copy == y.copy and x.at == y.at
                    if not same and not (y.at >= forward[i] or x.at >= back[j]):
                        raise Broken(self._why(pair, i, j, x, y))

    def _slots(self, accesses: list[Access]) -> dict[Any, list[Access]]:
        """The accesses by the slot that they touch, each in the order of its trace."""
        found = self.by_slot.get(id(accesses))
        if found is None:
            found = self.by_slot[id(accesses)] = {}
            for access in accesses:
                found.setdefault(access.slot, []).append(access)
        return found

    def _earliest(self, chains: list[tuple[Link, ...]], x: Access, y: Access) -> float:
        """From where on in its role the second access comes after an instance of the first, by any of the chains."""
        best = float("inf")
        for chain in chains:
            try:
                route = self.routes.get(id(chain))
                if route is None:
                    route = self.routes[id(chain)] = self._route(chain)
                best = min(best, self._follow(route, x, y))
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
        every = [*firsts, *seconds]
        buffers = {id(a.buffer): a for a in every}.values()
        if len({id(a.place) for a in buffers}) > 1:
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
        known: dict[Instruction, tuple[Touch, SSAValue]] = {}
        ctas: dict[Any, list[int]] = {}
        for at in self._named(copy, end.site):
            event = self.traces[copy][at]
            if event.of not in known:
                rows = [
                    r for r in event.of.effects if isinstance(r, Touch) and r.operand == operand
                ]
                if not rows:
                    raise Broken(f"{end.site} does not touch {operand}")
                known[event.of] = rows[0], getattr(event.op, operand)
            touch, named = known[event.of]
            done, value = touch.done, event.value(operand)
            if done is Done.TCGEN05_COMMIT and touch.space is Space.SHARED and in_registers(event):
                done = Done.WGMMA_GROUP
            if touch.space is not Space.GLOBAL:
                named_by = event.of, event.value("mask"), event.value(touch.at) if touch.at else 0
                if named_by not in ctas:
                    ctas[named_by] = owners(event, copy.cta, self.cluster, operand)
                if owner not in ctas[named_by]:
                    raise Broken(f"{end.site} does not touch memory of CTA {owner}")
            home = owner if "A1" in self.assumed and touch.space is Space.SHARED else copy.cta
            buffer = value.buffer if isinstance(value, Opened) else named
            if touch.space is Space.MAP and isinstance(value, Edited):
                buffer = value.maps
            access = Access(copy, at, event, operand, touch, done, home, owner, buffer)
            access.start = _start(access)
            found.append(access)
        return found

    def _named(self, copy: Copy, site: str) -> list[int]:
        return self.places(copy, site)[0] if site in self.kinds else []

    # Chains ----------------------------------------------------------------------------------------------------------

    def _route(self, chain: Sequence[Link]) -> Route:
        rules = [link.rule for link in chain]
        if "read-between" in rules:
            cut = rules.index("read-between")
            there, back = self._route(chain[:cut]), self._route(chain[cut + 1 :])
            return Route([], "read-between", (there, chain[cut].start, back))
        steps: list[Taken] = []
        number = 0
        for link in chain[:-1]:
            if link.rule == "group":
                continue  # groups are counted where they are awaited
            taken = self.taken.get((number, link))
            if taken is None:
                taken = len(self.taken) + 1, link, self._way(link)
                self.taken[number, link] = taken
            steps.append(taken)
            number = taken[0]
        return Route(steps, rules[-1])

    def _follow(self, route: Route, x: Access, y: Access) -> float:
        if route.through is not None:
            return self._through(*route.through, x, y)
        known = self._known(route, x)
        return self._accepted(route.rule, known, y).at if known else float("inf")

    def _known(self, route: Route, x: Access) -> list[Known]:
        """What the steps of a chain say of an instance, the earliest first; nothing where one no longer happens."""
        known = [x.start]
        for number, link, way in route.steps:
            more = x.known.get(number)
            if more is None:
                try:
                    more = self._step(link, way, known)
                except Broken as error:
                    more = error
                x.known[number] = more
            if isinstance(more, Broken):
                raise more
            known = more
            if not known:
                return []
        return known if len(known) == 1 else sorted(known, key=lambda k: k.at)

    def _accepted(self, rule: str, known: list[Known], y: Access) -> Known:
        """The earliest of what is known that orders the access."""
        why: Broken | None = None
        for found in known:
            try:
                if found.copy == y.copy:
                    self._accept(rule, found, y)
                    return found
            except Broken as error:
                why = error
        raise why or Broken("a chain that does not lead to the access")

    def trail(self, order: Order, forward: bool) -> list[tuple[Copy, int]]:
        """The events of a chain from the first instance for which it leads to one of the other access; none, where it
        does so for none."""
        ends = [(order.first, order.operands[0]), (order.second, order.operands[1])]
        chain = order.forward if forward else order.back
        if not self.trailing:
            self.trailing, self.found = True, {}  # what is known has no trail yet
        if chain is None or any(step.rule == "read-between" for step in chain):
            return []
        route = self._route(chain)
        xs, ys = (self._accesses(*end, order.owner) for end in (ends if forward else ends[::-1]))
        for x in xs:
            for y in ys:
                if x.slot != y.slot or (x.copy == y.copy and y.at <= x.at):
                    continue
                known = [k for k in self._known(route, x) if k.copy == y.copy and k.at <= y.at]
                if known:
                    return [*known[0].trail, (y.copy, y.at)]
        return []

    def _through(self, there: Route, read: End, back: Route, x: Access, y: Access) -> float:
        """By a read that comes after the first, and before the second."""
        operand = self._operand_of(read, x)
        reads = [r for r in self._accesses(read, operand, x.owner) if r.slot == x.slot]
        if not reads:
            return float("inf")
        if reads[0].touch.kind is Kind.WRITE:
            raise Broken("what stands between is no read")
        from_there = self._follow(there, x, reads[0])
        first = next((r for r in reads if r.at >= from_there), None)
        return float("inf") if first is None else self._follow(back, first, y)

    def _operand_of(self, end: End, x: Access) -> str:
        copy = Copy(end.role, end.copy, end.cta)
        for at in self._named(copy, end.site):
            event = self.traces[copy][at]
            for row in event.of.effects:
                if isinstance(row, Touch) and getattr(event.op, row.operand) is x.buffer:
                    return row.operand
        raise Broken("a read between of other memory")

    def _step(self, link: Link, way: Way, known: list[Known]) -> list[Known]:
        """What one step adds to each thing known, where the certificate says or at the next place that is alike (the
        step of another branch, or of the next loop); none: no more of it happens in this run."""
        copy, take, choices, trace = way
        found: list[Known] = []
        why: Broken | None = None
        for one in known:
            if one.copy != copy:
                why = Broken(f"{link.start} is not where the chain has come to")
                continue
            taken = -1
            for sites in choices:
                first = bisect_left(sites, one.at)
                if taken >= 0 and sites[first] == taken:
                    continue  # the next one that is alike is the one that is named
                try:
                    taken, more = self._next(take, link, one, sites[first:], trace)
                except Broken as error:
                    why = error
                    continue
                if more is not None:
                    found.append(more)
        if not found and why is not None:
            raise why
        return found if len(found) < 2 else _unlike(found)

    def _way(self, link: Link) -> Way:
        copy = Copy(link.start.role, link.start.copy, link.start.cta)
        named, others = self.places(copy, link.start.site)
        take = STEPS.get(link.rule)
        if take is None:
            raise Broken(f"{link.rule} cannot be followed")
        choices = (named,) if len(named) == len(others) else (named, others)
        return copy, take, choices, self.traces.get(copy, [])

    def _next(
        self, take: Step, link: Link, known: Known, sites: list[int], trace: list[Event]
    ) -> tuple[int, Known | None]:
        """The first of some places at which a step can be taken, and what is known then."""
        for at in sites:
            more = take(self, link, known, trace[at], at)
            if more is not None:
                if not self.trailing:
                    return at, more
                last = more.at if take is Steps.meet else more.at - 1
                told = () if more.copy == known.copy else ((more.copy, last),)
                return at, more._replace(trail=(*known.trail, (known.copy, at), *told))
        return -1, None

    # The end -------------------------------------------------------------------------------------------------------

    def _accept(self, rule: str, known: Known, y: Access) -> None:
        """Whether what is known orders the access: in its proxy, and for all threads' parts."""
        x = known.source
        if x.tensor:
            self._accept_tensor(rule, known, y)
        else:
            if known.fence in MISSING or not self._joined(rule, known, y):
                raise Broken(
                    f"{rule} does not join the {x.touch.proxy} and the {y.touch.proxy} proxy here"
                )
        every, nothing = x.event.threads, frozenset[int]()
        lacking = [t for t in y.event.threads if not every <= known.threads.get(t, nothing)]
        if lacking and not (known.copy == x.copy and self._same_part(x, y)):
            raise Broken("not all threads that access know of all threads' parts")
        for t in lacking:
            if not every & {t} <= known.threads.get(t, nothing):
                raise Broken("not all threads that access know of all threads' parts")

    def _joined(self, rule: str, known: Known, y: Access) -> bool:
        """Whether a rule joins the proxies of what is known and of an access."""
        x, state, proxy = known.source, known.state, y.touch.proxy
        match rule:
            case "generic":
                return state == GENERIC and proxy is Proxy.GENERIC
            case "bridged":
                ours = known.cta == y.home
                return state in (JOINED, ACQUIRED) and proxy is Proxy.ASYNC and ours
            case "mapped":
                ours = known.cta == y.copy.cta
                return state == MAPPED and proxy is Proxy.TENSORMAP and ours
            case "one-proxy" | "one-proxy-home":
                both = proxy is x.touch.proxy is Proxy.ASYNC and x.home == y.home
                within = rule == "one-proxy-home" or x.copy.cta == y.copy.cta
                return state == COMPLETE and both and within
            case _:
                return False

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
        mine = fragment_of(x) if x.buffer is y.buffer or x.tensor else None
        return mine is not None and mine == fragment_of(y)

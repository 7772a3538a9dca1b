"""Whether the chains of a certificate put each pair of accesses in order, in the program as it is now.

Runs the roles on small numbers (`instances`) and follows each chain from every instance of the first access: which
threads know of which threads' parts of it, and through which proxy. Shares the tables of rules and assumptions with the
analysis that made the chains, and no code.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest
from operator import ge
from typing import TYPE_CHECKING, Any, NamedTuple

from tkc.analysis.decisions import always_turned
from tkc.analysis.happens_before.rules import PROFILES, RULES
from tkc.analysis.instances import Copy, Instruction
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
    Access,
    Broken,
    Known,
    Like,
    depth,
    kind,
)
from tkc.analysis.machine import Code
from tkc.analysis.moves import Run
from tkc.analysis.phases import runs
from tkc.analysis.places import Front, Instances, Kinds, Taken
from tkc.ir.certificates import label
from tkc.ir.effects import effects_of
from tkc.ir.isa.assumptions import PIPELINED
from tkc.ir.isa.memory import Close, Kind, Proxy, Space, Touch
from tkc.ir.nest import around

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Operation

    from tkc.analysis.instances import Event
    from tkc.ir.certificates import Certificate, End, Link, Order
    from tkc.ir.stage import ops as s


WAITS = ("stage.mbarrier_wait", "stage.bulk_wait", "stage.cluster_barrier")
"""Without one of these phases may be lapped, also where it orders no pair."""

PART = "part"
"""Each thread knows of its own part alone: in order is what touches the same part."""


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
    ops = {name: op for op in kernel.walk() if (name := label(op))}
    named, pairs = {name: kind(op) for name, op in ops.items()}, _pairs(certificate)
    models, likes = {o.model for o in certificate.orders}, dict[Instruction, Like]()
    code = Code(kernel, _asked(certificate, ops), coordinates=_of_tensors(certificate, ops))
    ran = list(runs(code))
    traces = [found for _, found in ran]
    cluster, doubtful = _cluster(kernel), always_turned(code)
    judges = {
        m: Judge(Run(traces, Kinds(cluster, PROFILES[m], named, likes, doubtful)), ops)
        for m in models
    }
    for numbers, pair in pairs.items():
        one = pair.order
        try:
            judges[one.model].check(pair)
        except Broken as error:
            why = f"{one.first} and {one.second}: {error}"
            if isinstance(error, Apart):
                why += f" ({ran[error.run][0]})"
            found |= {i: why for i in numbers if i not in found}
    _let_go(traces)
    return found


def _let_go(traces: Sequence[Mapping[Copy, list[Event]]]) -> None:
    """Cuts what events and their deeds have of each other, when nobody asks any more: so they go at once, where the
    collector of garbage would have to find them."""
    for copies in traces:
        for trace in copies.values():
            for event in trace:
                event.deed = None


def _cluster(kernel: s.KernelOp) -> int:
    return 1 if kernel.cluster is None else kernel.cluster.value.data


def trail(
    order: Order, forward: bool, kernel: s.KernelOp, traces: Mapping[Copy, list[Event]]
) -> list[tuple[Copy, int]]:
    """The events of a chain from the first instance, of one run, for which it leads to one of the other access; none,
    where it does so for none. Raises Broken where it does not hold."""
    chain, ends = order.forward, list(zip((order.first, order.second), order.operands, strict=True))
    if not forward:
        chain, ends = order.back, ends[::-1]
    if chain is None or any(step.rule == "read-between" for step in chain):
        return []
    named = {name: kind(op) for op in kernel.walk() if (name := label(op))}
    run = Run([traces], Kinds(_cluster(kernel), PROFILES[order.model], named, {}))
    run.trails = {}
    judge = Judge(run)
    route = judge.route(chain)
    xs, ys = (run.instances(*end, order.owner) for end in ends)
    fronts = judge.known(route, xs)
    for i, x in enumerate(xs.at):
        for j, y in enumerate(ys.at):
            if xs.slots[i] != ys.slots[j] or (xs.copy == ys.copy and y <= x):
                continue
            ways = [(places[i], known) for known, places in fronts if known.copy == ys.copy]
            if ways := [w for w in ways if w[0] <= y]:
                place, known = min(ways, key=lambda way: way[0])
                return [(xs.copy, x), *_way_to(route, run.trails, i, known, place), (ys.copy, y)]
    return []


def _way_to(
    route: Route,
    trails: Mapping[tuple[int, int, Known, int], tuple[Known, int, int]],
    i: int,
    known: Known,
    place: int,
) -> list[tuple[Copy, int]]:
    """The events by which an instance has come to where it is."""
    found: list[tuple[Copy, int]] = []
    for taken in route.steps[::-1]:
        before, here, at = trails[taken.number, i, known, place]
        if before.copy != known.copy:
            found.append((known.copy, place - (not taken.link.rule.startswith("meet"))))
        found.append((before.copy, at))
        known, place = before, here
    return found[::-1]


class Apart(Broken):
    """Two instances are in no order, in one of the runs."""

    def __init__(self, why: str, run: int) -> None:
        super().__init__(why)
        self.run = run


@dataclass
class Pair:
    """Two accesses with every chain that a certificate has for them: of a loop's turns each may have its own."""

    order: Order
    forward: list[tuple[Link, ...]]
    back: list[tuple[Link, ...]]


def _asked(certificate: Certificate, ops: Mapping[str, Operation]) -> set[str]:
    """The operations that chains are about, and those that close what they may await, by what they are called."""
    sites: set[str] = set()
    for order in certificate.orders:
        sites |= {order.first.site, order.second.site}
        for link in (*(order.forward or ()), *(order.back or ())):
            sites |= {link.start.site, link.end.site}
    closing = [o for o in ops.values() if any(isinstance(r, Close) for r in effects_of(o) or ())]
    return {op.name for op in (*closing, *[ops[site] for site in sites & ops.keys()])}


def _of_tensors(certificate: Certificate, ops: Mapping[str, Operation]) -> bool:
    """Whether a pair is about tensors in global memory."""
    ends = {
        (end.site, operand)
        for o in certificate.orders
        for end, operand in zip((o.first, o.second), o.operands, strict=True)
    }
    return any(
        isinstance(row, Touch) and row.space is Space.GLOBAL and row.operand == operand
        for site, operand in ends
        if site in ops
        for row in effects_of(ops[site]) or ()
    )


def _pairs(certificate: Certificate) -> dict[tuple[int, ...], Pair]:
    """What is said of the same two accesses by one model; that some of their turns never meet goes with any that says
    how others are in order."""
    found: dict[Any, tuple[list[int], Pair]] = {}
    models: dict[Any, str] = {}
    for i, order in sorted(enumerate(certificate.orders), key=lambda each: _never(each[1])):
        chains = order.forward, order.back
        ends = [(order.first, order.operands[0]), (order.second, order.operands[1])]
        model = models.setdefault((frozenset(ends), order.owner), order.model)
        model = model if _never(order) else order.model
        key = (*ends, order.owner, model)
        turned = (*ends[::-1], order.owner, model)
        if turned in found and key not in found:
            key, chains = turned, chains[::-1]
        numbers, pair = found.setdefault(key, ([], Pair(order, [], [])))
        numbers.append(i)
        for chain, known in zip(chains, (pair.forward, pair.back), strict=True):
            if chain is not None and chain not in known:
                known.append(chain)
    return {tuple(numbers): pair for numbers, pair in found.values()}


def _never(order: Order) -> bool:
    return order.forward is None and order.back is None


def _allowed(order: Order, assumed: frozenset[str]) -> None:
    for rule in order.rules():
        if rule not in RULES:
            raise Broken(f"no rule is called {rule}")
        beyond = set(RULES[rule].assumes) - assumed
        if beyond:
            raise Broken(f"{rule} assumes {', '.join(sorted(beyond))}, which the model does not")


class Reach(NamedTuple):
    """From where on in the trace of another access instances are in order before it; `part`: before what touches the
    same part of the memory."""

    whole: list[int]
    part: list[int] | None


class Route(NamedTuple):
    """A chain: its steps, and the rule at its end; by a read, the ways to and from it."""

    steps: list[Taken]
    rule: str
    through: tuple[Route, End, Route] | None = None


@dataclass
class Judge:
    """Follows chains in runs of a kernel by the rules of a model."""

    run: Run
    ops: Mapping[str, Operation] = field(default_factory=dict[str, "Operation"])
    """Operations by their names."""
    routes: dict[int, Route] = field(default_factory=dict)
    """By the identity of a chain, of a certificate that stays as it is meanwhile."""

    # Pairs -----------------------------------------------------------------------------------------------------------

    def check(self, pair: Pair) -> None:
        """Raises Broken where two instances that touch the same slot are in no order."""
        order, find = pair.order, self.run.instances
        firsts = find(order.first, order.operands[0], order.owner)
        alone = (order.first, order.operands[0]) == (order.second, order.operands[1])
        seconds = firsts if alone else find(order.second, order.operands[1], order.owner)
        if not (firsts.at and seconds.at):
            return
        self.run.why = ""
        _same_memory(firsts, seconds)
        slots = firsts.by_slot, seconds.by_slot
        if not _slots_alike(firsts, seconds):
            slots = {None: [*range(len(firsts.at))]}, {None: [*range(len(seconds.at))]}
        there = {y: self._nowhere(firsts, y) for y in seconds.kinds}
        back = {x: self._nowhere(seconds, x) for x in firsts.kinds} if not alone else there
        sides = [
            (Side(firsts, ones, there), Side(seconds, others, back))
            for slot, ones in slots[0].items()
            if (others := slots[1].get(slot)) is not None
        ]
        ways = zip_longest(pair.forward, () if alone else pair.back)
        for forward, backward in ways:  # often the first is enough
            if forward is not None:
                self._add(there, forward, firsts)
            if backward is not None:
                self._add(back, backward, seconds)
            if all(_all_in_order(*both) for both in sides):
                return
        for both in sides:
            self._in_order(pair, *both)

    def _in_order(self, pair: Pair, firsts: Side, seconds: Side) -> None:
        if _all_in_order(firsts, seconds):
            return
        for x in firsts.which:
            for y in seconds.which:
                one, other = firsts.of, seconds.of
                same = one.copy == other.copy and one.at[x] == other.at[y]
                if not same and not (
                    self._comes_after(firsts, x, other, y) or self._comes_after(seconds, y, one, x)
                ):
                    run = self.run.run_of(one.copy, one.at[x])
                    raise Apart(
                        self._why(pair, self._number(firsts, x), self._number(seconds, y)), run
                    )

    def _number(self, side: Side, x: int) -> int:
        """Which of the instances in its slot and run one is."""
        run = [self.run.run_of(side.of.copy, side.of.at[i]) for i in side.which]
        here = side.which.index(x)
        return sum(r == run[here] for r in run[:here])

    def _comes_after(self, side: Side, x: int, others: Instances, y: int) -> bool:
        """Whether an instance comes after one of a side."""
        reach, at = side.to[others.accesses[y]], others.at[y]
        if at >= reach.whole[x]:
            return True
        if reach.part is None or at < reach.part[x]:
            return False
        return _same_part(self.run, side.of, x, others, y)

    def _why(self, pair: Pair, i: int, j: int) -> str:
        why = self.run.why
        told = (
            f": {why}"
            if why
            else ""
            if pair.forward or pair.back
            else ": they were said never to meet"
        )
        return f"nothing orders instance {i} of the first and {j} of the second{told}"

    # Chains ----------------------------------------------------------------------------------------------------------

    def _nowhere(self, of: Instances, y: Access) -> Reach:
        """That the second access comes after instances of the first in no run."""
        return Reach(self.run.latest(of, y.copy), None)

    def _add(self, to: dict[Access, Reach], chain: tuple[Link, ...], of: Instances) -> None:
        """Adds from where on in their role accesses come after instances of another by a chain."""
        for y, known in to.items():
            try:
                route = self.route(chain)
                for access in of.kinds:
                    self._certain(chain, access, y)
                found = self._follow(route, of, y)
            except Broken as error:
                self.run.why = str(error)
                continue
            part = known.part
            if found.part is not None:
                part = found.part if part is None else _sooner(part, found.part)
            to[y] = Reach(_sooner(known.whole, found.whole), part)

    def _certain(self, chain: tuple[Link, ...], x: Access, y: Access) -> None:
        """Raises Broken where a step stands in a loop that may not turn, and neither what is before it nor what comes
        next in its role does."""
        doubtful = self.run.all.doubtful
        if not doubtful:
            return
        ends = (x.copy.role, x.event.op), (y.copy.role, y.event.op)
        links = [end for link in chain for end in (link.start, link.end)]
        steps = [(end.role, op) for end in links if (op := self.ops.get(end.site)) is not None]
        way = [ends[0], *steps, ends[1]]
        for before, (role, op), after in zip(way, way[1:], way[2:], strict=False):
            near = {o for r, other in (before, after) if r == role for o in around(other)}
            if any(loop not in near for loop in around(op) if loop in doubtful):
                raise Broken(f"{label(op)} is in a loop that may not turn")

    def route(self, chain: tuple[Link, ...]) -> Route:
        route = self.routes.get(id(chain))
        if route is None:
            route = self.routes[id(chain)] = self._way(chain)
        return route

    def _way(self, chain: Sequence[Link]) -> Route:
        if not chain:
            raise Broken("a chain without an end")
        rules = [link.rule for link in chain]
        if "read-between" in rules:
            cut = rules.index("read-between")
            there, back = self._way(chain[:cut]), self._way(chain[cut + 1 :])
            return Route([], "read-between", (there, chain[cut].start, back))
        steps: list[Taken] = []
        for link in chain[:-1]:
            if link.rule != "group":  # groups are counted where they are awaited
                steps.append(self.run.all.taken(steps[-1].number if steps else 0, link))
        return Route(steps, rules[-1])

    def _follow(self, route: Route, of: Instances, y: Access) -> Reach:
        if route.through is not None:
            return self._through(*route.through, of, y)
        whole, part = self.run.latest(of, y.copy), None
        for known, places in self.known(route, of):
            how = self._ordered(route.rule, known, y)
            if how and how != PART:
                self.run.why = how
                continue
            if how == PART:
                part = places if part is None else _sooner(part, places)
            else:
                whole = _sooner(whole, places)
        return Reach(whole, part)

    def known(self, route: Route, of: Instances) -> list[Front]:
        """What the steps of a chain say of each instance of which more happens."""
        fronts = self.run.start(of)
        for taken in route.steps:
            fronts = self.run.step(taken, of, fronts)
        return fronts

    def _through(self, there: Route, read: End, back: Route, of: Instances, y: Access) -> Reach:
        """By a read that comes after the first, and before the second."""
        whole = list(self.run.latest(of, y.copy))
        for access in of.kinds:
            operand = self._operand_of(read, access)
            if operand is None:
                raise Broken("a read between of other memory")
            reads = self.run.instances(read, operand, access.owner)
            if any(r.touch.kind is Kind.WRITE for r in reads.kinds):
                raise Broken("what stands between is no read")
            to = {r: self._follow(there, of, r).whole for r in reads.kinds}
            on = self._follow(back, reads, y).whole
            for i, x in enumerate(of.accesses):
                if x is access:
                    here = reads.by_slot.get(of.slots[i], ())
                    after = (r for r in here if reads.at[r] >= to[reads.accesses[r]][i])
                    whole[i] = min((on[r] for r in after), default=whole[i])
        return Reach(whole, None)

    def _operand_of(self, end: End, x: Access) -> str | None:
        """The operand by which an operation touches the buffer of an access."""
        copy = Copy(end.role, end.copy, end.cta)
        for at in self.run.places(copy, end.site)[0] if end.site in self.run.all.named else ():
            event = self.run.event(copy, at)
            for row in event.of.effects:
                if isinstance(row, Touch) and getattr(event.op, row.operand) is x.buffer:
                    return row.operand
        return None

    # The end ---------------------------------------------------------------------------------------------------------

    def _ordered(self, rule: str, known: Known, y: Access) -> str:
        """Why what is known does not order an access by a rule; empty: it does; PART: as far as threads' own parts."""
        key = rule, y
        if key not in known.ends:
            try:
                known.ends[key] = self._accept(rule, known, y)
            except Broken as error:
                known.ends[key] = str(error)
        return known.ends[key]

    def _accept(self, rule: str, known: Known, y: Access) -> str:
        """Whether what is known orders the access: in its proxy, and for all threads' parts."""
        x = known.source
        if known.copy != y.copy:
            raise Broken("a chain that does not lead to the access")
        if x.tensor:
            self._accept_tensor(rule, known, y)
        elif known.fence in MISSING or not _joined(rule, known, y):
            raise Broken(
                f"{rule} does not join the {x.touch.proxy} and the {y.touch.proxy} proxy here"
            )
        every, nothing = x.threads, frozenset[int]()
        lacking = [t for t in y.threads if not every <= known.threads.get(t, nothing)]
        if not lacking:
            return ""
        mine = known.copy == x.copy and (x.buffer is y.buffer or x.tensor)
        if not mine or any(not every & {t} <= known.threads.get(t, nothing) for t in lacking):
            raise Broken("not all threads that access know of all threads' parts")
        return PART

    def _accept_tensor(self, rule: str, known: Known, y: Access) -> None:
        x = known.source
        if rule == "po" and known.state == COMPLETE:
            return
        if known.state not in ("tracked", PIPE) or rule not in self._piped(x, y):
            raise Broken(f"{rule} does not order these")
        if known.state == "tracked" and (known.copy != x.copy or x.threads != y.threads):
            raise Broken("pipelined only within a thread")

    def _piped(self, x: Access, y: Access) -> set[str]:
        """The rules by which the tensor core keeps two operations of one thread in order."""
        kinds = [TENSOR_WORK.get(a.event.op.name.removeprefix("stage.")) for a in (x, y)]
        writes = [a.touch.kind is Kind.WRITE for a in (x, y)]
        assumed, found = self.run.all.assumed, set[str]()
        for row in PIPELINED:
            if [row.first, row.then] != kinds or not (row.needs in assumed or not row.needs):
                continue
            wanted = [row.same, True] if kinds == ["mma", "mma"] else writes
            if writes == wanted:
                found.add(PIPED.get(row.needs, "pipelined"))
        return found


class Side(NamedTuple):
    """Instances of an access in one slot, by their numbers, and from where on each kind of the other comes after."""

    of: Instances
    which: list[int]
    to: Mapping[Access, Reach]

    @property
    def at(self) -> list[int]:
        at = self.of.at
        return at if len(self.which) == len(at) else [at[i] for i in self.which]

    @property
    def reach(self) -> list[int]:
        """Where there is one kind of the other."""
        [reach] = self.to.values()
        whole = reach.whole
        return whole if len(self.which) == len(whole) else [whole[i] for i in self.which]


def _all_in_order(firsts: Side, seconds: Side) -> bool:
    """Whether each of some accesses comes after those of the other side that do not come after it, which looks at each
    once, where all of a side are of one kind; where it does not, an access that stands on both sides may be why."""
    if len(firsts.to) != 1 or len(seconds.to) != 1:
        return False
    places, latest = seconds.at, list(accumulate(seconds.reach, max, initial=-1))
    if firsts.of is seconds.of:
        return all(map(ge, places, latest))
    earlier = [bisect_left(places, after) for after in firsts.reach]
    return all([x >= latest[n] for x, n in zip(firsts.at, earlier, strict=True)])


def _sooner(ones: list[int], others: list[int]) -> list[int]:
    return list(map(min, ones, others))


def _slots_alike(firsts: Instances, seconds: Instances) -> bool:
    """Whether slots of two buffers, which may lie in one place, are the same where they have the same number."""
    return len({depth(a.buffer) for a in (*firsts.kinds, *seconds.kinds) if a.held}) < 2


def _same_memory(firsts: Instances, seconds: Instances) -> None:
    every = [*firsts.kinds, *seconds.kinds]
    buffers = {id(a.buffer): a for a in every}.values()
    if len({id(a.place) for a in buffers}) > 1:
        raise Broken("the two do not touch the same memory")
    if Kind.WRITE not in {a.touch.kind for a in every}:
        raise Broken("neither writes")


def _same_part(run: Run, xs: Instances, x: int, ys: Instances, y: int) -> bool:
    """Whether a thread's part of one is its part of the other: the same fragment at the same place."""
    mine = run.fragment(xs, x)
    return mine is not None and mine == run.fragment(ys, y)


def _joined(rule: str, known: Known, y: Access) -> bool:
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

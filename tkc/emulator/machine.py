"""The machine: admits clusters, chooses which path or engine steps next, and tells when nothing can.

A path runs until it waits, parts, ends, or has used its share of steps. Asynchronous operations are generators: each
`yield` is a point at which something else may happen first. Schedule "eager" completes them where they are issued,
"lazy" when nothing else can go on, "random" at random. "pct" gives every warp and operation a random priority, always
steps the highest, and lowers it at a few random steps (probabilistic concurrency testing). All choices follow from the
seed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.diagnostics import Severity
from tkc.emulator import registers
from tkc.emulator.blas import one_thread
from tkc.emulator.cta import Cluster, Cta
from tkc.emulator.events import Who
from tkc.emulator.follow import spread
from tkc.emulator.hangs import hang
from tkc.emulator.instruction import PARKED, Instruction
from tkc.emulator.lanes import constant
from tkc.emulator.program import Program
from tkc.emulator.races import name_of, sentence
from tkc.emulator.record import Record
from tkc.emulator.report import Finding, Report, Stop
from tkc.emulator.spaces import Memory, Region
from tkc.emulator.special import CLOCKS, special_value
from tkc.emulator.statistics import count_instructions
from tkc.emulator.syntax import Variable
from tkc.emulator.warp import Path, Warp
from tkc.ir.isa.memory import Done
from tkc.ir.isa.targets import Target

if TYPE_CHECKING:
    from tkc.emulator.watch import Watch

SCHEDULES = ("eager", "lazy", "random", "pct")
PREEMPTIVE = ("random", "pct")
CANCEL = "clusterlaunchcontrol.try_cancel"
Dims = tuple[int, int, int]
Place = tuple[Dims, Dims]
"""A cluster: its first CTA, and how many it has along each axis."""
AHEAD = 8
"""Clusters that have not started, of which the next to start or to be taken over is drawn, where chance schedules."""
MOST_STARTED, START_CHANCE = 4, 0.002
"""Clusters beside one another, and how often one starts, where a kernel takes over others and chance schedules."""
REFUSAL_CHANCE = 0.05
QUANTUM = 2000
"""Steps that a path may do before others get their turn."""

PATIENCE = 400
"""How often a path that has used its turn without any effect gets another one while nobody else can go on."""

IDLE_STEPS = 1_000_000
"""Steps of the whole launch without any effect after which it counts as hung, where warps are interleaved."""

PCT_CHANGE = 0.01
"""How likely the pct schedule lowers the priority of what has just stepped."""

STALLED_STEPS = 20_000
"""Steps without any effect after which more lanes or another cluster may start, where warps are interleaved."""

RESERVED_SHARED = 1024
"""Bytes at the start of the shared window that the system keeps."""


@dataclass(slots=True)
class SharedLayout:
    """Where variables of shared memory lie in the window; `size` is the start of dynamic shared memory."""

    reserved: int
    size: int
    offsets: dict[int, int]


@dataclass(slots=True)
class Operation:
    """An asynchronous operation in flight: what is left of it, and the pipe whose order it keeps."""

    name: str
    steps: Iterator[None]
    pipe: Any
    ins: Instruction
    cluster: Cluster
    priority: float = 0.0


def places(base: Dims, whole: Dims, each: Dims) -> Iterator[Place]:
    """Clusters of `each` CTAs that make up a box of CTAs, x first."""
    ranges = [range(b, b + w, e) for b, w, e in zip(base, whole, each, strict=True)]
    return (((x, y, z), each) for z in ranges[2] for y in ranges[1] for x in ranges[0])


class Machine:
    """One launch of one kernel."""

    def __init__(
        self,
        program: Program,
        target: Target,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        cluster: tuple[int, int, int],
        dynamic_shared: int,
        memory: Memory,
        params: np.ndarray[Any, Any],
        schedule: str = "eager",
        seed: int = 0,
        model: str = "practice",
        max_steps: int | None = None,
    ) -> None:
        self.program = program
        self.target = target
        self.grid, self.block, self.cluster = grid, block, cluster
        self.preferred: Dims | None = None
        """A larger cluster that the hardware may make of several, where there is one."""
        self.threads = block[0] * block[1] * block[2]
        self.dynamic_shared = dynamic_shared
        self.memory = memory
        self.params = Region("the parameters", "param", 0, params)
        self.schedule, self.model = schedule, model
        self.max_steps = max_steps
        self.random = random.Random(seed)
        self.report = Report()
        self.sm_count = 148
        self.steps = 0
        self.activity = 0
        """Counts events that can let somebody go on: arrivals, completions, ends."""
        self.ready: deque[Path] = deque()
        self.polling: list[Path] = []
        self.operations: list[Operation] = []
        self.shared_layout = SharedLayout(RESERVED_SHARED, RESERVED_SHARED, {})
        self.variables: dict[int, int] = {}
        self.local_size = 0
        self.watch: Watch | None = None
        self.record: Record | None = None
        self.running: Path | None = None
        self.done_ctas = 0
        self._seen: set[tuple[str, int, bool]] = set()
        self._hits = [0] * len(program.segments)
        self._clusters: Iterator[Place] = iter(())
        self._next: list[Place] = []
        """Clusters that may start, or be taken over, next: one, or several of which chance picks."""
        self._hands_out = any(
            ins.row.name == CANCEL for segment in program.segments for ins in segment.instructions
        )
        self._changed = (-1, 0)
        self._live: list[Cluster] = []
        self._places: dict[int, int] | None = None
        self._priorities: dict[Warp, float] = {}
        self.lay_out_shared()

    # Variables

    def lay_out_shared(self) -> None:
        """Static variables first, dynamic shared memory after them."""
        used = {id(v) for _, v, _, _ in self.program.symbols}
        variables = [v for v in self.program.variables if v.space == "shared" and id(v) in used]
        at = RESERVED_SHARED
        layout = self.shared_layout
        dynamic = [v for v in variables if not v.size]
        for variable in variables:
            if variable.size:
                at = -(-at // variable.align) * variable.align
                layout.offsets[id(variable)] = at
                at += variable.size
        align = max((v.align for v in dynamic), default=16)
        at = -(-at // align) * align
        for variable in dynamic:
            layout.offsets[id(variable)] = at
        layout.size = at

    def address_of(self, variable: Variable, warp: Warp) -> int:
        """The address of a variable in its own space."""
        if variable.space == "shared":
            return self.shared_layout.offsets[id(variable)] | warp.cta.window
        return self.variables[id(variable)]

    def fill_registers(self, warp: Warp) -> None:
        """The register file of a new warp: constants, special registers, addresses of variables."""
        program = self.program
        warp.R = list(program.template)
        for slot, name, dtype in program.specials:
            if name not in CLOCKS:
                warp.R[slot] = special_value(warp, name, dtype)
        for slot, variable, offset, dtype in program.symbols:
            warp.R[slot] = constant(self.address_of(variable, warp) + offset, dtype)
        for slot in program.uninitialised:
            warp.taint[slot] = spread(0xFFFFFFFF)

    # Findings

    def found(
        self,
        code: str,
        message: str,
        ins: Instruction | None = None,
        agent: Any = None,
        *,
        warning: bool = False,
        accesses: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """Adds a finding to the report, once for each code and instruction."""
        line = ins.line if ins is not None else 0
        if (code, line, False) in self._seen or (code, line, warning) in self._seen:
            return
        self._seen.add((code, line, warning))
        finding = self.finding(code, message, ins, agent, warning, accesses, notes)
        (self.report.warnings if warning else self.report.faults).append(finding)

    def raced(
        self,
        said: tuple[str, str, tuple[str, ...]],
        who: tuple[Who, Who],
        place: str,
        warning: bool,
    ) -> None:
        """Adds a race: code, message and notes, the later and the earlier access, and where they meet."""
        sentences = tuple(sentence(one, place, self.program) for one in who)
        found = self.finding(*said[:2], who[0].ins, None, warning, sentences, said[2])
        kept = self.report.warnings if warning else self.report.races
        kept.append(replace(found, agents=tuple(map(name_of, who))))

    def finding(
        self,
        code: str,
        message: str,
        ins: Instruction | None,
        agent: Any,
        warning: bool = False,
        accesses: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> Finding:
        if isinstance(agent, Warp):
            agents: tuple[str, ...] = (agent.describe(),)
        else:
            agents = (str(agent),) if agent else ()
        location = self.program.location(ins.statement) if ins is not None else None
        severity = Severity.WARNING if warning else Severity.ERROR
        line = ins.line if ins is not None else 0
        return Finding(code, message, line, location, agents, accesses, notes, severity)

    def waits_of(self, op: Any) -> str:
        """How the bulk groups of an operation's thread were awaited: "short" of it, by an "other" thread, or ""."""
        if op.passed:
            return "short"
        for warp in op.warp.cta.warps:
            for key, groups in warp.groups.items():
                if key[0] == "bulk" and groups.waited and not groups.used:
                    return "other"
        return ""

    def instruction_at(self, line: int) -> Instruction | None:
        """The instruction of a line of the text."""
        for segment in self.program.segments:
            for ins in (*segment.instructions, segment.last):
                if ins is not None and ins.line == line:
                    return ins
        return None

    def ran(self, ins: Instruction) -> bool:
        """Whether an instruction has been executed, by anybody."""
        if self._places is None:
            self._places = {}
            for here, segment in enumerate(self.program.segments):
                last = [segment.last] if segment.last is not None and not segment.guards else []
                for one in (*segment.instructions, *last):
                    self._places[id(one)] = here
        return self._hits[self._places[id(ins)]] > 0

    # Scheduling

    def wake(self, path: Path) -> None:
        self.ready.append(path)

    def poll(self, path: Path) -> None:
        """The path waits for something that may also time out."""
        self.polling.append(path)

    def unpoll(self, path: Path) -> None:
        """What the path waited for has happened."""
        self.polling.remove(path)
        self.ready.append(path)

    def spin(self, path: Path, following: int) -> int:
        """A test has failed and will be tried again: others first, and no endless turning where nothing changes."""
        path.pc = following
        path.waits = path.waits or "a value that it polls"
        now = self.activity + self.memory.writes
        if path.token == now:
            self.polling.append(path)
        else:
            path.token = now
            self.ready.append(path)
        return PARKED

    def issue(
        self,
        name: str,
        steps: Iterator[None],
        ins: Instruction,
        w: Warp,
        lane: int | None = None,
        done: Done = Done.MBARRIER_TX,
        pipe: Any = None,
        token: Any = None,
    ) -> None:
        """Starts an asynchronous operation of a lane (None: of the active ones); those of one `pipe` keep their order.

        `done` is the event after which it is complete, `token` what its thread waits for.
        """
        if self.record is not None:
            op = self.record.issued(name, w, lane, ins, done)
            if token is not None:
                token.operation = op
            steps = self.record.follow(op, steps)
        self.start(name, steps, ins, w.cta.cluster, pipe)

    def start(
        self, name: str, steps: Iterator[None], ins: Instruction, cluster: Cluster, pipe: Any
    ) -> None:
        """Runs an operation, now or later."""
        if self.watch is not None and self.running is not None:
            steps = self.watch.issued(steps, ins, self.running.warp)
        if self.schedule == "eager":
            for _ in steps:
                pass
            self.activity += 1
            return
        cluster.pending += 1
        made = Operation(name, steps, pipe, ins, cluster)
        if self.schedule == "pct":
            made.priority = self.random.random()
        self.operations.append(made)

    def _heads(self) -> list[Operation]:
        """The operations in flight that may step: of those in one pipe, the oldest."""
        heads: list[Operation] = []
        pipes: list[Any] = []
        for operation in self.operations:
            if operation.pipe is not None:
                if operation.pipe in pipes:
                    continue
                pipes.append(operation.pipe)
            heads.append(operation)
        return heads

    def _advance(self, operation: Operation | None = None) -> None:
        """One step of an operation in flight: the oldest if none is given, or a random one."""
        if operation is None:
            heads = self._heads()
            operation = self.random.choice(heads) if self.schedule == "random" else heads[0]
        self.activity += 1
        try:
            next(operation.steps)
        except StopIteration:
            self.operations.remove(operation)
            operation.cluster.pending -= 1

    def run(self) -> Report:
        """Runs the launch to its end, or to the first finding that stops it."""
        self._clusters = places((0, 0, 0), self.grid, self.preferred or self.cluster)
        if self.watch is not None:
            self.watch.begin(self)
        try:
            with np.errstate(all="ignore"), one_thread():
                self._loop()
            self.report.ended = self.report.hang is None
        except KeyboardInterrupt:
            if self.watch is None:
                raise
            self.report.faults.append(self.watch.interrupted(self))
        except Stop as stop:
            ins, agent = stop.more.get("ins"), stop.more.get("warp")
            finding = self.finding(
                stop.code,
                stop.message,
                ins,
                agent,
                False,
                stop.more.get("accesses", ()),
                stop.more.get("notes", ()),
            )
            if stop.code == "TK314" or stop.more.get("hang"):
                self.report.hang = finding
            else:
                self.report.faults.append(finding)
        self.report.steps = self.steps
        if self.record is not None:
            registers.report(self, self.record.strict)
        count_instructions(self.report, self.program.segments, self._hits)
        if self.watch is not None:
            self.watch.end(self)
        return self.report

    def _loop(self) -> None:
        tried, attempts = -1, 0
        while True:
            if self.ready:
                if not self._turn():
                    self.report.hang = hang(self)
                    return
                continue
            if self.operations:
                self._advance()
                continue
            now = self.activity + self.memory.writes
            attempts = attempts + 1 if tried == now else 0
            if self.polling and attempts < self._patience():
                # Nobody else can go on: waits with a time limit run into it.
                tried = now
                waiting, self.polling = self.polling, []
                for path in waiting:
                    if path.poll is not None:
                        path.poll.waiting.remove(path)
                        path.poll = None
                        path.timed_out = True
                    path.token = None
                    self.wake(path)
                continue
            if self._unstick():
                tried = -1
                continue
            if self._live:
                self.report.hang = hang(self)
            return

    def _turn(self) -> bool:
        """Lets somebody step; false where nothing has changed for so long that nothing will."""
        if self.schedule not in PREEMPTIVE:
            self._run(self.ready.popleft(), QUANTUM)
            return True
        now = self.activity + self.memory.writes
        if now != self._changed[0]:
            self._changed = (now, self.steps)
        elif self.steps - self._changed[1] > STALLED_STEPS and self._unstick():
            self._changed = (now, self.steps)
        elif self.steps - self._changed[1] > IDLE_STEPS:
            return False
        if self.schedule == "pct":
            self._highest()
            return True
        chance = self.random.random
        if self._hands_out and len(self._live) < MOST_STARTED and chance() < START_CHANCE:
            self._admit()
        if self.operations and chance() < 0.3:
            self._advance()
            return True
        self.ready.rotate(-self.random.randrange(len(self.ready)))
        self._run(self.ready.popleft(), 1 + int(64 * chance()))
        return True

    def _highest(self) -> None:
        """Steps what has the highest priority, which is sometimes lowered below all others."""
        draw, given = self.random.random, self._priorities
        for path in self.ready:
            if path.warp not in given:
                given[path.warp] = draw()
        path = max(self.ready, key=lambda p: given[p.warp])
        lower = draw() < PCT_CHANGE
        if self.operations:
            operation = max(self._heads(), key=lambda o: o.priority)
            if operation.priority > given[path.warp]:
                operation.priority = -float(self.steps) if lower else operation.priority
                self._advance(operation)
                return
        if lower:
            given[path.warp] = -float(self.steps)
        self.ready.remove(path)
        self._run(path, 1 + int(64 * draw()))

    def _unstick(self) -> bool:
        """Lets lanes go on that wait for their siblings at a join, or else starts another cluster."""
        released = False
        for cluster in self._live:
            for cta in cluster.ctas:
                for warp in cta.warps:
                    released |= warp.release_joined()
        return released or self._admit()

    def _patience(self) -> int:
        """How often paths that poll are tried again before others start, or the launch counts as hung.

        One that turns without a wait may as well be computing for long; a cluster that has not started can help both.
        """
        turning = any(path.poll is None for path in self.polling)
        held = any(path.warp.joins for path in self.polling)
        return PATIENCE if turning and not held and not self._more() else 1

    def _more(self) -> bool:
        """Whether a cluster has not started yet."""
        most = AHEAD if self._hands_out and self.schedule in PREEMPTIVE else 1
        while len(self._next) < most and (place := next(self._clusters, None)) is not None:
            self._next.append(place)
        return bool(self._next)

    def _admit(self) -> bool:
        place = self._take()
        if place is None:
            return False
        cluster = Cluster(self, *place)
        self._live.append(cluster)
        for cta in cluster.ctas:
            for warp in cta.warps:
                self.ready.append(Path(warp, warp.alive, 0, None))
        return True

    def cancel_next(self, dims: Dims) -> Dims | None:
        """Takes a cluster that has not started, as clusterlaunchcontrol does: its first CTA; None where there is none.

        One of as many CTAs as the cluster that asks has, which PTX does not say and CUTLASS' scheduler needs. It may
        be refused though there are some, for a kernel of higher priority: so does chance.
        """
        if self.schedule in PREEMPTIVE and self.random.random() < REFUSAL_CHANCE:
            return None
        place = self._take(dims)
        return None if place is None else place[0]

    def _take(self, wanted: Dims | None = None) -> Place | None:
        """The first cluster that has not started, or any of the first few; None where there is none (of that size)."""
        if not self._more():
            return None
        at = self.random.randrange(len(self._next)) if len(self._next) > 1 else 0
        if self.preferred is None:
            return self._next.pop(at)
        if wanted == self.preferred and self._next[at][1] != wanted:
            whole = [i for i, place in enumerate(self._next) if place[1] == wanted]
            if not whole:
                return None
            at = whole[0]
        base, dims = self._next.pop(at)
        whole_fits = self.schedule == "eager" or (
            self.schedule in PREEMPTIVE and self.random.random() < 0.5
        )
        if dims == self.cluster or wanted == dims or (wanted is None and whole_fits):
            return base, dims
        first, *rest = places(base, dims, self.cluster)
        self._next[:0] = rest
        return first

    def cta_ended(self, cta: Cta) -> None:
        self.done_ctas += 1
        cluster = cta.cluster
        if cta.tensor is not None:
            cta.tensor.check_exit(self)
        if not cluster.live:
            self._live.remove(cluster)

    def _run(self, path: Path, budget: int) -> None:
        """Runs a path until it parks, ends, or has used its budget."""
        self.running = path
        warp = path.warp
        warp.enter(path)
        segments, taint, hits = self.program.segments, warp.taint, self._hits
        before = self.activity + self.memory.writes
        pc = path.pc
        steps = 0
        while True:
            # Where one meets stands its own segment: an outer place may have the same number, in a recursive function.
            if pc == path.rejoin and not warp.arrive(path):
                break
            segment = segments[pc]
            for step, follow in segment.body:
                if taint:
                    follow(warp)
                step(warp)
            hits[pc] += 1
            steps += len(segment.body) + 1
            path.pc = pc
            pc = segment.ending(warp, path)
            if pc < 0:
                break
            if steps >= budget:
                path.pc = pc
                if budget == QUANTUM and before == self.activity + self.memory.writes:
                    # Nothing has changed in all these steps: perhaps it turns round a value that others must write.
                    path.waits = "a value that it polls"
                    self.polling.append(path)
                else:
                    self.ready.append(path)
                break
        self.steps += steps
        if self.max_steps is not None and self.steps > self.max_steps:
            raise Stop("TK415", f"the launch has not ended after {self.max_steps} steps", warp=warp)

    # The end

    @property
    def live_clusters(self) -> list[Cluster]:
        """The clusters that have started and not ended."""
        return self._live

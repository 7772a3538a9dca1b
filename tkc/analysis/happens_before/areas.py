"""Which elements of a tensor or vector each thread touches, as far as formulas of indices tell it.

An index is an offset for each thread of the role, and a sum of multiples of values that are the same in all of its
threads: those that stay as they are (sizes, the unit's number), and those that change as the kernel goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from math import gcd
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.guards import LANES, Varies, varies
from tkc.analysis.happens_before.evaluate import Evaluator
from tkc.analysis.happens_before.events import Threads, Who
from tkc.analysis.happens_before.expressions import Expressions
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import IdentityOp
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp, SizeOp


class Leaf(NamedTuple):
    """A value that is the same in all threads of a role: its number as an expression; whether it changes as the kernel
    goes on, and whether it differs between work units (None: not known). `most`: of the turns of a loop, the last."""

    number: int
    moves: bool
    by_unit: bool | None
    most: int | None = None


Sum = frozenset[tuple[Leaf, int]]


@dataclass(frozen=True, slots=True)
class Axis:
    """Indices along one axis: thread t's are `offsets[t]` + the leaves' sum, and the `width` - 1 after it. One offset
    alone is every thread's."""

    offsets: tuple[int, ...]
    moving: Sum = frozenset()
    fixed: Sum = frozenset()
    width: int = 1
    step: int = field(init=False, compare=False)
    """What the moving part is a multiple of; 0 where there is none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", gcd(*[c for _, c in self.moving]))

    def at(self, thread: int) -> int:
        return self.offsets[thread if len(self.offsets) > 1 else 0]


@dataclass(frozen=True, slots=True)
class Area:
    """The elements that one operation touches, axis by axis; None where an axis is not known. `threads`: those of the
    role that may come to it; `asked`: whether it stands under a condition on more than who a thread is."""

    axes: tuple[Axis | None, ...]
    threads: tuple[int, ...] = (0,)
    asked: bool = False

    @property
    def known(self) -> bool:
        return all(axis is not None for axis in self.axes)

    @property
    def vague(self) -> bool:
        """Whether an index is one that only the data or a counter of the program's own tells."""
        return not self.known or any(leaf.by_unit is None for leaf in self.leaves())

    def leaves(self) -> Iterable[Leaf]:
        for axis in self.axes:
            if axis is not None:
                yield from (leaf for leaf, _ in axis.moving | axis.fixed)


def apart(a: Area, b: Area) -> bool:
    """Whether two operations touch different elements, whatever turns of their loops they are in."""
    for x, y in zip(a.axes, b.axes, strict=True):
        if x is not None and y is not None and _axes_apart(x, y):
            return True
    return False


def _axes_apart(a: Axis, b: Axis) -> bool:
    if a.fixed != b.fixed:
        return False
    step = gcd(a.step, b.step)
    if len(a.offsets) == len(b.offsets) == 1:  # one row of indices each
        ahead = b.offsets[0] - a.offsets[0]
        if step:
            return ahead % step >= a.width and -ahead % step >= b.width
        return ahead >= a.width or -ahead >= b.width
    return not _indices(a, step) & _indices(b, step)


def _indices(axis: Axis, step: int) -> set[int]:
    found = {o + n for o in set(axis.offsets) for n in range(axis.width)}
    return {i % step for i in found} if step else found


@lru_cache(maxsize=1024)
def own(a: Area, b: Area, lanes: int = 1) -> bool:
    """Whether an element that a thread of the role touches by the one, no other of its threads touches by the other;
    with `lanes` of a warp: no thread of another warp."""
    pairs = [p for p in _both(a, b) if p[0].fixed == p[1].fixed and p[0].width == p[1].width == 1]
    steps = [gcd(x.step, y.step) for x, y in pairs]
    owner: dict[tuple[int, ...], int] = {}
    for t in a.threads:
        by = t // lanes
        if owner.setdefault(_key([x for x, _ in pairs], steps, t), by) != by:
            return False
    return all(
        owner.get(_key([y for _, y in pairs], steps, t), t // lanes) == t // lanes
        for t in b.threads
    )


def _key(axes: Sequence[Axis], steps: Sequence[int], thread: int) -> tuple[int, ...]:
    return tuple(
        [x.at(thread) % n if n else x.at(thread) for x, n in zip(axes, steps, strict=True)]
    )


def together(a: Area, b: Area) -> bool:
    """Whether the two touch common elements only where the moving parts of their indices are equal: each stays in its
    own window of what these are multiples of."""
    if not a.known or not b.known:
        return False
    for x, y in zip(a.axes, b.axes, strict=True):
        assert x is not None
        assert y is not None
        if (x.moving, x.fixed) != (y.moving, y.fixed):
            return False
        if x.step:
            ends = {o // x.step for axis in (x, y) for o in (min(axis.offsets), _last(axis))}
            if len(ends) > 1:
                return False
    return True


def meet(a: Area, b: Area) -> bool:
    """Whether two different work units are sure to touch a common element by the two."""
    if not a.known or not b.known or apart(a, b):
        return False
    units = {leaf.by_unit for area in (a, b) for leaf in area.leaves()}
    if None in units or any(x.fixed != y.fixed for x, y in _both(a, b)):
        return False
    if True not in units:
        return True
    alike = all(x.moving == y.moving for x, y in _both(a, b))
    scheduled = [any(leaf.by_unit for leaf in area.leaves()) for area in (a, b)]
    return not together(a, b) if alike else not all(scheduled)


def _both(a: Area, b: Area) -> Iterator[tuple[Axis, Axis]]:
    """The axes of two areas that are known."""
    for x, y in zip(a.axes, b.axes, strict=True):
        if x is not None and y is not None:
            yield x, y


def _last(axis: Axis) -> int:
    return max(axis.offsets) + axis.width - 1


def shared(area: Area, who: Who) -> tuple[int, int] | None:
    """Two threads of those that come to an operation which may touch one element in the same turn; None: none do."""
    axes = [axis for axis in area.axes if axis is not None]
    if who is Threads.ONE:
        return None
    seen: dict[tuple[int, ...], list[int]] = {}
    for t in area.threads:
        seen.setdefault(tuple([axis.at(t) for axis in axes]), []).append(t)
    for same in seen.values():
        for t, other in combinations(same[: LANES + 1], 2):
            if who is not Threads.LANE or t // LANES != other // LANES:
                return t, other
    return None


# Formulas ------------------------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """An offset for each thread (or one for all), and multiples of leaves."""

    offsets: tuple[int, ...]
    leaves: dict[Leaf, int]

    @property
    def alike(self) -> bool:
        """Whether all threads have the same value."""
        return len(self.offsets) == 1


def _each(of: Callable[..., int], forms: Sequence[Form]) -> tuple[int, ...]:
    """A function of the offsets, thread by thread."""
    count = max(len(f.offsets) for f in forms)
    rows = [f.offsets if len(f.offsets) == count else f.offsets * count for f in forms]
    return tuple([int(of(*numbers)) for numbers in zip(*rows, strict=True)])


class Formulas:
    """Indices of one role in one CTA as forms; None where threads differ in a way that is not followed."""

    def __init__(self, role: s.RoleOp, values: Evaluator, write: Expressions) -> None:
        groups = role.groups.value.data
        self.count = LANES * role.warps.value.data // groups
        self.first = self.count * values.group
        self.role, self.values, self.write = role, values, write
        self.comers: dict[Hashable, tuple[tuple[int, ...], bool]] = {}
        self.known: dict[tuple[tuple[Operation, int], ...], dict[SSAValue, Form | None]] = {}

    def like(self, other: Formulas, differ: set[SSAValue]) -> None:
        """Takes over what another copy of the role, of the same warpgroup, knows of what does not differ."""
        self.known = {
            turns: {v: form for v, form in known.items() if v not in differ}
            for turns, known in other.known.items()
        }

    def area(self, op: Operation, indices: Sequence[SSAValue], widths: Sequence[int]) -> Area:
        """What an operation touches at these indices, so many elements of each axis."""
        known = self.known.setdefault(tuple(self.values.turn.items()), {})
        axes = tuple(self._axis(v, w, known) for v, w in zip(indices, widths, strict=True))
        threads, asked = self._comers(op, known)
        if 0 < len(threads) < self.count:
            axes = tuple(axis and _of_comers(axis, threads) for axis in axes)
        return Area(axes, threads, asked)

    def _comers(
        self, op: Operation, known: dict[SSAValue, Form | None]
    ) -> tuple[tuple[int, ...], bool]:
        """The threads that conditions let through, as far as they ask who a thread is; whether they ask more."""
        key = op.parent_block(), tuple(self.values.turn.items())
        if key not in self.comers:
            self.comers[key] = self._let_through(op, known)
        return self.comers[key]

    def _let_through(
        self, op: Operation, known: dict[SSAValue, Form | None]
    ) -> tuple[tuple[int, ...], bool]:
        found, asked = range(self.count), False
        region, at = op.parent_region(), op.parent_op()
        while at is not None and at is not self.role:
            if isinstance(at, s.IfOp):
                then = region is at.then
                for condition in self._parts(at.condition) if then else (at.condition,):
                    passing = self._passing(condition, known)
                    asked |= passing is None
                    if passing is not None:
                        found = [t for t in found if (t in passing) is then]
            region, at = at.parent_region(), at.parent_op()
        return tuple(found), asked

    def _parts(self, condition: SSAValue) -> Iterator[SSAValue]:
        """What must hold for a condition to."""
        op = condition.owner
        if isinstance(op, ArithOp) and op.kind.data == "and":
            for part in op.inputs:
                yield from self._parts(part)
        else:
            yield condition

    def _passing(
        self, condition: SSAValue, known: dict[SSAValue, Form | None]
    ) -> Collection[int] | None:
        """The threads that a condition lets through; None where it does not only ask who they are."""
        op = condition.owner
        if isinstance(op, s.ElectedOp):
            each = LANES if op.scope.data == s.By.LANE else self.count
            return range(0, self.count, each)
        form = self._form(condition, known)
        if form is None or form.leaves:
            return None
        if form.alike:
            return range(self.count if form.offsets[0] else 0)
        return {t for t, holds in enumerate(form.offsets) if holds}

    def _axis(self, value: SSAValue, width: int, known: dict[SSAValue, Form | None]) -> Axis | None:
        form = self._form(value, known)
        if form is None:
            return None
        parts = [(leaf, c) for leaf, c in form.leaves.items() if c]
        moving = frozenset(p for p in parts if p[0].moves)
        return Axis(form.offsets, moving, frozenset(p for p in parts if not p[0].moves), width)

    def _form(self, value: SSAValue, known: dict[SSAValue, Form | None]) -> Form | None:
        stack = [value] if value not in known else []
        while stack:  # not by recursion: sums can be longer than Python's stack is deep
            op = stack[-1].owner
            more = [v for v in op.inputs if v not in known] if isinstance(op, ArithOp) else []
            if more:
                stack += more
                continue
            now = stack.pop()
            known[now] = None  # what goes round a loop is not followed
            known[now] = self._made(now, known)
        return known[value]

    def _made(self, value: SSAValue, known: dict[SSAValue, Form | None]) -> Form | None:
        op = value.owner
        match op:
            case ConstOp() if isinstance(op.constant, IntegerAttr):
                return Form((op.constant.value.data,), {})
            case IdentityOp():
                return self._identity(op.which.data)
            case SizeOp():
                return self._leaf(value, False, False)
            case s.UnitOp() if op.which.data != "rank":
                return self._leaf(value, False, op.which.data == "index")
            case ArithOp():
                forms = [self._form(v, known) for v in op.inputs]
                given = [f for f in forms if f is not None]
                if len(given) == len(forms):
                    return self._arith(op.kind.data, given, value)
                return None
            case _:
                constant = self.values.constant(value)
                if constant is not None:
                    return Form((constant,), {})
                if type(op) is Block and isinstance(loop := op.parent_op(), s.ForOp):
                    if value is op.args[0]:
                        return self._counter(loop, value, known)
                return (
                    None if varies(value) is not Varies.NOWHERE else self._leaf(value, True, None)
                )

    def _leaf(self, value: SSAValue, moves: bool, by_unit: bool | None) -> Form:
        return Form((0,), {Leaf(self.write(value), moves, by_unit): 1})

    def _identity(self, which: str) -> Form:
        threads = range(self.first, self.first + self.count)
        if which == "lane":
            return Form(tuple([t % LANES for t in threads]), {})
        return Form(tuple([t // LANES for t in threads] if which == "warp" else threads), {})

    def _counter(
        self, loop: s.ForOp, value: SSAValue, known: dict[SSAValue, Form | None]
    ) -> Form | None:
        """A loop's counter: what it begins with, and a multiple of its step."""
        lower, step = self._form(loop.lower, known), self.values.constant(loop.step)
        if lower is None:
            return None
        by_unit = _by_unit(lower)
        if step is None and lower.alike:
            return self._leaf(value, True, by_unit)
        if step is None:
            return None
        count = self.values.trips(loop) if lower.alike else None
        turns = Leaf(self.write(value), True, by_unit, None if count is None else count - 1)
        return Form(lower.offsets, {**lower.leaves, turns: step})

    def _arith(self, kind: str, inputs: list[Form], value: SSAValue) -> Form | None:
        if all(not f.leaves for f in inputs):
            try:
                return Form(_each(SCALARS[kind].of, inputs), {})
            except (ArithmeticError, ValueError):  # divided by zero, shifted by less
                return None
        linear = _linear(kind, inputs)
        if linear is not None:
            return linear
        if all(f.alike for f in inputs):
            leaves = [leaf for f in inputs for leaf in f.leaves]
            return self._leaf(value, any(x.moves for x in leaves), _by_unit(*inputs))
        return self._modulo(inputs, value) if kind == "mod" else None

    def _modulo(self, inputs: list[Form], value: SSAValue) -> Form | None:
        """By a constant that what is the same in all threads is a multiple of, or has a divisor with."""
        form, by = inputs
        if by.leaves or not by.alike:
            return None
        step = gcd(by.offsets[0], *form.leaves.values())
        if step <= 1:
            return None
        leaf = Leaf(self.write(value), any(x.moves for x in form.leaves), _by_unit(form))
        return Form(tuple([o % step for o in form.offsets]), {leaf: step})


def _of_comers(axis: Axis, threads: tuple[int, ...]) -> Axis:
    """Without the offsets of threads that do not come, for which one that comes stands."""
    if len(axis.offsets) == 1:
        return axis
    come, first = set(threads), axis.offsets[threads[0]]
    offsets = (o if t in come else first for t, o in enumerate(axis.offsets))
    return replace(axis, offsets=tuple(offsets))


def _by_unit(*forms: Form) -> bool | None:
    """Whether a value made of others differs between work units."""
    known = {leaf.by_unit for form in forms for leaf in form.leaves}
    return None if None in known else True in known


def _linear(kind: str, inputs: list[Form]) -> Form | None:
    """A sum, a difference, a multiple by a constant, an exact quotient."""
    a, b = inputs[0], inputs[-1]
    if len(inputs) == 2 and kind in ("add", "sub"):
        sign = 1 if kind == "add" else -1
        leaves = {
            x: a.leaves.get(x, 0) + sign * b.leaves.get(x, 0) for x in {**a.leaves, **b.leaves}
        }
        return Form(_each(SCALARS[kind].of, inputs), leaves)
    if len(inputs) != 2 or kind not in ("mul", "shl", "div", "shr"):
        return None
    if kind == "mul" and not a.leaves and a.alike:
        a, b = b, a
    if b.leaves or not b.alike or b.offsets[0] < 0:
        return None
    by = b.offsets[0] if kind in ("mul", "div") else 1 << b.offsets[0]
    if kind in ("mul", "shl"):
        return Form(tuple([o * by for o in a.offsets]), {x: c * by for x, c in a.leaves.items()})
    if not by or any(c % by for c in a.leaves.values()):
        return None
    return Form(tuple([o // by for o in a.offsets]), {x: c // by for x, c in a.leaves.items()})

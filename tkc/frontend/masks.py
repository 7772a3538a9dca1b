"""R24: what a mask leaves out counts as nothing: reductions take the neutral element for it, copies write 0.

A masked variable keeps its values; the mask goes along with it through arithmetic, to where a value is reduced or
written. So it may not depend on which way the program took: a loop or condition hands on what it got.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
from tkc.frontend.flow import Flow
from tkc.frontend.scope import Scope, listed

Tests = tuple[P.Test, ...]

NEUTRAL = {"add": 0.0, "max": -math.inf, "min": math.inf}

AxesOf = Callable[[P.Value], "tuple[str | P.Part | None, ...]"]
"""What the rows and columns of a value are blocks of, where that is known."""


class Masks:
    """The masks of a role's variables, as its statements are walked in order."""

    def __init__(self, scope: Scope, role: P.Role) -> None:
        self.scope = scope
        self.of: dict[str, Tests] = {}
        self.flow = Flow(role.body)

    def tests(self, x: P.Value) -> Tests:
        """The mask of a value: of every value that it is made of, element by element."""
        match x:
            case P.Variable():
                return self.of.get(x.name, ())
            case P.Cast() | P.Reshape() | P.Transpose() | P.Where():
                return self.tests(x.operand)
            case P.Apply():
                found = (test for o in x.operands for test in self.tests(o))
                return tuple(dict.fromkeys(found))
            case _:
                return ()

    def add(self, s: P.Mask) -> None:
        self.of[s.name] = (*self.of.get(s.name, ()), *s.tests)

    def keep(
        self,
        s: P.Each | P.Blocks | X.Range | X.While | P.Transfer | X.If,
        before: dict[str, Tests],
        what: str,
    ) -> None:
        """Behind one way through a statement: what it hands on, or masks from outside, is masked as it was `before`."""
        own = P.set_in(P.bodies(s))
        names = dict.fromkeys((*self.flow.names(s), *(n for n in self.of if n not in own)))
        for name in names:
            now, was = self.of.get(name, ()), before.get(name, ())
            if now != was:
                at = next(iter([*(t for t in now if t not in was), *was]))
                self.scope.error(
                    "TK110",
                    f"not supported yet: `{name}` is masked otherwise behind this {what} than before it: mask it where "
                    "it is used; a mask of a block that lies inside costs nothing",
                    at.span,
                )
        self.of = before

    def neutral(self, x: P.Value, kind: str, axes_of: AxesOf, tests: Tests) -> P.Value:
        """The operand of a reduction of a kind."""
        return self.filled(x, NEUTRAL[kind], axes_of, tests)

    def filled(self, x: P.Value, fill: float, axes_of: AxesOf, tests: Tests) -> P.Value:
        """The value with a number where the tests do not hold."""
        if not tests:
            return x
        if isinstance(x, P.Cast) and x.type.dtype != "f32":
            return x._replace(operand=self.filled(x.operand, fill, axes_of, tests))
        if isinstance(x, P.Transpose):
            return x._replace(operand=self.filled(x.operand, fill, axes_of, tests))
        assert isinstance(x.type, P.Regs)
        axes = axes_of(x)
        for test in tests:
            made: P.Where | None = None
            for one in reversed((test, *test.others)):
                made = self._where(x, one, fill, axes, made)
                if made is None:
                    return x
            assert made is not None
            x = made
        return x

    def positions(self, x: P.Keep, axes_of: AxesOf) -> P.Value:
        """Positions as numbers, in the shape of the tile beside them, of which only the axes are asked for."""
        shape = P.Fill(P.Constant(0.0, x.span), x.type, x.span)
        made = self._where(shape, x.tests[0], 0.0, axes_of(x.operand), None)
        return shape if made is None else made._replace(positions=True)

    def _where(
        self,
        x: P.Value,
        test: P.Test,
        fill: float,
        axes: tuple[str | P.Part | None, ...],
        otherwise: P.Where | None,
    ) -> P.Where | None:
        """The value where one comparison holds; None where that is reported to be of no axis of it."""
        assert isinstance(x.type, P.Regs)
        blocks: list[str | P.Part | None] = [None, None]
        factors = [0, 0]
        for block, size, factor in test.terms:
            axis = self._axis(test, block, size, x.type.shape, axes)
            if axis is None:
                return None
            blocks[axis], factors[axis] = block, factor
        return P.Where(
            x,
            (blocks[0], blocks[1]),
            (factors[0], factors[1]),
            test.limit,
            fill,
            x.type,
            test.span,
            otherwise,
        )

    def _axis(
        self,
        test: P.Test,
        block: str | P.Part,
        size: int,
        shape: tuple[int, ...],
        axes: tuple[str | P.Part | None, ...],
    ) -> int | None:
        """Which axis of a tile a block is; reports where none is, or it may be both."""
        if block in axes:
            return axes.index(block)
        fit = [i for i in range(2) if shape[i] == size and (i >= len(axes) or axes[i] is None)]
        if len(fit) == 1:
            return fit[0]
        known = [_told(a) for a in axes if a is not None]
        of = f", whose axes are blocks {listed(known)}" if len(known) == 2 else ""
        told = (
            f"both axes of this tile have {size} elements, and nothing says which is block {_told(block)}: copy the "
            "tile by `... <- X[m, n]`, or multiply tiles that are"
            if len(fit) == 2
            else f"block {_told(block)} of {size} is no axis of a masked tile of {list(shape)}{of}"
        )
        self.scope.error("TK104", told, test.span)
        return None


def _told(block: str | P.Part) -> str:
    return block if isinstance(block, str) else f"{block.block}.part({block.index}, {block.count})"


def contracted(products: Iterable[tuple[P.Multiply, dict[str, str]]]) -> set[tuple[str, int]]:
    """Tiles, by the names that they are declared by, and their axes over which products sum."""
    found: set[tuple[str, int]] = set()
    for s, names in products:
        for name, axis in ((s.a, 0 if s.transpose_a else 1), (s.b, 1 if s.transpose_b else 0)):
            found.add((names.get(name, name), axis))
    return found

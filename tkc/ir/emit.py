"""Appending operations to a block, each with the location of the one it came from."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from xdsl.dialects.builtin import IntegerType, LocationAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from tkc.ir.stage.scalar import arith, const
from tkc.ir.syntax import append

OpT = TypeVar("OpT", bound=Operation)


_HINTS = str.maketrans({"[": "_", "]": None})


def as_hint(name: str) -> str:
    """A name as the text of IR may show it: `s[0]` is one of several tiles, and `%s_0` its value."""
    return name.translate(_HINTS)


class Emitter:
    """A place to append to and a location to give. Equal constants of one block are made once."""

    def __init__(self, block: Block, location: LocationAttr | None = None) -> None:
        self.block = block
        self.location: LocationAttr = location or UnknownLoc()
        self._constants: dict[tuple[Block, int, Attribute], SSAValue] = {}

    def add(self, op: OpT) -> OpT:
        """Appends the operation, which takes the current location unless it has one."""
        if isinstance(op.location, UnknownLoc):
            op.location = self.location
        append(self.block, op)
        return op

    def value(self, op: Operation, hint: str | None = None) -> OpResult:
        """Appends the operation and gives its first result, named for the reader of dumps."""
        result = self.add(op).results[0]
        if hint is not None:
            result.name_hint = as_hint(hint)
        return result

    def const(self, number: int, type: IntegerType | None = None) -> SSAValue:
        op = const(number) if type is None else const(number, type)
        key = (self.block, number, op.value.type)
        if key not in self._constants:
            self._constants[key] = self.value(op, f"c{number}" if number >= 0 else None)
        return self._constants[key]

    def arith(self, kind: str, *inputs: SSAValue, hint: str | None = None) -> SSAValue:
        return self.value(arith(kind, *inputs), hint)

    @contextmanager
    def inside(self, block: Block) -> Generator[Block]:
        """Appends to `block` for a while."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    @contextmanager
    def at(self, location: LocationAttr) -> Generator[None]:
        """Gives `location` for a while."""
        outer, self.location = self.location, location
        try:
            yield
        finally:
            self.location = outer

"""What an operation does to memory, as a trait on the operation; the words are `tkc.ir.isa.memory`'s."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xdsl.ir import Operation
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, Resource
from xdsl.utils.exceptions import VerifyException

from tkc.ir.isa.memory import Effect, Kind, Signal, Touch


@dataclass(frozen=True)
class Memory(Resource):
    """The resource of one touch; xDSL's DCE and CSE look at the effect kind only."""

    touch: Touch

    def name(self) -> str:
        return f"{self.touch.space}/{self.touch.proxy}/{self.touch.done}"


@dataclass(frozen=True)
class Ordering(Resource):
    """What a fence, wait or arrival writes, so that no pass of xDSL's removes or merges it."""

    def name(self) -> str:
        return "ordering"


@dataclass(frozen=True)
class Effects(MemoryEffect):
    """The memory rows of an operation. None at all means unknown, so pure operations say `Pure()` instead."""

    rows: tuple[Effect, ...] = field(default=())

    def __init__(self, *rows: Effect) -> None:
        object.__setattr__(self, "rows", rows)

    def verify(self, op: Operation) -> None:
        for row in self.rows:
            named = (
                [row.operand]
                if isinstance(row, Touch)
                else [row.barrier]
                if isinstance(row, Signal) and row.barrier
                else []
            )
            for operand in named:
                if not hasattr(op, operand):
                    raise VerifyException(f"effect row of {op.name} names no operand {operand!r}")

    def get_effects(self, op: Operation) -> set[EffectInstance]:  # pyright: ignore[reportIncompatibleMethodOverride]
        found: set[EffectInstance] = set()
        for row in self.rows:
            if isinstance(row, Touch):
                kind = MemoryEffectKind.READ if row.kind is Kind.READ else MemoryEffectKind.WRITE
                value: Any = getattr(op, row.operand, None)
                found.add(
                    EffectInstance(
                        kind, value if not isinstance(value, tuple) else None, Memory(row)
                    )
                )
            else:
                found.add(EffectInstance(MemoryEffectKind.WRITE, None, Ordering()))
        return found


def effects_of(op: Operation) -> tuple[Effect, ...] | None:
    """The rows of an operation, `()` where it says that it has none, None where it says nothing (unknown)."""
    return _rows_of(type(op))


@cache
def _rows_of(kind: type[Operation]) -> tuple[Effect, ...] | None:
    trait = kind.get_trait(Effects)
    return trait.rows if trait is not None else None

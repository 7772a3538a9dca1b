"""One row for each PTX instruction that we emit or emulate; the rows stand in a file per family.

A row gives the instruction in the manual's own notation, split into the mnemonic with its modifier slots and the
operand list. The verifier, the printer, `check-target`, the emulator's reader and the docs all read it; none repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module

from tkc.ir.isa.memory import Effect
from tkc.ir.isa.targets import Feature, Version


@dataclass(frozen=True)
class Choice:
    """One spelling of a modifier, with what it needs beyond its row: `.relaxed` of an arrive needs PTX 8.0."""

    text: str
    ptx: Version = (1, 0)
    needs: frozenset[Feature] = frozenset()


@dataclass(frozen=True)
class Row:
    """An instruction.

    `mnemonic` is the manual's spelling with slots in angle brackets, optional ones with a question mark:
    `"mbarrier.try_wait.parity<sem?><scope?>.shared::cta.b64"`. `slots` says what may stand in each; the texts carry
    their own dot (`".acquire"`). `syntax` is the operand list, destinations first, in the manual's notation, with
    optional parts in braces with a question mark: `"p, [bar], parity{?, hint}"`; a starred name is a list printed in
    braces: `"[dst], [map, {coords*}], [bar]"`. `operands` gives the kind of each name: a register class (`pred b16 b32 b64 b128
    f32 f64`), `"type"` (whatever the `type` slot says), `"imm"` (an immediate only), `"vec"` (a register tuple), or any
    of these with `*` (a list). `results` names those that are written. `effects` say what the instruction does to memory.
    """

    name: str
    mnemonic: str
    syntax: str
    operands: Mapping[str, str] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    slots: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    effects: tuple[Effect, ...] = ()
    ptx: Version = (1, 0)
    needs: frozenset[Feature] = frozenset()
    section: str = ""
    doc: str = ""
    emitted: bool = True
    convergent: bool = False

    @cached_property
    def slot_order(self) -> tuple[tuple[str, bool], ...]:
        """Slots in the order of the mnemonic, each with whether it may be absent."""
        return tuple((m[1], bool(m[2])) for m in re.finditer(r"<(\w+)(\?)?>", self.mnemonic))

    def spell(self, modifiers: Mapping[str, str]) -> str:
        """The mnemonic with its slots filled; raises ValueError naming the slot and what would fit."""

        def fill(match: re.Match[str]) -> str:
            slot, optional = match[1], bool(match[2])
            text = modifiers.get(slot)
            if text is None:
                if optional:
                    return ""
                raise ValueError(f"{self.name} needs a {slot}: one of {self._choices(slot)}")
            if all(text != c.text for c in self.slots[slot]):
                raise ValueError(f"{self.name} has no {slot} {text}: one of {self._choices(slot)}")
            return text

        unknown = [slot for slot in modifiers if slot not in self.slots]
        if unknown:
            raise ValueError(f"{self.name} has no modifier {unknown[0]}; it has {', '.join(self.slots) or 'none'}")
        return re.sub(r"<(\w+)(\?)?>", fill, self.mnemonic)

    def _choices(self, slot: str) -> str:
        return ", ".join(c.text for c in self.slots[slot])

    def requires(self, modifiers: Mapping[str, str]) -> tuple[Version, frozenset[Feature]]:
        """The PTX version and the features that this spelling needs."""
        version, needs = self.ptx, self.needs
        for slot, text in modifiers.items():
            for choice in self.slots[slot]:
                if choice.text == text:
                    version, needs = max(version, choice.ptx), needs | choice.needs
        return version, needs


FAMILIES = ("arith", "memory", "control", "mbarrier", "tma", "wgmma", "tcgen05")
"""Files of this package; `tkc/ir/ptx` and `tkc/emulator` have the same names."""


def family(name: str) -> Mapping[str, Row]:
    """The rows of one family by name."""
    rows: tuple[Row, ...] = import_module(f"tkc.ir.isa.instructions.{name}").ROWS
    return {row.name: row for row in rows}


def all_rows() -> Mapping[str, Row]:
    """Every row by name (loads every family: for tests, docs and `tkc facts`)."""
    return {name: row for f in FAMILIES for name, row in family(f).items()}


def texts(*spellings: str, ptx: Version = (1, 0), needs: frozenset[Feature] = frozenset()) -> tuple[Choice, ...]:
    """Choices that share what they need."""
    return tuple(Choice(s, ptx, needs) for s in spellings)

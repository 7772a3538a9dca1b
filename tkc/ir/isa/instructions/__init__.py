"""One row for each PTX instruction that we emit or emulate; the rows stand in a file per family.

A row gives the instruction in the manual's own notation, split into the mnemonic with its modifier slots and the
operand list. The verifier, the printer, `check-target`, the emulator's reader and the docs read it; none repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import NamedTuple

from tkc.ir.isa.memory import Effect, Space, Touch
from tkc.ir.isa.targets import Feature, Version

_NOTHING: Mapping[str, str] = {}


class Choice(NamedTuple):
    """One spelling of a modifier, with what it needs beyond its row: `.relaxed` of an arrive needs PTX 8.0.

    `along` gives other slots that this spelling cannot be without or that show it at work (`.relaxed` of a load wants
    a scope): an example for tests and docs, not a rule.
    """

    text: str
    ptx: Version = (1, 0)
    needs: frozenset[Feature] = frozenset()
    along: Mapping[str, str] = _NOTHING


class Together(NamedTuple):
    """What modifiers need only in company: wgmma's `.s8` with `.u8` needs PTX 8.4, either alone 8.0."""

    when: Mapping[str, str]
    ptx: Version = (1, 0)
    needs: frozenset[Feature] = frozenset()


@dataclass(frozen=True, eq=False, repr=False)
class Row:
    """An instruction.

    `mnemonic` is the manual's spelling with slots in angle brackets, optional ones with a question mark:
    `"mbarrier.try_wait.parity<sem?><scope?>.shared::cta.b64"`. `slots` says what may stand in each; the texts carry
    their own dot (`".acquire"`).

    `syntax` is the operand list, destinations first, in the manual's notation, with optional parts in braces with a
    question mark: `"p, [bar], parity{?, hint}"`; a starred name is a list printed in braces:
    `"[dst], [map, {coords*}], [bar]"`. An optional part may hold a list: `"[d], a{?, {mask*}}"`.

    `operands` gives the kind of each name: a register class (`pred b8 b16 b32 b64 b128 f32 f64`), the name of a slot
    (`"type"`: the class of what the slot says, see `register_class`), `"imm"` (an immediate or a symbol's name only),
    `"vec"` (a register tuple), `"address"` (`b32` where slot `space` says shared, `b64` elsewhere), `"any"` (any class
    of the right width), or any of these with `*` (a list).

    `results` names those that are written; `tied` maps a result to the operand that shares its registers and does not
    appear in `syntax` (wgmma: `{"d": "c"}`). `effects` say what the instruction does to memory; a row without effects
    that is `pure` computes its results from its operands alone, one that is not pure is unknown.

    `form_of` names the row whose instruction this is, where the row only fixes operand kinds for emission; readers of
    PTX text use that one.
    """

    name: str
    mnemonic: str
    syntax: str
    operands: Mapping[str, str] = field(default_factory=dict[str, str])
    results: tuple[str, ...] = ()
    slots: Mapping[str, tuple[Choice, ...]] = field(
        default_factory=dict[str, tuple[Choice, ...]]
    )
    effects: tuple[Effect, ...] = ()
    ptx: Version = (1, 0)
    needs: frozenset[Feature] = frozenset()
    section: str = ""
    doc: str = ""
    emitted: bool = True
    convergent: bool = False
    pure: bool = False
    tied: Mapping[str, str] = field(default_factory=dict[str, str])
    form_of: str = ""
    together: tuple[Together, ...] = ()

    def __repr__(self) -> str:
        return f"Row({self.name!r})"

    @cached_property
    def pieces(self) -> tuple[tuple[str, str, bool], ...]:
        """The mnemonic as (fixed text, slot after it or "", whether that slot may be absent)."""
        found: list[tuple[str, str, bool]] = []
        rest = self.mnemonic
        while rest:
            head, bracket, tail = rest.partition("<")
            slot, _, rest = tail.partition(">") if bracket else ("", "", "")
            found.append((head, slot.removesuffix("?"), slot.endswith("?")))
        return tuple(found)

    @cached_property
    def slot_order(self) -> tuple[tuple[str, bool], ...]:
        """Slots in the order of the mnemonic, each with whether it may be absent."""
        return tuple((slot, optional) for _, slot, optional in self.pieces if slot)

    def spell(self, modifiers: Mapping[str, str]) -> str:
        """The mnemonic with its slots filled; raises ValueError naming the slot and what would fit."""
        for slot in modifiers:
            if slot not in self.slots:
                has = ", ".join(self.slots) or "none"
                raise ValueError(f"{self.name} has no modifier {slot}; it has {has}")
        text = ""
        for head, slot, optional in self.pieces:
            text += head
            chosen = modifiers.get(slot)
            if chosen is not None:
                if all(chosen != c.text for c in self.slots[slot]):
                    raise ValueError(
                        f"{self.name} has no {slot} {chosen}: one of {self._choices(slot)}"
                    )
                text += chosen
            elif slot and not optional:
                raise ValueError(f"{self.name} needs a {slot}: one of {self._choices(slot)}")
        return text

    def _choices(self, slot: str) -> str:
        return ", ".join(c.text for c in self.slots[slot])

    def requires(self, modifiers: Mapping[str, str]) -> tuple[Version, frozenset[Feature]]:
        """The PTX version and the features that this spelling needs."""
        version, needs = self.ptx, self.needs
        for slot, text in modifiers.items():
            for choice in self.slots[slot]:
                if choice.text == text:
                    version, needs = max(version, choice.ptx), needs | choice.needs
        for extra in self.together:
            if extra.when.items() <= modifiers.items():
                version, needs = max(version, extra.ptx), needs | extra.needs
        return version, needs

    def effects_with(self, modifiers: Mapping[str, str]) -> tuple[Effect, ...]:
        """The effects of this spelling: a touch of the generic space takes the space that slot `space` says."""
        text = modifiers.get("space", "").lstrip(".").partition("::")[0]
        if not text:
            return self.effects
        space = _SPACES.get(text, Space.GENERIC)
        return tuple(
            e._replace(space=space) if isinstance(e, Touch) and e.space is Space.GENERIC else e
            for e in self.effects
        )


_SPACES = {"global": Space.GLOBAL, "shared": Space.SHARED, "param": Space.PARAM}

COMES_WITH: Mapping[str, str] = {"policy": "hint", "mask": "multicast", "byte_mask": "mask"}
"""Optional operands that stand exactly where a modifier does: operand to slot."""

FAMILIES = ("arith", "memory", "control", "mbarrier", "tma", "wgmma", "tcgen05")
"""Files of this package; `tkc/ir/ptx` and `tkc/emulator` have the same names."""


def family(name: str) -> Mapping[str, Row]:
    """The rows of one family by name."""
    rows: tuple[Row, ...] = import_module(f"tkc.ir.isa.instructions.{name}").ROWS
    return {row.name: row for row in rows}


def all_rows() -> Mapping[str, Row]:
    """Every row by name (loads every family: for tests, docs and `tkc facts`)."""
    return {name: row for f in FAMILIES for name, row in family(f).items()}


def texts(
    *spellings: str,
    ptx: Version = (1, 0),
    needs: frozenset[Feature] = frozenset(),
    along: Mapping[str, str] | None = None,
) -> tuple[Choice, ...]:
    """Choices that share what they need."""
    return tuple(Choice(s, ptx, needs, along or _NOTHING) for s in spellings)


_CLASS_MEMBERS: Mapping[str, str] = {
    "pred": ".pred",
    "b8": ".e2m1x2",
    "b16": ".b8 .u8 .s8 .b16 .u16 .s16 .f16 .bf16 .e4m3x2 .e5m2x2 .e2m3x2 .e3m2x2 .ue8m0x2 .ue5m3x2"
    " .s2f6x2 .e2m1x4",
    "b32": ".b32 .u32 .s32 .f16x2 .bf16x2 .tf32 .u16x2 .s16x2 .u8x4 .s8x4 .e4m3x4 .e5m2x4 .e2m3x4"
    " .e3m2x4",
    "b64": ".b64 .u64 .s64 .f32x2",
    "b128": ".b128",
    "f32": ".f32",
    "f64": ".f64",
}

REGISTER_CLASS: Mapping[str, str] = {
    text: kind for kind, members in _CLASS_MEMBERS.items() for text in members.split()
}
"""The register class that holds a value of each type modifier: `.u8` is `b16`, `.bf16x2` is `b32`, `.f32` is `f32`."""


def register_class(type_text: str) -> str:
    """The class of a type modifier; raises KeyError for one that names no register."""
    return REGISTER_CLASS[type_text]

"""What an instruction row says about operands, worked out once for each row: which are optional, lists, immediates.

The text of an operand list, the order in which a builder takes arguments, and the layout of an operation's operands all
come from the row's `syntax`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from tkc.ir.isa.instructions import Row, register_class
from tkc.ir.isa.targets import Feature, Version
from tkc.ir.ptx.registers import PREFIXES
from tkc.ir.syntax import SEGMENTS

_TOKEN = re.compile(r"\{\?|\{(\w+)\*\}|\w+|.")


@dataclass(frozen=True)
class Word:
    """One piece of an operand list: fixed text, or (with `name`) an operand; `option` numbers its optional part."""

    text: str
    name: str = ""
    option: int = -1


@dataclass(frozen=True)
class Spelling:
    """One choice of modifiers of a row: the mnemonic, what it needs, and what its operands must be.

    `kinds` gives each operand's register class, "" where any will do; `types` the type modifier that says so, where one
    does; `counts` the length of those lists and tuples that the modifiers fix.
    """

    mnemonic: str
    version: Version
    needs: frozenset[Feature]
    kinds: Mapping[str, str]
    types: Mapping[str, str]
    counts: Mapping[str, int]
    plain_kinds: tuple[str, ...]
    """The kinds of the results and then of the operands, in order."""


@dataclass(frozen=True)
class Template:
    """An operand list with holes: `"%s, [%s], %s"` and what fills them."""

    text: str
    names: tuple[str, ...]


class Shape:
    """The operands of a row, sorted: read `arguments` for the order in which people give them."""

    def __init__(self, row: Row) -> None:
        self.row = row
        words: list[Word] = []
        option, inside, options = -1, 0, 0
        for match in _TOKEN.finditer(row.syntax):
            text, listed = match[0], match[1]
            if text == "{?":
                option, inside, options = options, 0, options + 1
                continue
            if option >= 0 and not listed:
                inside += {"{": 1, "}": -1}.get(text, 0)
                if inside < 0:
                    option = -1
                    continue
            if listed:
                words += [Word("{", "", option), Word("", listed, option), Word("}", "", option)]
            elif text in row.operands:
                words.append(Word("", text, option))
            else:
                words.append(Word(text, "", option))
        self.words = tuple(words)
        named = [w for w in words if w.name]
        self.optional = frozenset(w.name for w in named if w.option >= 0)
        self.results: tuple[str, ...] = row.results
        self.tied = dict(row.tied)
        self.immediates = tuple(w.name for w in named if row.operands[w.name] == "imm")
        self.own_offset = any(
            before.text == "+" and w.name == "offset" for before, w in pairwise(words)
        )
        """Whether the row itself gives its address an offset."""
        self.arguments = tuple(
            w.name
            for w in named
            if w.name not in row.results and not (self.own_offset and w.name == "offset")
        ) + tuple(o for o in row.tied.values() if all(w.name != o for w in named))
        """Every name that a builder takes, in the order of the manual; tied operands last."""
        self.operands = tuple(n for n in self.arguments if row.operands[n] != "imm")
        """The operands of the operation, in order."""
        self.lists = frozenset(n for n, kind in row.operands.items() if kind.endswith("*"))
        self.tuples = frozenset(n for n, kind in row.operands.items() if kind == "vec")
        self.variable = tuple(n for n in self.operands if n in self.lists or n in self.optional)
        self.segmented = len(self.variable) > 1
        """Whether the operation says how many operands each of its groups has."""
        self.addresses = frozenset(
            w.name
            for before, w, after in zip(words, words[1:], words[2:], strict=False)
            if w.name and before.text == "[" and (after.text == "]" or after.option >= 0)
        )
        """Operands that stand alone in square brackets, and so may have an offset."""
        self.maps = not row.effects and not (self.lists or self.tuples or row.convergent)
        """Whether tuples as operands mean one instruction for each register."""
        self._templates: dict[frozenset[str], Template] = {}
        self.spellings: dict[tuple[str | None, ...], Spelling] = {}
        """Those that have been asked for, by the texts of the slots."""

    @cached_property
    def slots(self) -> tuple[str, ...]:
        return tuple(slot for slot, _ in self.row.slot_order)

    @cached_property
    def properties(self) -> frozenset[str]:
        """The properties that an operation may have: slots, immediates and offsets, and how many operands are whose."""
        segments = (SEGMENTS,) if self.segmented else ()
        return frozenset((*self.slots, *self.immediates, *segments)) | self.offsets

    @cached_property
    def fixed(self) -> bool:
        """Whether every operation has the same results and operands, each a register or, where it maps, a tuple."""
        return not (self.optional or self.immediates or self.lists or self.tuples)

    @cached_property
    def plain(self) -> tuple[str, tuple[tuple[int, str], ...]] | None:
        """A template and what fills each hole, None where that may vary: which of the results and operands, counted on,
        and of an address the property that holds its offset."""
        if not self.fixed:
            return None
        template = self.template(frozenset())
        places = (*self.results, *self.operands)
        text = f" {template.text}" if template.text else ""
        offsets = {name: self.offset_of(name) for name in self.addresses}
        return text, tuple([(places.index(n), offsets.get(n, "")) for n in template.names])

    def offset_of(self, address: str) -> str:
        """The property that holds the offset of an address operand: `bar_offset`, or the row's own `offset`."""
        return "offset" if self.own_offset else f"{address}_offset"

    @cached_property
    def offsets(self) -> frozenset[str]:
        """The properties that hold offsets of addresses."""
        return frozenset(self.offset_of(address) for address in self.addresses)

    def template(self, present: frozenset[str]) -> Template:
        """The operand list when the optional names in `present` are there."""
        found = self._templates.get(present)
        if found is None:
            shown = {w.option for w in self.words if w.name in present} | {-1}
            text, names = "", list[str]()
            for word in self.words:
                if word.option in shown:
                    text += "%s" if word.name else word.text.replace("%", "%%")
                    if word.name:
                        names.append(word.name)
            found = self._templates[present] = Template(text, tuple(names))
        return found

    def spelling(self, texts: tuple[str | None, ...]) -> Spelling:
        """The spelling whose slots, in the order of `slots`, have these texts; ValueError says what would fit."""
        found = self.spellings.get(texts)
        if found is None:
            row = self.row
            chosen = {s: t for s, t in zip(self.slots, texts, strict=True) if t is not None}
            mnemonic = row.spell(chosen)
            version, needs = row.requires(chosen)
            kinds: dict[str, str] = {}
            types: dict[str, str] = {}
            for name, kind in row.operands.items():
                kind = kind.removesuffix("*")
                if kind in row.slots:
                    types[name] = chosen.get(kind, "")
                    kind = register_class(types[name]) if types[name] else ""
                elif kind == "address":
                    kind = "b32" if "shared" in chosen.get("space", "") else "b64"
                kinds[name] = kind if kind in PREFIXES else ""
            counts = lengths(row, chosen)
            order = tuple([kinds[name] for name in (*self.results, *self.operands)])
            found = Spelling(mnemonic, version, needs, kinds, types, counts, order)
            self.spellings[texts] = found
        return found

    def modifiers(self, text: str, given: Collection[str] = ()) -> dict[str, str]:
        """Slots of modifiers written one after another: `".rn.bf16x2"`; ValueError where they do not fit.

        The slots in `given` are filled otherwise.
        """
        order = [(name, optional) for name, optional in self.row.slot_order if name not in given]

        def match(slot: int, at: int) -> dict[str, str] | None:
            if slot == len(order):
                return {} if at == len(text) else None
            name, optional = order[slot]
            for choice in self.row.slots[name]:
                if text.startswith(choice.text, at):
                    rest = match(slot + 1, at + len(choice.text))
                    if rest is not None:
                        return {name: choice.text, **rest}
            return match(slot + 1, at) if optional else None

        found = match(0, 0)
        if found is None:
            takes = " ".join(
                f"{name}{'?' if optional else ''}: {'|'.join(c.text for c in self.row.slots[name][:8])}"
                for name, optional in order
            )
            raise ValueError(
                f"{self.row.name} has no modifiers {text!r}; it takes {takes or 'none'}"
            )
        return found


def lengths(row: Row, modifiers: Mapping[str, str]) -> Mapping[str, int]:
    """Lengths of the lists and tuples that the modifiers fix: by slot `vec`, or by the rule of the row's family."""
    from tkc.ir.ptx.families import family_of

    rule = family_of(row.name).LENGTHS.get(row.name)
    if rule is not None:
        return rule(modifiers)
    if "vec" in modifiers:
        count = int(modifiers["vec"][2:])
        return {name: count for name, kind in row.operands.items() if kind.endswith("*")}
    return {}

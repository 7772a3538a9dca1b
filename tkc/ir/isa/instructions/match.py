"""Finds the row of an instruction in PTX text: from its mnemonic, in any order of modifiers, and its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from tkc.ir.isa.instructions import COMES_WITH, Row, all_rows

Bound = Mapping[str, str | tuple[str, ...]]
"""Operand name to its text; a list or register tuple gives a tuple of texts, an address its text without brackets."""


@dataclass(frozen=True, slots=True)
class Match:
    """A row, the modifiers by slot, and the operands by name where they were given."""

    row: Row
    modifiers: Mapping[str, str]
    operands: Bound | None = None


class UnknownInstruction(KeyError):
    """No row has this mnemonic, or none of its rows takes these operands; the text says which."""

    def __str__(self) -> str:
        return str(self.args[0])


def match(
    mnemonic: str, operands: str | None = None, kind_of: Callable[[str], str] | None = None
) -> Match:
    """The row of an instruction such as `"ld.global.v4.f32"`, `"{%f1, %f2, %f3, %f4}, [%rd1+16]"`.

    Without operands the first row of the mnemonic answers. `kind_of` tells the register class of an operand's text,
    "" where it is none; only predicates are told apart by it. Raises UnknownInstruction.
    """
    found = candidates(mnemonic)
    if not found:
        raise UnknownInstruction(f"no instruction {mnemonic!r}{_nearest(mnemonic)}")
    if operands is None:
        return found[0]
    trees = split_operands(operands)
    for candidate in found:
        bound = bind(candidate.row, candidate.modifiers, trees, kind_of)
        if bound is not None:
            return Match(candidate.row, candidate.modifiers, bound)
    takes = " or ".join(f"{c.row.syntax!r}" for c in found)
    raise UnknownInstruction(f"{mnemonic} does not take operands {operands!r}: expected {takes}")


# -- mnemonics


@dataclass(frozen=True, slots=True)
class _Variant:
    """A row with those slots chosen whose texts are no modifiers of their own (`::x`, a leading `bar`)."""

    row: Row
    fixed: tuple[str, ...]
    preset: Mapping[str, str]
    slots: tuple[tuple[str, Mapping[tuple[str, ...], str]], ...]
    required: frozenset[str]


@cache
def _index() -> Mapping[str, tuple[_Variant, ...]]:
    """Variants of every row by their first token."""
    by_head: dict[str, list[_Variant]] = {}
    for row in all_rows().values():
        if not row.form_of:
            for variant in _variants(row):
                by_head.setdefault(variant.fixed[0], []).append(variant)
    return {head: tuple(variants) for head, variants in by_head.items()}


def _variants(row: Row) -> Iterator[_Variant]:
    glued = [
        s for s, _ in row.slot_order if any(not c.text.startswith(".") for c in row.slots[s])
    ]
    optional = {s: o for s, o in row.slot_order}
    choices = [[*(c.text for c in row.slots[s]), *([""] if optional[s] else [])] for s in glued]
    for texts in product(*choices):
        preset = dict(zip(glued, texts, strict=True))
        text = "".join(head + preset.get(slot, "") for head, slot, _ in _with_gaps(row, glued))
        slots = tuple(
            (s, {parts: c.text for c in row.slots[s] for parts in _orders(c.text)})
            for s, _ in row.slot_order
            if s not in glued
        )
        yield _Variant(
            row,
            tuple(t for t in text.split(".") if t),
            {s: t for s, t in preset.items() if t},
            slots,
            frozenset(s for s, o in row.slot_order if not o and s not in glued),
        )


def _orders(text: str) -> Iterator[tuple[str, ...]]:
    """The parts of a modifier, as it is spelled and backwards: Triton writes `.warpx4.32x128b`."""
    parts = tuple(text[1:].split("."))
    yield parts
    if len(parts) == 2:
        yield parts[::-1]


def _with_gaps(row: Row, glued: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """The pieces of the mnemonic, with a dot wherever a slot that is left out parts two fixed texts."""
    for head, slot, optional in row.pieces:
        yield head + ("." if slot and slot not in glued else ""), slot, optional


@cache
def candidates(mnemonic: str) -> tuple[Match, ...]:
    """Every row that has this mnemonic, in the order of the tables; empty where there is none."""
    tokens = tuple(mnemonic.split("."))
    found: list[Match] = []
    for variant in _index().get(tokens[0], ()):
        modifiers = _assign(variant, tokens)
        if modifiers is not None:
            found.append(Match(variant.row, {**variant.preset, **modifiers}))
    return tuple(found)


def _assign(variant: _Variant, tokens: tuple[str, ...]) -> Mapping[str, str] | None:
    """Gives every token to a fixed one or to a slot, earlier slots first; None where that cannot be."""
    pending = list(variant.fixed)
    for token in set(pending):
        if tokens.count(token) < pending.count(token):
            return None
    filled: dict[str, str] = {}

    def place(at: int) -> bool:
        if at == len(tokens):
            return not pending and variant.required <= filled.keys()
        token = tokens[at]
        if token in pending:
            pending.remove(token)
            if place(at + 1):
                return True
            pending.append(token)
        for slot, choices in variant.slots:
            if slot in filled:
                continue
            for parts, text in choices.items():
                if tokens[at : at + len(parts)] == parts:
                    filled[slot] = text
                    if place(at + len(parts)):
                        return True
                    del filled[slot]
        return False

    return filled if place(0) else None


def _nearest(mnemonic: str) -> str:
    head = mnemonic.partition(".")[0]
    known = [v.row.name for v in _index().get(head, ())]
    if known:
        return f": {head} has {', '.join(dict.fromkeys(known[:8]))}"
    from difflib import get_close_matches

    near = get_close_matches(head, _index(), 3)
    return f": nearest are {', '.join(near)}" if near else ""


# -- operands


@dataclass(frozen=True, slots=True)
class Tree:
    """An operand's text: "[", "{" and "(" hold others, "" is a leaf (with a bar: `p|q`)."""

    bracket: str
    text: str
    inside: tuple[Tree, ...] = ()


def split_operands(text: str) -> tuple[Tree, ...]:
    """Operands parted by commas outside brackets; raises UnknownInstruction where brackets do not close."""
    trees: list[Tree] = []
    depth, start = 0, 0
    for at, char in enumerate(text + ","):
        if char in "[{(":
            depth += 1
        elif char in "]})":
            depth -= 1
        elif char == "," and depth == 0:
            piece = text[start:at].strip()
            start = at + 1
            if piece:
                trees.append(_tree(piece))
            elif text.strip():
                raise UnknownInstruction(f"empty operand in {text!r}")
    if depth:
        raise UnknownInstruction(f"brackets do not close in {text!r}")
    return tuple(trees)


def _tree(piece: str) -> Tree:
    if piece[0] in "[{(" and piece[-1] in "]})":
        inner = piece[1:-1].strip()
        return Tree(piece[0], inner, split_operands(inner))
    return Tree("", piece)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One operand of a row's syntax: a name, the literal `_`, `d|p`, a list, a call's parentheses, or a bracket."""

    kind: str
    names: tuple[str, ...] = ()
    inside: tuple[_Option, ...] = ()


@dataclass(frozen=True, slots=True)
class _Option:
    """Patterns that stand together or, if `optional`, not at all."""

    patterns: tuple[_Pattern, ...]
    optional: bool = False


@cache
def _patterns(syntax: str) -> tuple[_Option, ...]:
    """The operand list of a row as patterns."""
    options: list[_Option] = []
    for piece, optional in _parts(syntax):
        trees = split_operands(piece.strip().lstrip(",").rstrip(","))
        if optional:
            options.append(_Option(tuple(_pattern(t) for t in trees), True))
        else:
            options += [_Option((_pattern(t),)) for t in trees]
    return tuple(options)


def _parts(syntax: str) -> Iterator[tuple[str, bool]]:
    """Pieces of a syntax outside and inside of optional parts; one inside square brackets stays with its bracket."""
    depth, start, at = 0, 0, 0
    while at < len(syntax):
        if syntax.startswith("{?", at) and depth == 0:
            yield syntax[start:at], False
            end, level = at + 2, 1
            while level:
                level += {"{": 1, "}": -1}.get(syntax[end], 0)
                end += 1
            yield syntax[at + 2 : end - 1], True
            start = at = end
            continue
        depth += {"[": 1, "]": -1, "{": 1, "}": -1}.get(syntax[at], 0)
        at += 1
    yield syntax[start:], False


def _pattern(tree: Tree) -> _Pattern:
    if tree.bracket in ("{", "("):
        return _Pattern("list" if tree.bracket == "{" else "call", (tree.text.rstrip("*"),))
    if tree.bracket == "[":
        if "{?" in tree.text:
            return _Pattern("bracket", (), (_Option((_Pattern("name", (tree.text.partition("{?")[0],)),)),))
        return _Pattern("bracket", (), tuple(_Option((_pattern(t),)) for t in tree.inside))
    if "|" in tree.text:
        return _Pattern("bar", tuple(tree.text.split("|")))
    return _Pattern("name", (tree.text,))


def bind(
    row: Row,
    modifiers: Mapping[str, str],
    operands: Sequence[Tree],
    kind_of: Callable[[str], str] | None = None,
) -> Bound | None:
    """Gives each operand to its name; None where they are not those of the row."""
    bound: dict[str, str | tuple[str, ...]] = {}

    def take(options: Sequence[_Option], trees: Sequence[Tree]) -> bool:
        if not options:
            return not trees
        first, rest = options[0], options[1:]
        count = len(first.patterns)
        wanted = _wanted(row, first, modifiers) if first.optional else True
        if wanted is not False and len(trees) >= count:
            before = dict(bound)
            fits = all(one(p, t) for p, t in zip(first.patterns, trees, strict=False))
            if fits and take(rest, trees[count:]):
                return True
            bound.clear()
            bound.update(before)
        return first.optional and wanted is not True and take(rest, trees)

    def one(pattern: _Pattern, tree: Tree) -> bool:
        if pattern.kind == "bracket":
            if tree.bracket != "[":
                return False
            single = len(pattern.inside) == 1 and pattern.inside[0].patterns[0].kind == "name"
            return take(pattern.inside, (Tree("", tree.text),) if single else tree.inside)
        if pattern.kind == "bar":
            parts = tuple(p.strip() for p in tree.text.split("|"))
            if tree.bracket or len(parts) != len(pattern.names):
                return False
            return all(name(n, Tree("", p)) for n, p in zip(pattern.names, parts, strict=True))
        if pattern.kind in ("list", "call"):
            if tree.bracket != ("{" if pattern.kind == "list" else "("):
                return False
            bound[pattern.names[0]] = tuple(t.text for t in tree.inside)
            return True
        return name(pattern.names[0], tree)

    def name(key: str, tree: Tree) -> bool:
        if key == "_":
            return tree.text == "_" and not tree.bracket
        kind = row.operands[key]
        if kind == "vec":
            if tree.bracket != "{":
                return False
            bound[key] = tuple(t.text for t in tree.inside)
            return True
        if tree.bracket == "{" and len(tree.inside) == 1:
            tree = tree.inside[0]
        if tree.bracket or "|" in tree.text:
            return False
        if kind_of is not None:
            found = kind_of(tree.text.lstrip("!-"))
            if found and (found == "pred") != (_kind(row, kind, modifiers) == "pred"):
                return False
        bound[key] = tree.text
        return True

    return bound if take(_patterns(row.syntax), operands) else None


def _kind(row: Row, kind: str, modifiers: Mapping[str, str]) -> str:
    """`pred` where a slot's type is `.pred`; other kinds as they are."""
    return "pred" if kind in row.slots and modifiers.get(kind) == ".pred" else kind


def _wanted(row: Row, option: _Option, modifiers: Mapping[str, str]) -> bool | None:
    """Whether an optional part must stand (True) or must not (False) by its modifier; None where it is free."""
    for pattern in option.patterns:
        for key in pattern.names:
            slot = COMES_WITH.get(key)
            if slot in row.slots:
                return slot in modifiers
    return None

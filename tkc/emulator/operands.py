"""The operands of a PTX instruction: text to the tree of `syntax`, remembered by text."""

from __future__ import annotations

import re
from functools import lru_cache

from tkc.emulator.syntax import Address, Group, Name, Number, Operand, Pair, Vector

_TOKEN = re.compile(
    r"\s*(?:(?P<float>0[fFdD][0-9a-fA-F]+)"
    r"|(?P<decimal>\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)"
    r"|(?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)"
    r"|(?P<name>[A-Za-z_$%][\w$]*(?:\.\w+)?(?:::\w+)*)"
    r"|(?P<mark><<|>>|[-+*/%!~|&^,()\[\]{}<>]))"
)
_OPEN = {"[": "]", "{": "}", "(": ")"}


class _Tokens:
    def __init__(self, text: str) -> None:
        self.items: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if not found:
                if not text[at:].strip():
                    break
                raise ValueError(f"cannot read operand {text[at:].strip()[:30]!r}")
            self.items.append((found.lastgroup or "", found.group(found.lastgroup or 0)))
            at = found.end()
        self.at = 0

    def peek(self) -> str:
        return self.items[self.at][1] if self.at < len(self.items) else ""

    def next(self) -> tuple[str, str]:
        if self.at >= len(self.items):
            raise ValueError("an operand is missing")
        self.at += 1
        return self.items[self.at - 1]

    def take(self, mark: str) -> bool:
        if self.peek() == mark:
            self.at += 1
            return True
        return False


def _integer(text: str) -> int:
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8)
    return int(text)


def _atom(tokens: _Tokens) -> Operand:
    kind, text = tokens.next()
    if kind == "int":
        return Number("int", _integer(text))
    if kind == "float":
        return Number("f32" if text[1] in "fF" else "f64", int(text[2:], 16))
    if kind == "decimal":
        return Number("decimal", 0, text)
    if kind == "name":
        return Name("_") if text == "_" else Name(text)
    if text == "-":
        inner = _atom(tokens)
        if not isinstance(inner, Number):
            raise ValueError("a minus sign stands before no number")
        if inner.kind == "decimal":
            return Number("decimal", 0, "-" + inner.text)
        sign = {"f32": 1 << 31, "f64": 1 << 63}.get(inner.kind)
        return Number(inner.kind, inner.value ^ sign) if sign else Number("int", -inner.value)
    if text == "~":
        inner = _atom(tokens)
        if not isinstance(inner, Number) or inner.kind != "int":
            raise ValueError("a tilde stands before no integer")
        return Number("int", ~inner.value)
    if text == "!":
        inner = _atom(tokens)
        if not isinstance(inner, Name):
            raise ValueError("an exclamation mark stands before no predicate")
        return Name(inner.text, 0, True)
    if text == "(":
        return _group(tokens)
    if text == "[":
        return Address(_list(tokens, "]"))
    if text == "{":
        return Vector(_list(tokens, "}"))
    raise ValueError(f"unexpected {text!r}")


def _group(tokens: _Tokens) -> Operand:
    items = _list(tokens, ")")
    # A single number in parentheses is a constant expression, everything else the list of a call.
    return items[0] if len(items) == 1 and isinstance(items[0], Number) else Group(items)


_ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
}


def _sum(tokens: _Tokens) -> Operand:
    """An atom with what is added to it: `sym+16`, `%rd1+-4`, `4*8`, or `p|q`."""
    left = _atom(tokens)
    while True:
        mark = tokens.peek()
        if mark == "|":
            tokens.next()
            left = Pair(left, _atom(tokens))
        elif mark in _ARITHMETIC:
            tokens.next()
            right = _atom(tokens)
            if not isinstance(right, Number) or right.kind != "int":
                raise ValueError("only integers may be added to an operand")
            if isinstance(left, Number) and left.kind == "int":
                left = Number("int", _ARITHMETIC[mark](left.value, right.value))
            elif isinstance(left, Name) and mark in "+-":
                sign = 1 if mark == "+" else -1
                left = Name(left.text, left.offset + sign * right.value, left.negated)
            else:
                raise ValueError(f"cannot compute with {mark!r} here")
        else:
            return left


def _list(tokens: _Tokens, close: str) -> tuple[Operand, ...]:
    items: list[Operand] = []
    if tokens.take(close):
        return ()
    while True:
        items.append(_sum(tokens))
        if tokens.take(close):
            return tuple(items)
        if not tokens.take(","):
            raise ValueError(f"expected ',' or {close!r}, found {tokens.peek()!r}")


@lru_cache(maxsize=65536)
def parse_operands(text: str) -> tuple[Operand, ...]:
    """The operands of one instruction; raises ValueError saying what cannot be read."""
    if not text:
        return ()
    tokens = _Tokens(text)
    items = [_sum(tokens)]
    while tokens.take(","):
        items.append(_sum(tokens))
    if tokens.peek():
        raise ValueError(f"unexpected {tokens.peek()!r}")
    return tuple(items)

"""Evaluates the address arithmetic in PTX text for one thread, and records what memory instructions are given.

Knows integer arithmetic, predicates and branches; everything else is an event that does nothing, except that a load
makes values that say where they came from. It is no emulator: no other thread, no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MASK = (1 << 32) - 1
SHARED_BASE = 1 << 10
"""What `sm` is: aligned to every swizzle, and not zero."""


def signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "div": lambda a, b: a // b,
    "rem": lambda a, b: a % b,
    "min": min,
    "max": max,
}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Event:
    """A memory or matrix instruction: its name, and its operands as numbers, tuples of numbers, or text."""

    name: str
    operands: tuple[Any, ...]


@dataclass
class Thread:
    """Thread `number` of a CTA; `load(name, address, count)` gives the words that a load finds."""

    number: int
    load: Callable[[str, int, int], list[int]] = lambda name, address, count: [0] * count
    registers: dict[str, int] = field(default_factory=dict)

    def run(self, text: str) -> list[Event]:
        body = text[text.index("{\n") + 2 : text.rindex("}")]
        lines = [line.strip() for line in body.splitlines()]
        labels = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
        events: list[Event] = []
        at = 0
        for _ in range(100_000):
            if at >= len(lines):
                return events
            line, at = lines[at], at + 1
            if not line.endswith(";") or line.startswith("."):
                continue
            jump = self.execute(line[:-1], events)
            if jump == "ret":
                return events
            if jump is not None:
                at = labels[jump]
        raise AssertionError("no end")

    def execute(self, line: str, events: list[Event]) -> str | None:
        if line.startswith("@"):
            guard, _, line = line.partition(" ")
            if bool(self.registers[guard.lstrip("@!")]) == guard.startswith("@!"):
                return None
        name, _, rest = line.partition(" ")
        if name == "ret":
            return "ret"
        if name == "bra":
            return rest
        operands = split(rest)
        root, *modifiers = name.split(".")
        match root:
            case "mov" if operands[1].startswith("{"):
                low, high = (self.value(x) for x in split(operands[1][1:-1]))
                self.registers[operands[0]] = low | high << 32
            case "mov":
                self.registers[operands[0]] = self.value(operands[1])
            case "cvt" if len(operands) == 2 and modifiers[-1] in ("u32", "s32"):
                self.registers[operands[0]] = self.value(operands[1])
            case "setp":
                a, b = (self.value(x) for x in operands[1:])
                if modifiers[1] == "s32":
                    a, b = signed(a), signed(b)
                self.registers[operands[0]] = int(COMPARE[modifiers[0]](a, b))
            case "selp":
                a, b, p = (self.value(x) for x in operands[1:])
                self.registers[operands[0]] = a if p else b
            case _ if root in BINARY and len(operands) == 3 and not modifiers[-1].startswith("f"):
                wide = modifiers[-1].endswith("64")
                a, b = (self.value(x) for x in operands[1:])
                if modifiers[-1] == "s32":
                    a, b = signed(a), signed(b)
                self.registers[operands[0]] = BINARY[root](a, b) & ((1 << 64) - 1 if wide else MASK)
            case "ld" | "tcgen05" if root == "ld" or modifiers[0] == "ld":
                targets = split(operands[0][1:-1]) if operands[0].startswith("{") else [operands[0]]
                address = self.value(operands[1][1:-1])
                values = self.load(name, address, len(targets))
                self.registers.update(zip(targets, values, strict=True))
                events.append(Event(name, (tuple(values), address)))
            case _:
                events.append(Event(name, tuple(self.operand(x) for x in operands)))
        return None

    def operand(self, text: str) -> Any:
        if text.startswith(("{", "[")):
            inner = split(text[1:-1])
            if text.startswith("[") and len(inner) == 1:
                return self.operand(inner[0])
            return tuple(self.operand(x) for x in inner)
        try:
            return self.value(text)
        except KeyError:
            return text

    def value(self, text: str) -> int:
        """A register, a number, `sm`, or a sum of them."""
        if "+" in text:
            return sum(self.value(part) for part in text.split("+")) & MASK
        if re.fullmatch(r"-?\d+", text):
            return int(text) & MASK if int(text) < 0 else int(text)
        if text.startswith("0x"):
            return int(text, 16)
        special = {
            "%tid.x": self.number,
            "%laneid": self.number % 32,
            "sm": SHARED_BASE,
        }
        return special[text] if text in special else self.registers[text]


def split(text: str) -> list[str]:
    """Operands at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "[{("
        depth -= c in ")}]"
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]

"""Ways to spoil a program: tokens dropped, doubled, swapped, other numbers, indentation, strange text, deep nesting."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
SOURCES = {p.stem: p.read_text(encoding="utf-8") for p in sorted(EXAMPLES.glob("*.tk"))}
SIZES = (1, 2, 3, 4, 7, 8, 16, 24, 32, 48, 64, 72, 96, 100, 128, 160, 192, 256, 320, 512, 1024)
TOKEN = re.compile(r"\n *|[A-Za-z_]\w*|\d+|<-|->|\+=|//|#[^\n]*| +|[^\s\w]")
NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
POOL = [
    *sorted({piece for text in SOURCES.values() for piece in TOKEN.findall(text)}),
    "if", "else", "elif", "not", "and", "or", "where", "as", "0x", "1.5", "1e400", "\t", "\r\n", "\x00", "é", '"', "'",
    "{", "}", "\\", "99999999999", "-", "%", "==", ".T", ".part", "inf", "cdiv", "min", "f16", "e4m3", "f32", "f32(",
    "while", "def", "return", "from", "import", "assert", "const", "mask", "causal", "any", "break", "continue",
]  # fmt: skip
WORDS = [piece for piece in POOL if re.match(r"\w", piece)]
NUMBERS = (
    *map(str, SIZES), "0", "-1", "255", "257", "4095", "65536", "2147483647", "2147483648", "4294967296",
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "1" + "0" * 400, "0xffffffff", "1_000", "1e9",
    "0.5", "1e400", "1 // 0", "1 % 0",
)  # fmt: skip
STRANGE = (
    "\ufeff", "\u00a0", "\u2028", "\u2212", "\u200b", "\u0301", "\U0001f600", "\x00", "\x0c", "\x1b[31m", "\r", "\r\n",
    "é", "名", "\u202e", "\ufffd", "ﬁ", "\t",
)  # fmt: skip

Mangle = Callable[[random.Random, str], str]


def _tokens(rng: random.Random, text: str) -> str:
    """Tokens or lines dropped, doubled, swapped, or taken from elsewhere."""
    parts = text.splitlines(keepends=True) if rng.random() < 0.3 else TOKEN.findall(text)
    if not parts:
        return text
    i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
    match rng.randrange(6):
        case 0:
            del parts[i]
        case 1:
            parts.insert(i, parts[i])
        case 2:
            parts[i], parts[j] = parts[j], parts[i]
        case 3:
            parts[i] = parts[j]
        case 4:
            parts[i] = rng.choice(POOL)
        case _:
            parts[i:i] = parts[j : j + rng.randrange(20)]
    return "".join(parts)


def _words(rng: random.Random, text: str) -> str:
    """One name for another: what still parses."""
    places = list(re.finditer(r"\b[A-Za-z]\w*", text))
    return _put(text, rng.choice(places), rng.choice(WORDS)) if places else text


def _numbers(rng: random.Random, text: str) -> str:
    places = list(NUMBER.finditer(text))
    return _put(text, rng.choice(places), rng.choice(NUMBERS)) if places else text


def _put(text: str, place: re.Match[str], new: str) -> str:
    return text[: place.start()] + new + text[place.end() :]


def _indentation(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    for i in range(at, min(len(lines), at + rng.choice((1, 1, 2, 5)))):
        bare = lines[i].lstrip()
        depth = len(lines[i]) - len(bare) + rng.choice((-8, -4, -1, 1, 4, 8))
        lines[i] = rng.choice((" ", " ", " ", "\t")) * max(0, depth) + bare
    return "\n".join(lines)


def _strange(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(STRANGE) * rng.choice((1, 1, 3)) + text[at:]


def _deep(rng: random.Random, text: str) -> str:
    """Brackets, signs, sums, blocks or comparisons nested or chained far."""
    depth = rng.choice((10, 60, 99, 101, 300, 3000))
    places = list(re.finditer(r"\b[A-Za-z]\w*|\b\d+\b", text))
    if not places:
        return text
    place = rng.choice(places)
    word = place[0]
    match rng.randrange(6):
        case 0:
            new = "(" * depth + word + ")" * depth
        case 1:
            new = "-" * depth + word
        case 2:
            new = " + ".join([word] * depth)
        case 3:
            new = word + "[" * depth + "0" + "]" * depth
        case 4:
            new = f"{word} if {word} else " * depth + word
        case _:
            new = "\n" + "".join(
                f"{' ' * (9 + i)}for x in {word}:\n" for i in range(min(depth, 300))
            )
    return _put(text, place, new)


def _cut(rng: random.Random, text: str) -> str:
    """Only its beginning."""
    return text[: rng.randrange(len(text) + 1)]


def _join(rng: random.Random, text: str) -> str:
    """A piece of another program in the midst of this one."""
    other = rng.choice(list(SOURCES.values())).splitlines(keepends=True)
    lines = text.splitlines(keepends=True)
    start = rng.randrange(len(other))
    at = rng.randrange(len(lines) + 1)
    lines[at:at] = other[start : start + rng.randrange(1, 12)]
    return "".join(lines)


MANGLES: tuple[Mangle, ...] = (
    _tokens, _tokens, _tokens, _words, _words, _numbers, _numbers, _indentation, _strange, _deep, _cut, _join,
)  # fmt: skip
"""Every way, the commonest slips more than once."""


def mangle(rng: random.Random, text: str, ways: tuple[Mangle, ...] = MANGLES) -> str:
    """A program after one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        text = rng.choice(ways)(rng, text)
    return text


def params(rng: random.Random, text: str) -> dict[str, int]:
    """Other values for some of a program's params."""
    line = re.search(r"^\s*param (.*)$", text, re.MULTILINE)
    names = re.findall(r"([A-Z]+) =", line[1]) if line else []
    chosen = rng.sample(names, rng.randint(0, len(names)))
    return {n: rng.choice(SIZES[:8] if n == "STAGES" else SIZES) for n in chosen}

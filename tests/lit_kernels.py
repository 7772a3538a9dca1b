"""Lines of lit tests that run the kernel of their file: `# emulate: WORDS` on the CPU, `# gpu: WORDS` on a GPU.

The words are those of `tkc emulate` and `tkc run`, but that `--expect` may take an expression in place of a file:
`'A=random(200,136)' 'B=random(264,136)' 'C=empty(200,264)' --expect 'C = A @ B.T'` names arrays as float64, lists of
them as lists, `np` and `zip`; a list is expected as one, `'C = [a @ b.T for a, b in zip(A, B)]'`.
`# emulate, gpu: WORDS` runs the same on both; a backslash continues a line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from tkc import arguments
from tkc.argument_words import parse

_LINE = re.compile(r"\s*(?:#|//)\s*(emulate|gpu|emulate, gpu):\s*(.*?)\s*$")
_MORE = re.compile(r"\s*(?:#|//)\s*(.*?)\s*$")
_ARRAY = re.compile(r"\b(\w+)\s*:\s*(?:const\s+)?(list\[[^\[]*,\s*)?global\[\s*(\w+)\s*,")
_EXPECTED = re.compile(r"(\w+)\s*=\s*(.*)", re.DOTALL)

COMMANDS = {"emulate": "emulate", "gpu": "run"}
"""Where a line runs → the command of tkc that runs it."""

EMULATED_SMS = 8
"""So few that CTAs which take turns have several each, and enough for a cluster of eight."""


@dataclass(frozen=True)
class KernelLine:
    """One run: on which machines, with which words."""

    machines: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def target(self) -> str:
        """What it is compiled for, "" where it does not say."""
        if "--target" not in self.words:
            return ""
        return self.words[self.words.index("--target") + 1]


def one_of_each_target(lines: list[KernelLine], seed: str) -> list[KernelLine]:
    """Of the lines for one target one, which follows from the seed; those for a GPU alone stay."""
    emulated: dict[str, list[KernelLine]] = {}
    for line in lines:
        if "emulate" in line.machines:
            emulated.setdefault(line.target, []).append(line)

    def order(line: KernelLine) -> int:
        return crc32(f"{seed}{line.words}".encode())

    chosen = [min(some, key=order) for some in emulated.values()]
    return [line for line in lines if line in chosen or "emulate" not in line.machines]


def kernel_lines(path: Path) -> list[KernelLine]:
    """The lines of a test that run its kernel, in order."""
    found: list[KernelLine] = []
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        text = match[2]
        while text.endswith("\\"):
            more = _MORE.match(next(lines, ""))
            assert more is not None, f"{path}: the last line of a run ends in a backslash"
            text = f"{text[:-1]} {more[1]}"
        found.append(KernelLine(tuple(match[1].split(", ")), tuple(shlex.split(text))))
    return found


def command_words(line: KernelLine, machine: str, path: Path, scratch: Path) -> list[str]:
    """The words for `tkc` that run a line; what is expected is computed, and written to `scratch`."""
    words = list(_with_files(line.words, path, scratch))
    if machine == "emulate" and "--sm-count" not in words:
        words += ["--sm-count", str(EMULATED_SMS)]
    return [COMMANDS[machine], str(path), *words]


def _with_files(words: tuple[str, ...], path: Path, scratch: Path) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        yield word
        if word != "--expect":
            continue
        match = _EXPECTED.fullmatch(next(rest))
        assert match is not None, f"{path}: --expect takes NAME = EXPRESSION"
        if match[2].endswith(".npy"):
            yield f"{match[1]}={match[2]}"
            continue
        expected = evaluate(match[2], words, path)
        several = isinstance(expected, list)
        file = scratch / f"expected-{match[1]}.{'npz' if several else 'npy'}"
        arguments.save(str(file), expected)
        yield f"{match[1]}={file}"


def evaluate(expression: str, words: tuple[str, ...], path: Path) -> np.ndarray | list[np.ndarray]:
    """An expression of NumPy over the arrays that the words make, each in float64."""
    declared = {
        name: (bool(several), dtype)
        for name, several, dtype in _ARRAY.findall(path.read_text(encoding="utf-8"))
    }
    names: dict[str, object] = {"__builtins__": {}, "np": np, "zip": zip}
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and name in declared:
            several, dtype = declared[name]
            spec = parse([word])[name]
            arrays = (
                arguments.make_list(spec, dtype, name)
                if several
                else [arguments.make_array(spec, dtype, name)]
            )
            plain = [arguments.values_of(x, dtype).astype(np.float64) for x in arrays]
            names[name] = plain if several else plain[0]
    found = eval(expression, names)
    if isinstance(found, list):
        return [np.asarray(x, np.float64) for x in found]
    return np.asarray(found, np.float64)

"""Lines of lit tests that run the kernel of their file: `# emulate: WORDS` on the CPU, `# gpu: WORDS` on a GPU.

The words are those of `tkc emulate` and `tkc run`, but that `--expect` may take an expression in place of a file:
`'A=random(200,136)' 'B=random(264,136)' 'C=empty(200,264)' --expect 'C = A @ B.T'` names arrays as float64, and `np`.
`# emulate, gpu: WORDS` runs the same on both; a backslash continues a line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tkc import arguments

_LINE = re.compile(r"\s*(?:#|//)\s*(emulate|gpu|emulate, gpu):\s*(.*?)\s*$")
_MORE = re.compile(r"\s*(?:#|//)\s*(.*?)\s*$")
_ARRAY = re.compile(r"\b(\w+)\s*:\s*(?:const\s+)?global\[\s*(\w+)\s*,")
_EXPECTED = re.compile(r"(\w+)\s*=\s*(.*)", re.DOTALL)

COMMANDS = {"emulate": "emulate", "gpu": "run"}
"""Where a line runs → the command of tkc that runs it."""


@dataclass(frozen=True)
class KernelLine:
    """One run: on which machines, with which words."""

    machines: tuple[str, ...]
    words: tuple[str, ...]


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
        file = scratch / f"expected-{match[1]}.npy"
        np.save(file, evaluate(match[2], words, path))
        yield f"{match[1]}={file}"


def evaluate(expression: str, words: tuple[str, ...], path: Path) -> np.ndarray:
    """An expression of NumPy over the arrays that the words make, each in float64."""
    dtypes = dict(_ARRAY.findall(path.read_text(encoding="utf-8")))
    names: dict[str, object] = {"np": np}
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and name in dtypes:
            spec = arguments.parse([word])[name]
            made = arguments.make_array(spec, dtypes[name], name)
            names[name] = arguments.values_of(made, dtypes[name]).astype(np.float64)
    return np.asarray(eval(expression, {"__builtins__": {}}, names), np.float64)

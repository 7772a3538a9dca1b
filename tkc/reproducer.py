"""The file that replays a bug of ours: its first line is the command, the rest is the program before the failure."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tkc.job import Job


@dataclass(frozen=True)
class Reproducer:
    """`arguments` run on the file replay the bug; `body` is the program, in a language whose comments begin so."""

    arguments: tuple[str, ...]
    body: str
    suffix: str
    comment: str


def of_source(job: Job) -> Reproducer:
    """For a failure in the front end: the source itself, with the options of the run."""
    options = ["--target", job.target]
    for name, value in job.params.items():
        options += ["-D", f"{name}={value}"]
    if job.kernel is not None:
        options += ["--kernel", job.kernel]
    return Reproducer(("tkc", "compile", *options, "-o", "-"), job.text, ".tk", "#")


def of_module(module: ModuleOp, pipeline: str, *, emit: bool = False) -> Reproducer:
    """For a failure in a pass or in the printer: the IR before it, with its locations, and the passes still to run."""
    from tkc.dump import ir_text

    options = ["-p", pipeline] if pipeline else []
    if emit:
        options += ["-t", "ptx"]
    return Reproducer(("tkc-opt", *options), ir_text(module), ".mlir", "//")


def write(reproducer: Reproducer, where: str, message: str) -> str:
    """Writes the file into the current folder, or a temporary one where that cannot be, and returns its path.

    The name follows from the content, so that the same bug met twice makes one file. Raises OSError where neither
    folder can be written.
    """
    from tkc.digests import sha256
    from tkc.version import __version__

    digest = sha256(repr((reproducer, where, message)).encode()).hexdigest()
    refused: OSError | None = None
    for path in _places(f"tkc-repro-{digest[:8]}{reproducer.suffix}"):
        command = shlex.join((*reproducer.arguments, path.name))
        head = (
            f"RUN: {command}",
            f"internal error in {where}: {message}",
            f"tkc {__version__}, Python {sys.version.split()[0]}",
        )
        text = "".join(f"{reproducer.comment} {line}\n" for line in head) + reproducer.body
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            refused = error
            continue
        return str(path)
    assert refused is not None
    raise refused


def _places(name: str) -> Iterator[Path]:
    import tempfile

    yield Path(name)
    yield Path(tempfile.gettempdir()) / name

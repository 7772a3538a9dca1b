"""Looks at a run from outside: a numbered file for every pass, IR on standard error, and the time each step took."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tkc.diagnostics import TkcError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tkc.job import Compiled, Job, Step


def ir_text(module: ModuleOp, *, locations: bool = True) -> str:
    """The module as text that parses back; with locations a later pass makes the same `.loc` lines from it."""
    from xdsl.printer import Printer

    stream = io.StringIO()
    Printer(stream, print_debuginfo=locations).print_op(module)
    stream.write("\n")
    return stream.getvalue()


def fingerprint(module: ModuleOp) -> list[object]:
    """What the text of a module is made of, by reference: equal lists mean equal text, at a tenth of printing it.

    It keeps the objects alive, so that no new one can be taken for an old one.
    """
    parts: list[object] = []
    for op in module.walk():
        parts += (op, op.parent, op.location)
        parts += op.operands
        parts += op.successors
        for result in op.results:
            parts += (result.type, result.name_hint)
        for named in (op.properties, op.attributes):
            parts += named
            parts += named.values()
        for region in op.regions:
            for block in region.blocks:
                parts.append(block)
                for argument in block.args:
                    parts += (argument, argument.type, argument.name_hint, argument.location)
    return parts


class Watcher:
    """An observer that sees nothing; the others override what they want to see."""

    def begin(self, module: ModuleOp, step: Step, seconds: float) -> None: ...

    def before(self, module: ModuleOp, step: Step) -> None: ...

    def after(self, module: ModuleOp, step: Step, seconds: float) -> None: ...

    def phase(self, name: str, seconds: float) -> None: ...

    def end(self, compiled: Compiled) -> None: ...


INDEX = "index.txt"
_TITLE = "tkc dump"


@dataclass
class Dump(Watcher):
    """Writes `00-frontend.mlir`, one file for each pass that changed something, `99.ptx` and `99.json` into a folder.

    Each file begins with the command that takes it on from there. `index.txt` lists every step, those too that
    changed nothing. Files of an earlier dump in the same folder are removed, and no others.
    """

    folder: Path
    job: Job
    _last: list[object] = field(default_factory=list[object])
    _lines: list[str] = field(default_factory=list[str])

    def begin(self, module: ModuleOp, step: Step, seconds: float) -> None:
        self._clear()
        self._lines = [f"{_TITLE} of {self.job.file} for {self.job.target}"]
        self._step(module, step, seconds)

    def after(self, module: ModuleOp, step: Step, seconds: float) -> None:
        self._step(module, step, seconds)

    def end(self, compiled: Compiled) -> None:
        from tkc.backend.package import to_json

        self._write("99.ptx", compiled.ptx)
        self._write("99.json", to_json(compiled.contract, ptx_name="99.ptx", ptx=compiled.ptx))
        self._note(99, "ptx", "99.ptx 99.json", None)

    def _step(self, module: ModuleOp, step: Step, seconds: float) -> None:
        now = fingerprint(module)
        if now == self._last:
            self._note(step.place, step.name, "unchanged", seconds)
            return
        self._last = now
        name = f"{step.place:02}-{step.name}.mlir"
        passes = f"-p '{step.rest}' " if step.rest else ""
        self._write(name, f"// tkc-opt {passes}-t ptx {name}\n{ir_text(module)}")
        self._note(step.place, step.name, name, seconds)

    def _note(self, index: int, name: str, what: str, seconds: float | None) -> None:
        time = f"{seconds * 1e3:8.1f} ms" if seconds is not None else ""
        self._lines.append(f"{index:02}  {name:<24}  {what:<36}{time}".rstrip())
        self._write(INDEX, "\n".join(self._lines) + "\n")

    def _write(self, name: str, text: str) -> None:
        try:
            (self.folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise self._refused(error) from None

    def _clear(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name in _listed(self.folder / INDEX):
                (self.folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> TkcError:
        reason = (error.strerror or str(error)).lower()
        return TkcError.at("TK118", f"the dump folder {self.folder} cannot be written: {reason}")


def _listed(index: Path) -> list[str]:
    """The files of an earlier dump, by its index; nothing where there is none of ours."""
    try:
        lines = index.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return []
    if not lines or not lines[0].startswith(_TITLE):
        return []
    words = (word for line in lines[1:] for word in line.split())
    return [
        w
        for w in words
        if w[:2].isdigit() and w.endswith((".mlir", ".ptx", ".json")) and "/" not in w
    ]


@dataclass
class IrPrinter(Watcher):
    """Prints the IR before or after the passes named, or around every pass, to a stream."""

    stream: IO[str]
    ahead_of: Collection[str] = ()
    behind: Collection[str] = ()
    ahead_of_all: bool = False
    behind_all: bool = False
    locations: bool = False

    def begin(self, module: ModuleOp, step: Step, seconds: float) -> None:
        if self.behind_all or step.name in self.behind:
            self._print(module, f"after {step.name}")

    def before(self, module: ModuleOp, step: Step) -> None:
        if self.ahead_of_all or step.name in self.ahead_of:
            self._print(module, f"before {step.name}")

    def after(self, module: ModuleOp, step: Step, seconds: float) -> None:
        if self.behind_all or step.name in self.behind:
            self._print(module, f"after {step.name}")

    def _print(self, module: ModuleOp, when: str) -> None:
        self.stream.write(
            f"// -----// IR {when} //----- //\n{ir_text(module, locations=self.locations)}\n"
        )


@dataclass
class Timing(Watcher):
    """Adds up what each step took; `start_up` is the time before the run, in seconds."""

    start_up: float = 0.0
    rows: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def begin(self, module: ModuleOp, step: Step, seconds: float) -> None:
        self.rows.append((step.name, seconds))

    def after(self, module: ModuleOp, step: Step, seconds: float) -> None:
        self.rows.append((f"  {step.name}", seconds))

    def phase(self, name: str, seconds: float) -> None:
        self.rows.append((name, seconds))

    def table(self, total: float) -> str:
        """The steps in order with milliseconds and share of `total` seconds; what no step claims is `other`."""
        rows = [("start-up", self.start_up), *self.rows] if self.start_up else list(self.rows)
        rows.append(("other", max(0.0, total - sum(seconds for _, seconds in rows))))
        return _table([*rows, ("total", total)], total)


def _table(rows: Sequence[tuple[str, float]], total: float) -> str:
    width = max(len(name) for name, _ in rows)
    return "".join(
        f"{name:<{width}}  {seconds * 1e3:9.2f} ms  {100 * seconds / total if total else 0:5.1f} %\n"
        for name, seconds in rows
    )

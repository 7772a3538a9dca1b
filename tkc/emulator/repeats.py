"""Several runs of one launch: other seeds, and the strict profile beside the one that people's kernels need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.diagnostics import Severity
from tkc.emulator.parameters import arrays_in
from tkc.emulator.report import Finding, Report
from tkc.ir.isa.assumptions import PRACTICE, STRICT, WARNED, notes_on

if TYPE_CHECKING:
    from tkc.emulator.machine import Machine

Once = Callable[[int, str], "Machine"]
"""Launches with a seed under a profile."""


def repeated(once: Once, args: Sequence[Any], seeds: range, model: str) -> Report:
    """The report of a launch with each of the seeds; the arrays are left as the last one leaves them.

    Under `strict`, what `practice` finds or warns of is an error; the rest is a warning with what practice rests on.
    """
    given = [array for argument in args for array, _ in arrays_in(argument)]
    before = [np.array(array) for array in given]
    merged: Report | None = None
    for seed in seeds:
        if merged is not None:
            _restore(given, before)
        if model == STRICT:
            lenient = once(seed, PRACTICE)
            _restore(given, before)
            found = _beside(once(seed, STRICT), lenient.report)
        else:
            found = once(seed, model).report
        merged = found if merged is None else _merge(merged, found)
    assert merged is not None
    return merged


def _restore(arrays: Sequence[Any], values: Sequence[Any]) -> None:
    for array, value in zip(arrays, values, strict=True):
        if array.flags.writeable:
            array[...] = value


def _key(finding: Finding) -> tuple[str, int, tuple[str, ...]]:
    return finding.code, finding.ptx_line, tuple(a.partition(" by ")[0] for a in finding.accesses)


def _merge(first: Report, second: Report) -> Report:
    """Everything that either found, once."""
    for name in ("races", "faults", "warnings"):
        mine: list[Finding] = getattr(first, name)
        known = {_key(f) for f in mine}
        mine += [f for f in getattr(second, name) if _key(f) not in known]
    first.hang = first.hang or second.hang
    first.steps += second.steps
    if second.printed != first.printed:
        first.printed += second.printed
    first.ended = first.ended and second.ended
    return first


def _beside(machine: Machine, lenient: Report) -> Report:
    """The strict report, with a warning where practice has nothing to say."""
    report = machine.report
    known = {(f.code, f.ptx_line) for f in lenient.findings}

    def stays(finding: Finding) -> bool:
        return (finding.code, finding.ptx_line) in known or bool(_rests(machine, finding) & WARNED)

    for name in ("races", "faults"):
        mine: list[Finding] = getattr(report, name)
        kept = [f for f in mine if stays(f) or not lenient.ended]
        for finding in mine:
            if finding not in kept:
                report.warnings.append(_explained(machine, finding))
        setattr(report, name, kept)
    return report


def _explained(machine: Machine, finding: Finding) -> Finding:
    notes = notes_on(_rests(machine, finding))
    return replace(finding, severity=Severity.WARNING, notes=(*finding.notes, *notes))


def _rests(machine: Machine, finding: Finding) -> frozenset[str]:
    """The rows that practice rests on for what strict has found."""
    record = machine.record
    return frozenset(record.rests_on(finding) if record is not None else ())

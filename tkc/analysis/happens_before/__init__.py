"""Whether every pair of conflicting accesses of a program is ordered, for all trip counts and all schedules.

`check` answers for a module at the stage level (after lower-pipes and insert-fences), `redundant` for one fence of it.
Exact for loops that all roles turn equally often; what cannot be followed counts as not ordered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkc.analysis.happens_before.report import Finding as Finding

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tkc.ir.stage.ops import KernelOp


BROKEN = ("TK305", "TK306", "TK314")
"""What says that roles may wait for ever, so that no run has to."""


UNSET = "TK320"
"""What is said of values, which may not matter in a launch: `read(d) if K > 0 else 0`."""


def check(module: ModuleOp, profile: str = "practice") -> list[Finding]:
    """What nothing orders, in every kernel of a module at the stage level.

    `profile`: `practice` also assumes what shipped kernels rely on (`rules.ASSUMPTIONS`), `strict` only what a document
    or NVIDIA's formal model supports, `across` that and what shipped kernels rely on between CTAs.
    """
    from tkc.ir.stage.ops import KernelOp

    found: list[Finding] = []
    for op in module.body.block.ops:
        if isinstance(op, KernelOp):
            wrong = _of_kernel(op, profile)
            told = _of_launches(op, profile, wrong) if wrong else []
            found += [*told, *_of_runs(op, told)]
    return found


def _of_kernel(op: KernelOp, profile: str) -> list[Finding]:
    from tkc.analysis.bounds import check_bounds, check_cleared, check_written
    from tkc.analysis.happens_before.extract import program
    from tkc.analysis.happens_before.findings import findings
    from tkc.analysis.happens_before.words import follow_words
    from tkc.analysis.products import check_products

    made = program(op)
    follow_words(made)
    of_order = findings(made, profile)
    found = [*of_order]
    touched = made.accesses()
    found += [*check_bounds(touched), *check_written(touched), *check_cleared(touched)]
    ops = list(op.walk())
    found += check_products(op, ops)
    if op.clc is not None:  # few kernels take over items
        from tkc.analysis.refusals import check_refusals

        found += check_refusals(ops)
    return found


def _of_runs(op: KernelOp, told: list[Finding]) -> list[Finding]:
    """A hang that a run on small numbers shows, of the kernel as any launch runs it; not beside what says as much."""
    from tkc.analysis.hangs import finding, hang_of
    from tkc.diagnostics import Severity

    broken = [f for f in told if f.code in BROKEN and f.severity is Severity.ERROR]
    if not all("cannot be followed" in f.message for f in broken):
        return []
    hang = hang_of(op)
    warned = any(f.code == "TK314" for f in told)  # that roles turn as often is left to the launch
    return [] if hang is None or (hang.alone and warned) else [finding(hang)]


def _of_launches(op: KernelOp, profile: str, wrong: list[Finding]) -> list[Finding]:
    """What is wrong in some kind of launch, where the kernel's conditions are those of a launch: what is found of all
    launches at once may be that these are not told apart."""
    from dataclasses import replace

    from tkc.analysis.happens_before.launches import kinds
    from tkc.ir.locations import location_of

    def key(finding: Finding) -> object:
        ops = finding.first, finding.second
        return finding.code, *(location_of(at) if hasattr(at, "location") else None for at in ops)

    of_values = {key(f) for f in wrong if f.code == UNSET}
    found: dict[object, tuple[Finding, list[str]]] = {}
    words: list[str] = []
    for so, kernel in kinds(op):
        words.append(so)
        for finding in _of_kernel(kernel, profile):
            if finding.code != UNSET or key(finding) in of_values:
                found.setdefault((finding.message, key(finding)), (finding, []))[1].append(so)
    if not words:
        return wrong
    return [
        finding
        if len(where) == len(words)
        else replace(finding, message=f"{finding.message}, where {' or '.join(where)}")
        for finding, where in found.values()
    ]

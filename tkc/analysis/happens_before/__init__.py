"""Whether every pair of conflicting accesses of a program is ordered, for all trip counts and all schedules.

`check` answers for a module at the stage level (after lower-pipes and insert-fences), `redundant` for one fence of it.
Exact for loops that all roles turn equally often; what cannot be followed counts as not ordered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkc.analysis.happens_before.report import Finding as Finding

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


BROKEN = ("TK305", "TK306", "TK314")
"""What says that roles may wait for ever, so that no run has to."""


def check(module: ModuleOp, profile: str = "practice") -> list[Finding]:
    """What nothing orders, in every kernel of a module at the stage level.

    `profile`: `practice` also assumes what shipped kernels rely on (`rules.ASSUMPTIONS`), `strict` only what a document
    or NVIDIA's formal model supports, `across` that and what shipped kernels rely on between CTAs.
    """
    from tkc.analysis.bounds import check_bounds, check_cleared, check_written
    from tkc.analysis.hangs import finding, hang_of
    from tkc.analysis.happens_before.extract import program
    from tkc.analysis.happens_before.findings import findings
    from tkc.analysis.happens_before.words import follow_words
    from tkc.analysis.products import check_products
    from tkc.diagnostics import Severity
    from tkc.ir.stage.ops import KernelOp

    found: list[Finding] = []
    for op in module.body.block.ops:
        if isinstance(op, KernelOp):
            made = program(op)
            follow_words(made)
            of_order = findings(made, profile)
            found += of_order
            broken = [f for f in of_order if f.code in BROKEN and f.severity is Severity.ERROR]
            if all(
                "cannot be followed" in f.message for f in broken
            ):  # a run may show what is wrong
                hang = hang_of(op)
                warned = any(
                    f.code == "TK314" for f in of_order
                )  # that roles turn as often is left to the launch
                if hang is not None and not (hang.alone and warned):
                    found.append(finding(hang))
            found += [*check_bounds(made), *check_written(made), *check_cleared(made)]
            found += check_products(op)
            if op.clc is not None:  # few kernels take over items
                from tkc.analysis.refusals import check_refusals

                found += check_refusals(op)
    return found

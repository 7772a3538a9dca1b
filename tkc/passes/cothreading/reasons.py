"""What is said of copies of block scales: that they moved to the products, or why not."""

from __future__ import annotations

from xdsl.ir import Operation

from tkc.diagnostics import Diagnostic, Severity
from tkc.ir.locations import location_of


class Stays(Exception):
    """Why a copy may not move."""


def remark(subject: str, told: str, at: Operation) -> Diagnostic:
    """`subject` are the copies."""
    return Diagnostic("TK222", f"{subject} {told}", location_of(at), Severity.REMARK)

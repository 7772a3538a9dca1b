"""One finding, as every part of the analysis gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tkc.analysis.happens_before.verdicts import Step
from tkc.diagnostics import Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `first` and `second` are operations (events where a program has none).

    `witness`: the smallest counts of the loop called `loop` at which the two meet; `chain` is empty unless ordered.
    """

    code: str
    message: str
    verdict: str
    first: Any
    second: Any = None
    witness: tuple[int, int] | None = None
    chain: tuple[Step, ...] = ()
    loop: str = ""
    remedy: str = ""
    roles: tuple[str, ...] = ()
    other: str = ""
    """The first access in words."""
    severity: Severity = Severity.ERROR
    fence: tuple[Any, str, bool] | None = None
    """What is missing where it is a proxy fence: beside which operation, of what space, and whether it follows it."""

"""The emulator against the recorded GPU: bit for bit, and approximate functions within the manual's error."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hardware.approximations import errors, kinds
from hardware.inputs import Words
from hardware.recorded import Recorded, disagreements, emulated, launches

from tkc.diagnostics import TkcError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tkc.emulator.machine") is None, reason="there is no emulator here"
)

CASES = [r for r in launches() if r.launch.get("emulate", ()) is not None]
"""All but those that wait by the clock."""


def near(r: Recorded, found: Words) -> list[str]:
    """Which approximate results are further off than they may be, or of another sort than the GPU's."""
    kept = r.kept()
    table = kept["head"] if "head" in kept else kept["whole"].reshape(len(r.rows), -1)
    threads = r.launch["block"][0] * min(r.launch["emulate"]["grid"][0], r.launch["grid"][0])
    columns = min(table.shape[1], threads)
    inputs = r.inputs()
    given = [inputs[name][:columns] for name in "ab" if name in inputs]
    wrong = []
    for row, label in enumerate(r.rows):
        gpu = np.ascontiguousarray(table[row, :columns])
        ours = np.ascontiguousarray(found.reshape(len(r.rows), -1)[row, :columns])
        off, _ = errors(label, given, ours)
        if off.max() > 1:
            at = int(off.argmax())
            wrong.append(f"{label}[{at}]: {off.max():.3f} of the allowed error")
        other = np.flatnonzero(kinds(gpu, label) != kinds(ours, label))
        if len(other):
            wrong.append(
                f"{label}{other[:6].tolist()}: zero, infinity or NaN where the GPU has not"
            )
    return wrong


def compare(r: Recorded, whole: bool) -> None:
    if not r.ran:
        # what the GPU refuses or stops at, the emulator refuses or stops at too
        try:
            _, report = emulated(r)
        except TkcError:
            return
        assert not report.clean, f"the GPU says {r.outcome}"
        return
    found, report = emulated(r, whole)
    assert not report.findings, str(report.findings[0])
    if "function" in r.launch:
        wrong = near(r, found["out"])
    else:
        wrong = [w for name, words in found.items() for w in disagreements(r, name, words, whole)]
    assert not wrong, f"{len(wrong)} words: " + "; ".join(wrong[:8])


@pytest.mark.parametrize("r", CASES, ids=lambda r: r.name)
def test_the_emulator_does_what_the_gpu_did(r: Recorded) -> None:
    compare(r, whole=False)


ASYNCHRONOUS = (
    "bulk_",
    "cluster_",
    "cp_async",
    "cta_",
    "mbarrier_",
    "tensormap_",
    "tma_",
    "wgmma_tiles",
)
SOME = [r for r in CASES if r.ran and r.program.startswith(ASYNCHRONOUS)][::4]


@pytest.mark.parametrize("schedule", ["lazy", "random"])
@pytest.mark.parametrize("r", SOME, ids=lambda r: r.name)
def test_the_order_of_asynchronous_work_changes_nothing(
    r: Recorded, schedule: str, seed: int
) -> None:
    found, report = emulated(r, schedule=schedule, seed=seed)
    assert not report.findings, str(report.findings[0])
    wrong = [w for name, words in found.items() for w in disagreements(r, name, words)]
    assert not wrong, f"{len(wrong)} words: " + "; ".join(wrong[:8])


@pytest.mark.soak
@pytest.mark.parametrize("r", [r for r in CASES if r.launch.get("emulate")], ids=lambda r: r.name)
def test_the_emulator_does_what_the_gpu_did_with_a_million(r: Recorded) -> None:
    compare(r, whole=True)

"""Recorded approximate functions are as near to the truth as the manual says."""

from __future__ import annotations

import numpy as np
import pytest
from hardware.approximations import errors
from hardware.recorded import Recorded, launches

CASES = [
    (r, row)
    for r in launches("approximate_f32", "approximate_f64", "approximate_half")
    for row in range(len(r.rows))
]


@pytest.mark.parametrize(
    ("r", "row"), CASES, ids=lambda v: str(v) if isinstance(v, int) else v.name
)
def test_errors_are_within_the_stated_bound(r: Recorded, row: int) -> None:
    kept, label = r.kept(), r.rows[row]
    table = kept["head"] if "head" in kept else kept["whole"].reshape(len(r.rows), -1)
    columns = table.shape[1]
    inputs = r.inputs()
    given = [inputs[name][:columns] for name in "ab" if name in inputs]
    off, fine = errors(label, given, np.ascontiguousarray(table[row]))
    assert fine.sum() > columns // 20
    assert off.max() <= 1, f"{label}: {off.max():.3f} of the bound"

"""How far a rounded result may be from the exact one."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def allowed(exact: Array, dtype: Any, bound: float) -> float:
    """The norm of the error that a result of `dtype` may have: `bound` times that of the exact one, in float64; or what
    rounding the exact one costs, which of a handful of elements may be more (up to 2^-8 of each in bf16)."""
    cost = np.linalg.norm(exact.astype(dtype).astype(np.float64) - exact)
    return float(max(bound * (np.linalg.norm(exact) or 1), 1.001 * cost))

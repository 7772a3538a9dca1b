"""How far results are from what is expected: `--expect` of `tkc run` and `tkc emulate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tkc.arguments import load, load_list, values_of
from tkc.diagnostics import Collector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True)
class Comparison:
    """How far a result is from the expected one: `error` is relative, in the Frobenius norm."""

    error: float
    worst: float
    """The largest absolute difference, at index `at`."""
    at: tuple[int, ...]
    strangers: int
    """Elements that are NaN or infinite in one array and not so in the other."""

    def within(self, rtol: float) -> bool:
        return self.strangers == 0 and self.error <= rtol


def compare(found: Array, expected: Array) -> Comparison:
    """Compares two arrays of one shape in float64; equal NaNs and infinities count as equal."""
    import numpy as np

    a, b = (np.asarray(x).astype(np.float64) for x in (found, expected))
    if not a.size:
        return Comparison(0.0, 0.0, (), 0)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    strange = ~(np.isfinite(a) & np.isfinite(b)) & ~same
    difference = np.where(same | strange, 0.0, a - np.where(np.isfinite(b), b, 0.0))
    place = np.unravel_index(int(np.argmax(np.abs(difference))), a.shape)
    if strange.any():
        place = np.unravel_index(int(np.argmax(strange)), a.shape)
    norm = float(np.linalg.norm(np.where(np.isfinite(b), b, 0.0)))
    gap = float(np.linalg.norm(difference))
    error = gap / norm if norm else (0.0 if gap == 0 else float("inf"))
    return Comparison(
        error, float(np.abs(difference).max()), tuple(int(i) for i in place), int(strange.sum())
    )


def check_expected(
    outputs: Mapping[str, tuple[Array | list[Array], str]],
    expected: Mapping[str, str],
    rtol: float,
) -> list[str]:
    """Compares outputs (an array or a list of such, dtype) with files: a sentence for each, or TkcError (TK413) with
    all that differ; of a list the array that differs most."""
    found = Collector()
    said: list[str] = []
    for name, path in expected.items():
        value, dtype = outputs[name]
        if isinstance(value, list):
            text, good = _judge_list(name, value, dtype, path, rtol)
        else:
            text, good, _ = _judge(name, value, load(path, dtype), dtype, path, rtol)
        if good:
            said.append(text)
        else:
            found.error("TK413", text)
    found.stop_on_errors()
    return said


def _judge(
    name: str, array: Array, wanted: Array, dtype: str, path: str, rtol: float
) -> tuple[str, bool, float]:
    """(what is said, whether it is near enough, how far it is: more for worse)."""
    values, wanted = values_of(array, dtype), values_of(wanted, dtype)
    if values.shape != wanted.shape:
        text = f"{name} has shape {values.shape}, {path} has {wanted.shape}"
        return text, False, float("inf")
    difference = compare(values, wanted)
    text = f"{name}: relative error {difference.error:.3g}"
    if difference.within(rtol):
        return f"{text} (<= {rtol:g})", True, difference.error
    at = ", ".join(map(str, difference.at))
    strangers = difference.strangers
    more = f", {strangers} elements NaN or infinite in one only" if strangers else ""
    text += (
        f" > {rtol:g}; worst at [{at}]: {values[difference.at]} for {wanted[difference.at]}{more}"
    )
    return text, False, float("inf") if strangers else difference.error


def _judge_list(
    name: str, arrays: list[Array], dtype: str, path: str, rtol: float
) -> tuple[str, bool]:
    wanted = load_list(path, dtype)
    if len(wanted) != len(arrays):
        return f"{name} has {len(arrays)} arrays, {path} has {len(wanted)}", False
    judged = [
        _judge(f"{name}[{i}]", array, its, dtype, path, rtol)
        for i, (array, its) in enumerate(zip(arrays, wanted, strict=True))
    ]
    bad = [one for one in judged if not one[1]]
    if bad:
        more = f"; {len(bad)} of {len(arrays)} arrays differ" if len(arrays) > 1 else ""
        return max(bad, key=lambda one: one[2])[0] + more, False
    worst = max((error for _, _, error in judged), default=0.0)
    return f"{name}: relative error at most {worst:.3g} (<= {rtol:g}) in {len(arrays)} arrays", True

"""Elements of 8 bits, numbers of u32 and i64, arguments of all scalar types: in the emulator, beside NumPy."""

from __future__ import annotations

import number_programs
import numpy as np
import pytest
from number_programs import Case

import tkc

SLICES = (
    "elements_e4m3 sm_100a", "elements_s8 sm_90a", "elements_u32 sm_90a", "numbers sm_90a",
    "vectors_u8 sm_90a", "turned_e4m3 sm_90a",
)  # fmt: skip
REST = tuple(
    f"{name} {target}"
    for name in number_programs.cases(np.random.default_rng(0))
    if not name.startswith("converted")  # test_integer_tiles
    for target in ("sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_107a", "sm_107f")
    if f"{name} {target}" not in SLICES
    if name not in ("turned_s8", "turned_u8")
    or target in ("sm_90a", "sm_100a")  # products of integers
)


def right(name: str, target: str, seed: int) -> None:
    case: Case = number_programs.cases(np.random.default_rng(seed))[name]
    kernel = tkc.compile(case.text, target=target)
    kernel.cubin()
    report = kernel.emulate(*case.arguments, sm_count=1, schedule="random", seed=seed)
    assert not report.findings, "\n".join(map(str, report.findings))
    for at, exact in case.exact.items():
        made = case.arguments[at]
        assert np.array_equal(made.view(np.uint8), exact.view(np.uint8)), (at, made, exact)


@pytest.mark.parametrize("which", SLICES)
def test_numbers(which: str, seed: int) -> None:
    right(*which.split(), seed)


@pytest.mark.soak
@pytest.mark.parametrize("which", REST)
def test_numbers_of_all_targets(which: str, seed: int) -> None:
    right(*which.split(), seed)


@pytest.mark.parametrize(
    ("argument", "value", "told"),
    [("u32", -1, "does not fit u32"), ("i64", 0.5, "expected an integer"), ("f16", 1e6, "does not fit f16")],
)  # fmt: skip
def test_an_argument_that_does_not_fit_is_refused(argument: str, value: float, told: str) -> None:
    text = f"""
kernel one(Y: global[f32, N], x: {argument}):
    launch persistent
    schedule work: j in tiles(N)
    role all, warps 1:
        for j in work:
            if lane == 0: Y[j] <- x
"""
    with pytest.raises(tkc.TkcError, match=told):
        tkc.compile(text, target="sm_90").emulate(np.zeros(3, np.float32), value)

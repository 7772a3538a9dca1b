"""The driver's structures as cuda.h lays them out, and a machine without a driver."""

from __future__ import annotations

import ctypes

import pytest

from tkc.backend import cuda
from tkc.diagnostics import TkcError


def test_launch_structures_have_the_sizes_of_cuda_h() -> None:
    assert ctypes.sizeof(cuda.LaunchAttribute) == 72
    assert cuda.LaunchAttribute.x.offset == 8
    assert ctypes.sizeof(cuda.LaunchConfig) == 56
    assert [
        getattr(cuda.LaunchConfig, f).offset
        for f in ("block", "shared_bytes", "stream", "attributes", "count")
    ] == [
        12,
        24,
        32,
        40,
        48,
    ]


def test_config_keeps_its_attributes() -> None:
    made = cuda.config(
        (4, 5, 6), (128, 1, 1), 1024, 7, [(cuda.CLUSTER, (2, 1, 1)), (cuda.DEPENDENT, (1,))]
    )
    assert (tuple(made.grid), tuple(made.block), made.shared_bytes, made.stream, made.count) == (
        (4, 5, 6),
        (128, 1, 1),
        1024,
        7,
        2,
    )
    first, second = made.attributes[0], made.attributes[1]
    assert (first.id, first.x, first.y, first.z) == (4, 2, 1, 1)
    assert (second.id, second.x) == (6, 1)
    none = cuda.config((1, 1, 1), (1, 1, 1), 0, 0, [])
    assert none.count == 0


def test_parameters_point_at_their_values() -> None:
    values = [cuda.address(0x1234), cuda.buffer(b"abcd")]
    array = cuda.params(values)
    assert ctypes.string_at(array[0], 8) == (0x1234).to_bytes(8, "little")
    assert ctypes.string_at(array[1], 4) == b"abcd"


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(
        TkcError, match=r"no CUDA driver here: libcuda\.so\.1 cannot be loaded \[TK409\]"
    ):
        cuda.driver.__wrapped__()

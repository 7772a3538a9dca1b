"""Arrays of the host on the GPU and back, against a driver that keeps its memory here."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest
from backend.fakes import HostMemory

from tkc.backend.cuda import Driver
from tkc.backend.device_memory import DeviceArray, on_device, target_of_device
from tkc.diagnostics import TkcError


class _Driver:
    """What `device_memory` asks of a driver."""

    def __init__(self, capability: tuple[int, int] = (9, 0)) -> None:
        self.lib = HostMemory()
        self._capability = capability

    def device_count(self) -> int:
        return 1

    def capability(self, device: int) -> tuple[int, int]:
        return self._capability

    def name(self, device: int) -> str:
        return "a GPU"


def driver(*arguments: Any) -> Driver:
    return cast("Driver", _Driver(*arguments))


@pytest.mark.parametrize(
    "dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.uint8, np.bool_]
)
def test_what_goes_there_comes_back(dtype: Any) -> None:
    host = (np.arange(24).reshape(4, 6) % 2).astype(dtype)
    array = DeviceArray(driver(), host)
    back = array.to_host()
    assert back.dtype == host.dtype
    assert back.tobytes() == host.tobytes()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_the_order_of_axes_is_kept(order: tuple[int, ...]) -> None:
    whole = np.random.default_rng().random((4, 6, 10)).transpose(order)
    for host in (whole, whole[::2, 1:, ::3]):
        array = DeviceArray(driver(), host)
        told = array.__cuda_array_interface__["strides"]
        strides = told or np.empty(host.shape).strides
        assert np.argsort(strides).tolist() == np.argsort(host.strides).tolist()
        assert max(s * n for s, n in zip(strides, host.shape, strict=True)) == host.nbytes
        assert np.array_equal(array.to_host(), host)


def test_the_interface_tells_shape_address_and_bits() -> None:
    array = DeviceArray(driver(), np.zeros((2, 3), ml_dtypes.bfloat16))
    told = array.__cuda_array_interface__
    assert (told["shape"], told["typestr"], told["data"]) == ((2, 3), "<V2", (array.address, False))


def test_an_empty_array_has_an_address() -> None:
    array = DeviceArray(driver(), np.zeros((0, 3), np.float32))
    assert array.address
    assert array.to_host().shape == (0, 3)


def test_memory_is_given_back_once_and_a_second_time_is_no_error() -> None:
    made = _Driver()
    array = DeviceArray(cast("Driver", made), np.zeros(3, np.float32))
    array.free()
    assert not made.lib.held
    array.free()


def test_no_memory_is_said() -> None:
    made = _Driver()
    made.lib.full = True
    with pytest.raises(TkcError, match="cuMemAlloc_v2 failed: out of memory"):
        DeviceArray(cast("Driver", made), np.zeros(3, np.float32))


def test_a_device_that_is_not_there_is_said() -> None:
    with (
        pytest.raises(TkcError, match="no GPU 1; there are 1, counted from 0"),
        on_device(driver(), 1),
    ):
        pass


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ((9, 0), "sm_90a"),
        ((10, 0), "sm_100a"),
        ((10, 3), "sm_103a"),
        ((10, 7), "sm_107a"),
        ((12, 0), "sm_120a"),
    ],
)
def test_the_target_of_a_gpu_has_most_of_what_it_can(
    capability: tuple[int, int], name: str
) -> None:
    assert target_of_device(driver(capability), 0).name == name


def test_a_gpu_too_old_is_said() -> None:
    with pytest.raises(TkcError, match=r"no target for the a GPU, compute capability 8\.0"):
        target_of_device(driver((8, 0)), 0)

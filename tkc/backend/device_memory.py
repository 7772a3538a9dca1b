"""Arrays of the host on the GPU and back, for commands that have no array library at hand."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tkc.backend.cuda import Driver, DriverError
from tkc.diagnostics import TkcError
from tkc.ir.isa.targets import TARGETS, Target, runs_on

if TYPE_CHECKING:
    import numpy as np

_ALIGNMENT = 256
"""Bytes; what cuMemAlloc gives, and every tensor map asks for less."""


class DeviceArray:
    """An array without gaps in GPU memory, made from a NumPy array; speaks the CUDA array interface.

    Its axes lie in the order of the host's, of which any may be the contiguous one.
    """

    def __init__(self, driver: Driver, host: np.ndarray[Any, Any]) -> None:
        host = host.copy("K")  # a view with gaps becomes an array without
        self._driver = driver
        self._host = host
        self.address = _allocate(driver, max(host.nbytes, _ALIGNMENT))
        if host.nbytes:
            source = ctypes.c_void_p(host.ctypes.data)
            _call(
                driver,
                "cuMemcpyHtoD_v2",
                ctypes.c_uint64(self.address),
                source,
                ctypes.c_size_t(host.nbytes),
            )

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        dtype = self._host.dtype
        # The interface has no name for bf16 and fp8: they pass as their bits.
        kind = dtype.str if dtype.kind in "iufb" else f"<V{dtype.itemsize}"
        return {
            "shape": self._host.shape,
            "typestr": kind,
            "data": (self.address, False),
            "strides": None if self._host.flags.c_contiguous else self._host.strides,
            "version": 3,
        }

    def to_host(self) -> np.ndarray[Any, Any]:
        """A copy of what the memory holds now, after all work on the default stream."""
        import numpy as np

        result = np.empty_like(self._host)
        if result.nbytes:
            target = ctypes.c_void_p(result.ctypes.data)
            _call(
                self._driver,
                "cuMemcpyDtoH_v2",
                target,
                ctypes.c_uint64(self.address),
                ctypes.c_size_t(result.nbytes),
            )
        return result

    def free(self) -> None:
        """Gives the memory back. A kernel that failed makes this fail too, and has been reported already."""
        self._driver.lib.cuMemFree_v2(ctypes.c_uint64(self.address))


def _call(driver: Driver, name: str, *arguments: Any) -> None:
    status = getattr(driver.lib, name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        driver.lib.cuGetErrorString(status, ctypes.byref(text))
        raise TkcError.at("TK410", f"{name} failed: {(text.value or b'unknown error').decode()}")


def _allocate(driver: Driver, size: int) -> int:
    address = ctypes.c_uint64()
    _call(driver, "cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    return address.value


@contextmanager
def on_device(driver: Driver, device: int) -> Generator[None]:
    """Makes a device the current one; raises TkcError (TK409) where there is no such device."""
    count = driver.device_count()
    if not 0 <= device < count:
        raise TkcError.at("TK409", f"no GPU {device}; there are {count}, counted from 0")
    with driver.context(driver.primary(device)):
        yield


def synchronize(driver: Driver, what: str) -> None:
    """Waits for all work on the default stream; what a kernel left behind comes out as TkcError (TK410)."""
    try:
        driver.synchronize(0)
    except DriverError as error:
        raise TkcError.at("TK410", f"{what} failed: {error.name} ({error.text})") from None


def target_of_device(driver: Driver, device: int) -> Target:
    """The target with most features whose text runs on a device; raises TkcError (TK408) where no target does."""
    major, minor = driver.capability(device)
    fitting = [t for t in TARGETS.values() if runs_on(t, (major, minor))]
    if not fitting:
        raise TkcError.at(
            "TK408", f"no target for the {driver.name(device)}, compute capability {major}.{minor}"
        )
    return max(fitting, key=lambda t: (len(t.features), t.capability))

"""The CUDA driver, as much of it as loading and launching take, through ctypes: libcuda and nothing else is needed.

Raises DriverError with the driver's own name and text; the launcher says what that means for the user. `driver()`
raises TkcError TK409 where no driver or no GPU is. Structures are those of cuda.h 12.0 and later (the `_v2` calls).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import cache
from typing import Any, NamedTuple

from tkc.backend.tensormap import BoundMap
from tkc.diagnostics import TkcError
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.tensormap import FILLS, INTERLEAVES, L2_PROMOTIONS, MAP_ALIGN, MAP_BYTES


class Sent(NamedTuple):
    """Bytes on their way to the device, which must stay where they are."""

    source: Any


class DriverError(Exception):
    """`call` failed with the driver's `name` ("CUDA_ERROR_INVALID_PTX") and `text`; `log` is its assembler's."""

    def __init__(self, call: str, name: str, text: str, log: str = "") -> None:
        super().__init__(f"{call}: {name} ({text})")
        self.call, self.name, self.text, self.log = call, name, text, log


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: a value of 64 bytes, of which these attributes use the first three words."""

    _fields_ = (
        ("id", c_int),
        ("pad", c_int),
        ("x", c_uint),
        ("y", c_uint),
        ("z", c_uint),
        ("rest", c_uint * 13),
    )


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", c_uint),
    )


COOPERATIVE, CLUSTER, DEPENDENT, PREFERRED_CLUSTER = 2, 4, 6, 11
"""CUlaunchAttributeID."""


def config(
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int,
    stream: int,
    attributes: Sequence[tuple[int, Sequence[int]]],
) -> LaunchConfig:
    """A CUlaunchConfig that owns its attributes: each a CUlaunchAttributeID with one to three words."""
    array = (LaunchAttribute * max(1, len(attributes)))()
    for item, (number, words) in zip(array, attributes, strict=False):
        item.id = number
        item.x, item.y, item.z = (*words, 0, 0)[:3]
    result = LaunchConfig()
    result.grid[:] = list(grid)
    result.block[:] = list(block)
    result.shared_bytes = shared_bytes
    result.stream = stream
    result.attributes = ctypes.cast(array, ctypes.POINTER(LaunchAttribute))
    result.count = len(attributes)
    result.owner = array  # ctypes.cast does not keep it alive
    return result


_SM_COUNT, _MAJOR, _MINOR, _SHARED_OPTIN = 16, 75, 76, 97
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 8, 14
_INFO_LOG, _INFO_SIZE, _ERROR_LOG, _ERROR_SIZE, _TARGET, _VERBOSE, _LINE_INFO = (
    3,
    4,
    5,
    6,
    9,
    12,
    13,
)
"""CUdevice_attribute, CUfunction_attribute and CUjit_option."""
_ACCELERATED, _FAMILY = 0x10000, 0x20000
"""Added to a CUjit_target for the suffixes a and f."""
_LOG_BYTES = 1 << 18


class Driver:
    """libcuda, initialised. Handles are integers. Every method but `context` works in the current context."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self._devices: dict[int, int] = {}
        self._scratch: dict[int, int] = {}
        self._launch, self._get_current = (
            lib.cuLaunchKernelEx,
            lib.cuCtxGetCurrent,
        )  # on the path of every launch
        self._check("cuInit", lib.cuInit(0))

    def _check(self, call: str, status: int, log: str = "") -> None:
        if status:
            texts: list[str] = []
            for query in (self.lib.cuGetErrorName, self.lib.cuGetErrorString):
                text = c_char_p()
                query(status, byref(text))
                texts.append((text.value or b"unknown").decode())
            raise DriverError(call, texts[0], texts[1], log)

    def version(self) -> int:
        """1000 × major + 10 × minor of the newest CUDA that the driver serves."""
        value = c_int()
        self._check("cuDriverGetVersion", self.lib.cuDriverGetVersion(byref(value)))
        return value.value

    def device_count(self) -> int:
        value = c_int()
        self._check("cuDeviceGetCount", self.lib.cuDeviceGetCount(byref(value)))
        return value.value

    def attribute(self, device: int, number: int) -> int:
        value = c_int()
        self._check(
            "cuDeviceGetAttribute", self.lib.cuDeviceGetAttribute(byref(value), number, device)
        )
        return value.value

    def capability(self, device: int) -> tuple[int, int]:
        return self.attribute(device, _MAJOR), self.attribute(device, _MINOR)

    def sm_count(self, device: int) -> int:
        return self.attribute(device, _SM_COUNT)

    def max_shared_bytes(self, device: int) -> int:
        """Bytes of shared memory that one CTA may ask for."""
        return self.attribute(device, _SHARED_OPTIN)

    def name(self, device: int) -> str:
        buffer = ctypes.create_string_buffer(256)
        self._check("cuDeviceGetName", self.lib.cuDeviceGetName(buffer, 256, device))
        return buffer.value.decode()

    def current(self) -> int:
        """The current context of this thread, 0 where there is none."""
        value = c_void_p()
        self._get_current(byref(value))
        return value.value or 0

    def device_of(self, context: int) -> int:
        """The device of the current context, which is `context`."""
        device = self._devices.get(context)
        if device is None:
            value = c_int()
            self._check("cuCtxGetDevice", self.lib.cuCtxGetDevice(byref(value)))
            device = self._devices[context] = value.value
        return device

    def primary(self, device: int) -> int:
        """The primary context of a device, kept for the life of the process."""
        value = c_void_p()
        self._check(
            "cuDevicePrimaryCtxRetain", self.lib.cuDevicePrimaryCtxRetain(byref(value), device)
        )
        return value.value or 0

    @contextmanager
    def context(self, context: int) -> Generator[None]:
        """Makes `context` current for the block."""
        if self.current() == context:
            yield
            return
        self._check("cuCtxPushCurrent", self.lib.cuCtxPushCurrent_v2(c_void_p(context)))
        try:
            yield
        finally:
            self.lib.cuCtxPopCurrent_v2(byref(c_void_p()))

    def pointer_device(self, address: int) -> int | None:
        """The device whose memory holds `address`; None for memory that CUDA does not know."""
        value = c_int()
        # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        status = self.lib.cuPointerGetAttribute(byref(value), 9, ctypes.c_uint64(address))
        return None if status or value.value < 0 else value.value

    def _jit(self, extra: dict[int, int]) -> tuple[Any, Any, Any, Any, int]:
        info, error = (ctypes.create_string_buffer(_LOG_BYTES) for _ in range(2))
        options = {
            _INFO_LOG: ctypes.addressof(info),
            _INFO_SIZE: _LOG_BYTES,
            _ERROR_LOG: ctypes.addressof(error),
            _ERROR_SIZE: _LOG_BYTES,
            _LINE_INFO: 1,
            _VERBOSE: 1,
            **extra,
        }
        keys = (c_int * len(options))(*options)
        values = (c_void_p * len(options))(*options.values())
        return info, error, keys, values, len(options)

    def load(self, image: bytes) -> int:
        """Loads PTX text or a cubin into the current context; the assembler's log is in the error."""
        info, error, keys, values, count = self._jit({})
        module = c_void_p()
        status = self.lib.cuModuleLoadDataEx(byref(module), c_char_p(image), count, keys, values)
        self._check(
            "cuModuleLoadDataEx",
            status,
            (info.value + b"\n" + error.value).decode(errors="replace"),
        )
        return module.value or 0

    def link(self, ptx: str, target: str) -> tuple[bytes | None, str]:
        """Assembles in relocatable mode for any target: the cubin, or None, and the log."""
        number, suffix = int(target[3:].rstrip("af")), target[-1]
        jit_target = number + {"a": _ACCELERATED, "f": _FAMILY}.get(suffix, 0)
        info, error, keys, values, count = self._jit({_TARGET: jit_target})
        state, cubin, size = c_void_p(), c_void_p(), c_size_t()
        data = ptx.encode() + b"\0"
        with self.context(self.current() or self.primary(0)):
            self._check("cuLinkCreate", self.lib.cuLinkCreate_v2(count, keys, values, byref(state)))
            try:
                # CU_JIT_INPUT_PTX
                status = self.lib.cuLinkAddData_v2(
                    state,
                    1,
                    c_char_p(data),
                    c_size_t(len(data)),
                    c_char_p(b"kernel.ptx"),
                    0,
                    None,
                    None,
                )
                status = status or self.lib.cuLinkComplete(state, byref(cubin), byref(size))
                log = (info.value + b"\n" + error.value).decode(errors="replace")
                return (None if status else ctypes.string_at(cubin.value or 0, size.value)), log
            finally:
                self.lib.cuLinkDestroy(state)

    def function(self, module: int, entry: str) -> int:
        value = c_void_p()
        status = self.lib.cuModuleGetFunction(byref(value), c_void_p(module), entry.encode())
        self._check("cuModuleGetFunction", status)
        return value.value or 0

    def prepare(self, function: int, shared_bytes: int, cluster_ctas: int) -> None:
        """Allows a function its dynamic shared memory and, above 8 CTAs, its cluster."""
        if shared_bytes:
            status = self.lib.cuFuncSetAttribute(
                c_void_p(function), _MAX_DYNAMIC_SHARED, shared_bytes
            )
            self._check("cuFuncSetAttribute", status)
        if cluster_ctas > 8:
            self._check(
                "cuFuncSetAttribute",
                self.lib.cuFuncSetAttribute(c_void_p(function), _NON_PORTABLE_CLUSTER, 1),
            )

    def max_clusters(self, function: int, launch: LaunchConfig, device: int) -> int:
        """Clusters (single CTAs where the launch has none) that are resident at once on the whole device."""
        value = c_int()
        if launch.count and any(launch.attributes[i].id == CLUSTER for i in range(launch.count)):
            status = self.lib.cuOccupancyMaxActiveClusters(
                byref(value), c_void_p(function), byref(launch)
            )
            self._check("cuOccupancyMaxActiveClusters", status)
            return value.value
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        status = self.lib.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            byref(value), c_void_p(function), threads, c_size_t(launch.shared_bytes)
        )
        self._check("cuOccupancyMaxActiveBlocksPerMultiprocessor", status)
        return value.value * self.sm_count(device)

    def encode(self, bound: BoundMap) -> Any:
        """The 128 bytes of a tensor map, as a ctypes buffer aligned to 64."""
        tiled, rank = bound.tiled, bound.tiled.rank
        room = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGN)
        start = -ctypes.addressof(room) % MAP_ALIGN
        result = (ctypes.c_char * MAP_BYTES).from_buffer(room, start)
        status = self.lib.cuTensorMapEncodeTiled(
            byref(result),
            tiled.type.driver,
            rank,
            c_void_p(tiled.address),
            (ctypes.c_uint64 * rank)(*tiled.sizes),
            (ctypes.c_uint64 * max(1, rank - 1))(*tiled.strides),
            (ctypes.c_uint32 * rank)(*tiled.box),
            (ctypes.c_uint32 * rank)(*tiled.element_strides),
            INTERLEAVES[tiled.interleave],
            SWIZZLES[tiled.swizzle].driver,
            L2_PROMOTIONS[bound.l2_promotion],
            FILLS[tiled.fill],
        )
        self._check("cuTensorMapEncodeTiled", status)
        return result

    def launch(self, launch: LaunchConfig, function: c_void_p, params: Any) -> None:
        status = self._launch(byref(launch), function, params, None)
        if status:
            self._check("cuLaunchKernelEx", status)

    def zero(self, address: int, pitch: int, width: int, rows: int, stream: int) -> None:
        """Zero-fills `rows` rows of `width` bytes, `pitch` apart, in stream order."""
        status = self.lib.cuMemsetD2D8Async(
            ctypes.c_uint64(address),
            c_size_t(pitch),
            0,
            c_size_t(width),
            c_size_t(rows),
            c_void_p(stream),
        )
        self._check("cuMemsetD2D8Async", status)

    def scratch(self, context: int) -> int:
        """The address of 256 bytes in the current context, for the tensor maps of arrays that have no memory."""
        if context not in self._scratch:
            value = ctypes.c_uint64()
            self._check("cuMemAlloc", self.lib.cuMemAlloc_v2(byref(value), c_size_t(256)))
            self._scratch[context] = value.value
        return self._scratch[context]

    def allocate(self, size: int) -> int:
        """The address of memory in the current context, at a multiple of 256 bytes."""
        value = ctypes.c_uint64()
        self._check("cuMemAlloc", self.lib.cuMemAlloc_v2(byref(value), c_size_t(max(1, size))))
        return value.value

    def free(self, address: int) -> None:
        """Gives memory back once all work that may use it is done; after a failed kernel there is nothing to give."""
        self.lib.cuMemFree_v2(ctypes.c_uint64(address))

    def send(self, address: int, data: bytes, stream: int) -> Sent:
        """Copies bytes to the device in the stream's order; they are kept as long as what this gives."""
        sent = Sent(buffer(data))
        status = self.lib.cuMemcpyHtoDAsync_v2(
            ctypes.c_uint64(address), sent.source, c_size_t(len(data)), c_void_p(stream)
        )
        self._check("cuMemcpyHtoDAsync", status)
        return sent

    def wait(self, stream: int, earlier: int) -> None:
        """Lets `stream` go on only after the work that `earlier` holds now."""
        event = c_void_p()
        self._check(
            "cuEventCreate", self.lib.cuEventCreate(byref(event), 2)
        )  # CU_EVENT_DISABLE_TIMING
        try:
            self._check("cuEventRecord", self.lib.cuEventRecord(event, c_void_p(earlier)))
            self._check("cuStreamWaitEvent", self.lib.cuStreamWaitEvent(c_void_p(stream), event, 0))
        finally:
            self.lib.cuEventDestroy_v2(event)

    def synchronize(self, stream: int) -> None:
        self._check("cuStreamSynchronize", self.lib.cuStreamSynchronize(c_void_p(stream)))


@cache
def driver() -> Driver:
    """The driver of this machine, initialised once. Raises TkcError TK409."""
    try:
        lib = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise TkcError.at("TK409", "no CUDA driver here: libcuda.so.1 cannot be loaded") from None
    try:
        found = Driver(lib)
        count = found.device_count()
    except DriverError as error:
        raise TkcError.at(
            "TK409", f"the CUDA driver cannot be used: {error.name} ({error.text})"
        ) from None
    if not count:
        raise TkcError.at("TK409", "the CUDA driver sees no GPU")
    return found


def params(values: Sequence[Any]) -> Any:
    """The `void **` of a launch from ctypes buffers; the caller keeps the buffers."""
    return (c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])


def buffer(data: bytes) -> Any:
    return ctypes.create_string_buffer(data, len(data))


def address(value: int) -> Any:
    return buffer(struct.pack("<Q", value))

"""Arrays, a driver and tools that are not there: what a launch would do, on a machine without a GPU."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tkc.backend.arrays import ITEM_BYTES, packed
from tkc.backend.cuda import DriverError, Sent
from tkc.backend.tensormap import BoundMap

TYPESTR = {
    "f32": "<f4",
    "f16": "<f2",
    "i32": "<i4",
    "i64": "<i8",
    "u8": "|u1",
    "u16": "<u2",
    "raw16": "|V2",
}
DLPACK = {
    "f32": (2, 32),
    "bf16": (4, 16),
    "i32": (0, 32),
    "f64": (2, 64),
    "u8": (1, 8),
    "e4m3": (10, 8),
}


@dataclass
class InterfaceArray:
    """An array by the CUDA array interface; strides in bytes, None for row-major."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    address: int = 0x7F0000000000
    strides: tuple[int, ...] | None = None
    readonly: bool = False
    stream: int | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": TYPESTR[self.dtype],
            "data": (self.address, self.readonly),
            "strides": self.strides,
            "stream": self.stream,
            "version": 3,
        }


class _Device(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))


@dataclass
class DLPackArray:
    """An array by DLPack; strides in elements, None for row-major. Remembers the streams that it was asked for."""

    shape: tuple[int, ...]
    dtype: str = "bf16"
    address: int = 0x7F0000000000
    strides: tuple[int, ...] | None = None
    device: tuple[int, int] = (2, 0)
    offset: int = 0
    lanes: int = 1
    code: tuple[int, int] | None = None
    streams: list[int | None] = field(default_factory=list)
    _keep: list[Any] = field(default_factory=list)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.streams.append(stream)
        n = len(self.shape)
        shape = (ctypes.c_int64 * n)(*self.shape)
        strides = (ctypes.c_int64 * n)(*self.strides) if self.strides is not None else None
        code, bits = self.code or DLPACK[self.dtype]
        tensor = _Tensor(self.address, _Device(*self.device), n, code, bits, self.lanes)
        tensor.shape = shape
        if strides is not None:
            tensor.strides = strides
        tensor.byte_offset = self.offset
        self._keep.append((tensor, shape, strides))
        return _new_capsule(ctypes.addressof(tensor), b"dltensor", None)


def bf16(*shape: int, **more: Any) -> DLPackArray:
    return DLPackArray(shape, "bf16", **more)


def f32(*shape: int, **more: Any) -> InterfaceArray:
    return InterfaceArray(shape, "f32", **more)


def row_major(shape: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """Byte strides."""
    return packed(shape, ITEM_BYTES[dtype])


@dataclass
class FakeDriver:
    """Answers like one GPU and remembers what was asked of it; `fail` maps a method's name to what it raises."""

    sms: int = 132
    capabilities: tuple[tuple[int, int], ...] = ((9, 0),)
    clusters: int = 66
    cuda: int = 13000
    context_now: int = 0
    fail: dict[str, list[DriverError]] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)

    def _do(self, name: str, *details: Any) -> None:
        self.calls.append((name, *details))
        if self.fail.get(name):
            raise self.fail[name].pop(0)

    def count(self, name: str) -> int:
        return sum(c[0] == name for c in self.calls)

    def version(self) -> int:
        return self.cuda

    def device_count(self) -> int:
        return len(self.capabilities)

    def capability(self, device: int) -> tuple[int, int]:
        return self.capabilities[device]

    def name(self, device: int) -> str:
        return f"Fake GPU {device}"

    def sm_count(self, device: int) -> int:
        return self.sms

    def max_shared_bytes(self, device: int) -> int:
        return 232448

    def current(self) -> int:
        return self.context_now

    def device_of(self, context: int) -> int:
        return context - 100

    def primary(self, device: int) -> int:
        return 100 + device

    @contextmanager
    def context(self, context: int) -> Iterator[None]:
        before, self.context_now = self.context_now, context
        try:
            yield
        finally:
            self.context_now = before

    def pointer_device(self, address: int) -> int | None:
        return None if address < 0x100 else 0

    def load(self, image: bytes) -> int:
        self._do("load", image)
        return 7

    def function(self, module: int, entry: str) -> int:
        self._do("function", module, entry)
        return 8

    def prepare(self, function: int, shared_bytes: int, cluster_ctas: int) -> None:
        self._do("prepare", function, shared_bytes, cluster_ctas)

    def max_clusters(self, function: int, launch: Any, device: int) -> int:
        self._do("max_clusters", function)
        return self.clusters

    def encode(self, bound: BoundMap) -> Any:
        self._do("encode", bound)
        return ctypes.create_string_buffer(128)

    def launch(self, launch: Any, function: Any, params: Any) -> None:
        attributes = {
            launch.attributes[i].id: (
                launch.attributes[i].x,
                launch.attributes[i].y,
                launch.attributes[i].z,
            )
            for i in range(launch.count)
        }
        self.launches.append(
            {
                "grid": tuple(launch.grid),
                "block": tuple(launch.block),
                "shared": launch.shared_bytes,
                "stream": launch.stream or 0,
                "attributes": attributes,
                "params": params,
                "context": self.context_now,
            }
        )
        self._do("launch")

    def zero(self, address: int, pitch: int, width: int, rows: int, stream: int) -> None:
        self._do("zero", address, pitch, width, rows, stream)

    def scratch(self, context: int) -> int:
        return 0x5000

    def allocate(self, size: int) -> int:
        self._do("allocate", size)
        return 0x900000 + 0x10000 * self.count("allocate")

    def free(self, address: int) -> None:
        self._do("free", address)

    def send(self, address: int, data: bytes, stream: int) -> Sent:
        self._do("send", address, data, stream)
        return Sent(data)

    def wait(self, stream: int, earlier: int) -> None:
        self._do("wait", stream, earlier)

    def synchronize(self, stream: int) -> None:
        self._do("synchronize", stream)


class HostMemory:
    """The calls of libcuda that move memory, on the host; `full` makes an allocation fail."""

    def __init__(self) -> None:
        self.held: dict[int, Any] = {}
        self.full = False

    def cuMemAlloc_v2(self, address: Any, size: Any) -> int:
        if self.full:
            return 2
        block = ctypes.create_string_buffer(size.value + 256)
        start = -(-ctypes.addressof(block) // 256) * 256
        self.held[start] = block
        ctypes.cast(address, ctypes.POINTER(ctypes.c_uint64))[0] = start
        return 0

    def cuMemcpyHtoD_v2(self, target: Any, source: Any, size: Any) -> int:
        ctypes.memmove(target.value, source.value, size.value)
        return 0

    def cuMemcpyDtoH_v2(self, target: Any, source: Any, size: Any) -> int:
        ctypes.memmove(target.value, source.value, size.value)
        return 0

    def cuMemFree_v2(self, address: Any) -> int:
        return 0 if self.held.pop(address.value, None) is not None else 1

    def cuGetErrorString(self, status: int, text: Any) -> int:
        ctypes.cast(text, ctypes.POINTER(ctypes.c_char_p))[0] = b"out of memory"
        return 0


def words(params: Any, sizes: Sequence[int]) -> list[bytes]:
    """What the kernel would read as its parameters, by their sizes in bytes."""
    return [ctypes.string_at(params[i], size) for i, size in enumerate(sizes)]


def shell_tool(file: Path, body: str) -> Path:
    """An executable file that the shell runs, in the place of a tool such as ptxas."""
    file.write_text(f"#!{shutil.which('sh')}\n{body}\n")
    file.chmod(0o755)
    return file

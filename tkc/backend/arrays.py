"""Arrays of any library as a base address, a shape, byte strides, a dtype and a device; no library is imported for it.

Three ways, first that fits: torch tensors and cupy arrays by their own attributes (a tenth of the time of DLPack, and
float8 works), DLPack (`__dlpack__`: jax, numba, numpy, …), `__cuda_array_interface__`. With the first, the stream of
the launch alone orders the work; a DLPack producer is told the stream and waits as it sees fit. An array on the CPU is
read too, since the emulator takes it; the launcher refuses it.

The interface has no name for bf16 and fp8, so 2-byte unsigned or void data
pass for bf16, and 1-byte data for the 8-bit formats; sub-byte formats are packed bytes always.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from tkc.diagnostics import TkcError

CPU, CUDA = "cpu", "cuda"


class View(NamedTuple):
    """`shape` in elements of `dtype`, `strides` in bytes, `device` −1 where the array does not say.

    `dtype` is a name of `ACCEPTS`' values. `stream` is a CUDA stream after whose work the data are ready, None where
    the producer has already been told or needs nothing.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    kind: str
    device: int
    readonly: bool = False
    stream: int | None = None


CONVERTED: Mapping[str, str] = {
    "bf16": "ml_dtypes.bfloat16", "f16": "numpy.float16", "f32": "numpy.float32", "tf32": "numpy.float32",
    "e4m3": "ml_dtypes.float8_e4m3fn", "e5m2": "ml_dtypes.float8_e5m2", "s8": "numpy.int8", "u8": "numpy.uint8",
    "i32": "numpy.int32", "u32": "numpy.uint32", "i64": "numpy.int64",
}  # fmt: skip
"""What NumPy calls the dtype of an argument, for messages."""


def wrong_dtype(name: str, found: str, expected: str) -> tuple[str, str | None]:
    """What to say of an array of another dtype than an argument's, and what mends it."""
    taken = ", ".join(ACCEPTS[expected])
    made = CONVERTED.get(expected)
    return (
        f"{name} holds {found}; expected {expected} (taken: {taken})",
        f"`{name.partition('[')[0]}.astype({made})` in NumPy" if made else None,
    )


ITEM_BYTES: Mapping[str, int] = {
    "bool": 1, "i8": 1, "u8": 1, "raw8": 1, "e4m3": 1, "e5m2": 1, "ue8m0": 1,
    "i16": 2, "u16": 2, "raw16": 2, "f16": 2, "bf16": 2,
    "i32": 4, "u32": 4, "f32": 4,
    "i64": 8, "u64": 8, "f64": 8,
}  # fmt: skip
"""What an array may hold, and the bytes of one element."""

_BYTE = ("u8", "raw8")

ACCEPTS: Mapping[str, tuple[str, ...]] = {
    "bf16": ("bf16", "u16", "raw16"),
    "f16": ("f16",),
    "f32": ("f32",),
    "tf32": ("f32",),
    "e4m3": ("e4m3", *_BYTE),
    "e5m2": ("e5m2", *_BYTE),
    "e3m2": _BYTE,
    "e2m3": _BYTE,
    "e2m1": _BYTE,
    "ue8m0": ("ue8m0", *_BYTE),
    "ue4m3": ("e4m3", *_BYTE),
    "ue5m3": _BYTE,
    "s8": ("i8",),
    "u8": ("u8",),
    "i32": ("i32",),
    "u32": ("u32",),
    "i64": ("i64",),
    "bool": ("bool", "u8"),
}
"""dtype of the language → array dtypes that carry it."""


def view(array: Any, name: str, stream: int = 0) -> View:
    """What `array` is, for a consumer that works on `stream` (0: the legacy default stream).

    Raises TkcError TK403 where the dtype has no name here, TK404 where it is no array.
    """
    library = library_of(array)
    if library is not None:
        return library.view(array, name)
    kind = cast("type[Any]", type(array))
    if hasattr(array, "__dlpack__"):
        found = _from_dlpack(array, name, stream)
        if found is not None:
            return found
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_interface(interface, name, CUDA)
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        return _from_interface(interface, name, CPU, getattr(array, "dtype", None))
    raise TkcError.at(
        "TK404",
        f"{name}: expected an array with DLPack or the CUDA array interface,"
        f" found {kind.__module__}.{kind.__qualname__}",
    )


class Library(NamedTuple):
    """An array library with a shorter way than a protocol.

    `mark` is a hashable value that is equal for two arrays only if their views are: it costs a fraction of one.
    `stream` is the library's current stream on an array's device.
    """

    view: Callable[[Any, str], View]
    mark: Callable[[Any], Any]
    stream: Callable[[Any], int]


_libraries: dict[type, Library | None] = {}


def library_of(array: Any) -> Library | None:
    """The library that an array's class belongs to, by its name: neither is imported."""
    kind = cast("type[Any]", type(array))
    try:
        return _libraries[kind]
    except KeyError:
        found = None
        if kind.__module__.startswith("torch") and hasattr(array, "data_ptr"):
            found = Library(_torch_view, _torch_mark, _torch_stream)
        elif kind.__module__.startswith("cupy") and hasattr(array, "data"):
            found = Library(_cupy_view, _cupy_mark, _cupy_stream)
        return _libraries.setdefault(kind, found)


def mark(array: Any, name: str, stream: int = 0) -> Any:
    """A hashable value that is equal for two arrays only if their views are."""
    library = library_of(array)
    return library.mark(array) if library is not None else view(array, name, stream)


_named_dtypes: dict[Any, tuple[str, int]] = {}
"""A library's dtype → our name and item size, filled as they are met: the text of a dtype costs more than its hash."""


def _named_dtype(dtype: Any, names: Mapping[str, str], name: str) -> tuple[str, int]:
    known = _named_dtypes.get(dtype)
    if known is None:
        found = names.get(str(dtype))
        if found is None:
            raise _unknown_dtype(name, str(dtype))
        known = _named_dtypes[dtype] = (found, ITEM_BYTES[found])
    return known


_TORCH_DTYPES = {
    "torch.bfloat16": "bf16",
    "torch.float16": "f16",
    "torch.float32": "f32",
    "torch.float64": "f64",
    "torch.float8_e4m3fn": "e4m3",
    "torch.float8_e5m2": "e5m2",
    "torch.float8_e8m0fnu": "ue8m0",
    "torch.float4_e2m1fn_x2": "u8",
    "torch.int8": "i8",
    "torch.uint8": "u8",
    "torch.int16": "i16",
    "torch.uint16": "u16",
    "torch.int32": "i32",
    "torch.uint32": "u32",
    "torch.int64": "i64",
    "torch.uint64": "u64",
    "torch.bool": "bool",
}


def _torch_view(tensor: Any, name: str) -> View:
    dtype, size = _named_dtype(tensor.dtype, _TORCH_DTYPES, name)
    device = tensor.device
    return View(
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple([s * size for s in tensor.stride()]),
        dtype,
        device.type,
        device.index if device.index is not None else 0,
    )


def _torch_mark(tensor: Any) -> Any:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def _torch_stream(tensor: Any) -> int:
    if not tensor.is_cuda:
        return 0
    torch = sys.modules["torch"]
    # What current_stream asks, without an object round the answer; Triton takes it too.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is not None:
        return raw(tensor.device.index)
    return torch.cuda.current_stream(tensor.device).cuda_stream


_CUPY_DTYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float8_e8m0fnu": "ue8m0",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "bool": "bool",
}


def _cupy_view(array: Any, name: str) -> View:
    dtype, _ = _named_dtype(array.dtype, _CUPY_DTYPES, name)
    memory = array.data
    return View(memory.ptr, array.shape, array.strides, dtype, CUDA, memory.device_id)


def _cupy_mark(array: Any) -> Any:
    memory = array.data
    return memory.ptr, array.shape, array.strides, array.dtype, memory.device_id


def _cupy_stream(array: Any) -> int:
    return sys.modules["cupy"].cuda.get_current_stream().ptr


# DLPack (dlpack.h, version 1)


class _DLDevice(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_DL_DTYPES = {
    (0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64",
    (1, 8): "u8", (1, 16): "u16", (1, 32): "u32", (1, 64): "u64",
    (2, 16): "f16", (2, 32): "f32", (2, 64): "f64",
    (3, 8): "raw8", (3, 16): "raw16",
    (4, 16): "bf16", (6, 8): "bool",
    (10, 8): "e4m3", (12, 8): "e5m2", (14, 8): "ue8m0",
}  # fmt: skip
"""(DLDataTypeCode, bits) → our name; a pair of packed 4-bit elements counts as a byte."""
_DL_FLOAT4 = 17
_DL_DEVICES = {1: CPU, 2: CUDA, 3: "pinned host memory", 13: CUDA}
"""DLDeviceType; 13 is managed memory, which a kernel may read like its own."""

_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
"""A prototype of our own: `ctypes.pythonapi` shares its functions with whoever else sets their types."""


def _from_dlpack(array: Any, name: str, stream: int) -> View | None:
    """None where the library cannot export this array (its dtype, a read-only flag): the interface may still do."""
    try:
        on_gpu = int(array.__dlpack_device__()[0]) in (2, 13)
        # The protocol's numbers: 1 is the legacy default stream, which CUDA itself calls 0.
        capsule = array.__dlpack__(stream=stream or 1) if on_gpu else array.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError):
        if hasattr(array, "__cuda_array_interface__") or hasattr(array, "__array_interface__"):
            return None
        raise _unknown_dtype(name, str(getattr(array, "dtype", "its data"))) from None
    # The capsule is only looked at: it is never renamed to "used_dltensor", so it frees its struct itself when it
    # goes, and the caller's array keeps the memory.
    tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    code, bits, lanes = tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes
    dtype = "u8" if (code, bits, lanes) == (_DL_FLOAT4, 4, 2) else _DL_DTYPES.get((code, bits))
    if dtype is None or (lanes != 1 and code != _DL_FLOAT4):
        raise _unknown_dtype(name, f"DLPack type code {code} of {bits} bits and {lanes} lanes")
    shape = tuple(tensor.shape[: tensor.ndim])
    size = ITEM_BYTES[dtype]
    strides = (
        tuple(s * size for s in tensor.strides[: tensor.ndim])
        if tensor.strides
        else packed(shape, size)
    )
    kind = _DL_DEVICES.get(tensor.device.device_type, f"DLPack device {tensor.device.device_type}")
    address = (tensor.data or 0) + tensor.byte_offset
    return View(address, shape, strides, dtype, kind, tensor.device.device_id)


# The CUDA array interface, version 3 (and NumPy's, which has the same form)

_TYPESTR_DTYPES = {
    "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64",
    "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64",
    "f2": "f16", "f4": "f32", "f8": "f64", "b1": "bool", "V1": "raw8", "V2": "raw16",
}  # fmt: skip
_ML_DTYPES = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float8_e8m0fnu": "ue8m0",
}
"""Names of ml_dtypes; its 4-bit and 6-bit types take a byte for each element, and are refused."""


def _from_interface(
    interface: Mapping[str, Any], name: str, kind: str, own_dtype: Any = None
) -> View:
    typestr = str(interface["typestr"])
    own = str(getattr(own_dtype, "name", ""))
    dtype = _ML_DTYPES.get(own)
    if (
        (dtype is None and typestr[1:] not in _TYPESTR_DTYPES)
        or typestr[0] == ">"
        or own.startswith(("float4", "float6"))
    ):
        raise _unknown_dtype(name, own or typestr)
    dtype = dtype or _TYPESTR_DTYPES[typestr[1:]]
    shape = tuple(int(n) for n in interface["shape"])
    strides = interface.get("strides")
    address, readonly = interface["data"]
    if interface.get("mask") is not None:
        raise TkcError.at("TK404", f"{name}: masked arrays have no plain memory")
    return View(
        int(address or 0),
        shape,
        tuple(int(s) for s in strides) if strides is not None else packed(shape, ITEM_BYTES[dtype]),
        dtype,
        kind,
        -1 if kind == CUDA else 0,
        bool(readonly),
        interface.get("stream"),
    )


def packed(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Byte strides of a row-major array without gaps."""
    strides = [size] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)


def _unknown_dtype(name: str, found: str) -> TkcError:
    return TkcError.at("TK403", f"{name}: no kernel takes arrays of {found}")


# Streams


def stream_handle(stream: Any, arrays: Sequence[Any] = ()) -> int:
    """The CUstream number of a stream of any library.

    None: the current stream of the library that the first array comes from (torch, cupy), else the legacy default
    stream, 0. Otherwise an integer, a CUstream of cuda-python, or an object with `__cuda_stream__` (cuda.core),
    `cuda_stream` (torch) or `ptr` (cupy). Raises TkcError TK404.
    """
    if stream is None:
        return _current_stream(arrays)
    if isinstance(stream, int):
        return int(stream)
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair: Any = protocol() if callable(protocol) else protocol
        return int(pair[1])
    for attribute in ("cuda_stream", "ptr"):
        handle = getattr(stream, attribute, None)
        if handle is not None:
            return int(handle)
    try:
        return int(stream)
    except (TypeError, ValueError):
        raise TkcError.at("TK404", f"a {type(stream).__qualname__} is no CUDA stream") from None


def _current_stream(arrays: Sequence[Any]) -> int:
    for array in arrays:
        if isinstance(array, list | tuple):
            handle = _current_stream(cast("Sequence[Any]", array))
            if handle:
                return handle
            continue
        library = library_of(array)
        if library is not None:
            return library.stream(array)
    return 0

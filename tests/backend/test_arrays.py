"""Arrays of every kind of library: what is read off them, and which are refused."""

from __future__ import annotations

import sys
import types
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from backend.fakes import DLPackArray, InterfaceArray, bf16

from tkc.backend.arrays import ACCEPTS, ITEM_BYTES, View, mark, packed, stream_handle, view
from tkc.diagnostics import TkcError
from tkc.ir.isa.dtypes import DTYPES


def test_every_dtype_of_the_language_has_arrays() -> None:
    assert set(ACCEPTS) == set(DTYPES)
    for name, taken in ACCEPTS.items():
        assert {ITEM_BYTES[t] for t in taken} == {max(1, DTYPES[name].bits // 8)}


def test_dlpack() -> None:
    array = DLPackArray((4, 6), strides=(16, 1), address=0x1000, offset=32, device=(2, 3))
    assert view(array, "A", stream=77) == View(0x1020, (4, 6), (32, 2), "bf16", "cuda", 3)
    assert array.streams == [77]


def test_dlpack_is_told_the_default_stream_by_its_own_number() -> None:
    array = bf16(4)
    view(array, "A")
    assert array.streams == [1]


def test_dlpack_without_strides_is_row_major() -> None:
    assert view(bf16(2, 3, 4), "A").strides == (24, 8, 2)
    assert view(bf16(), "A").strides == ()


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ((1, 0), "cpu"),
        ((3, 0), "pinned host memory"),
        ((13, 0), "cuda"),
        ((10, 0), "DLPack device 10"),
    ],
)
def test_dlpack_devices(device: tuple[int, int], kind: str) -> None:
    assert view(bf16(4, device=device), "A").kind == kind


def test_dlpack_packed_pairs_are_bytes() -> None:
    assert view(bf16(4, 8, code=(17, 4), lanes=2), "A").dtype == "u8"


@pytest.mark.parametrize(
    "odd", [{"code": (5, 64)}, {"code": (2, 32), "lanes": 4}, {"code": (17, 4)}]
)
def test_dlpack_dtypes_without_a_name(odd: dict[str, Any]) -> None:
    with pytest.raises(TkcError, match=r"A: no kernel takes arrays of DLPack type code.*TK403"):
        view(bf16(4, **odd), "A")


def test_a_capsule_is_only_looked_at() -> None:
    """A capsule that was read can be consumed by somebody else: its name is still the producer's."""
    kept: list[Any] = []

    class Keeps(DLPackArray):
        def __dlpack__(self, stream: int | None = None) -> Any:
            kept.append(super().__dlpack__(stream))
            return kept[-1]

    view(Keeps((4,)), "A")
    assert '"dltensor"' in repr(kept[0])


def test_the_interface() -> None:
    array = InterfaceArray((3, 5), "u16", address=0x2000, strides=(64, 2), stream=9)
    assert view(array, "A") == View(0x2000, (3, 5), (64, 2), "u16", "cuda", -1, False, 9)
    assert view(InterfaceArray((3, 5), "raw16", readonly=True), "A").readonly


def test_the_interface_stands_in_where_dlpack_cannot() -> None:
    class Both(InterfaceArray):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, stream: Any = None) -> Any:
            raise BufferError("read-only arrays cannot be exported")

    assert view(Both((4,), "f32"), "A").dtype == "f32"


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.float32, "f32"),
        (np.int32, "i32"),
        (np.uint8, "u8"),
        (np.bool_, "bool"),
        (ml_dtypes.bfloat16, "bf16"),
        (ml_dtypes.float8_e4m3fn, "e4m3"),
        (ml_dtypes.float8_e5m2, "e5m2"),
        (ml_dtypes.float8_e8m0fnu, "ue8m0"),
        (np.dtype("V2"), "raw16"),
    ],
)
def test_numpy_arrays_are_on_the_cpu(dtype: Any, name: str) -> None:
    array = np.zeros((4, 6), dtype)[:, ::2]
    size = array.dtype.itemsize
    found = view(array, "A")
    assert (found.kind, found.dtype, found.shape, found.strides) == (
        "cpu",
        name,
        (4, 3),
        (6 * size, 2 * size),
    )
    assert found.address == array.ctypes.data


def test_numpy_arrays_that_have_no_name_here() -> None:
    for array in (
        np.zeros(4, ">f4"),
        np.zeros(4, "c8"),
        np.zeros(4, ml_dtypes.float4_e2m1fn),
        np.array(["x"]),
    ):
        with pytest.raises(TkcError, match="TK403"):
            view(array, "A")


def test_a_read_only_numpy_array() -> None:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    assert view(array, "A").readonly


def test_what_is_no_array() -> None:
    with pytest.raises(
        TkcError, match=r"A: expected an array with DLPack.*found builtins\.list.*TK404"
    ):
        view([1, 2], "A")


class FakeTensor:
    """What the launcher asks of a torch tensor; the class says that it comes from there."""

    def __init__(
        self, dtype: str = "torch.bfloat16", device: str = "cuda", index: int | None = 0
    ) -> None:
        self.dtype = _Name(dtype)
        self.device = _Device(device, index)
        self.shape = (4, 8)
        self.is_cuda = device == "cuda"

    def stride(self) -> tuple[int, ...]:
        return (8, 1)

    def data_ptr(self) -> int:
        return 0x3000


class _Device(NamedTuple):
    type: str
    index: int | None


class _Name(str):
    """Stands for a torch.dtype: hashable, and its text is its name."""


FakeTensor.__module__ = "torch"


def test_torch_tensors_are_read_by_their_own_methods() -> None:
    assert view(FakeTensor(), "A") == View(0x3000, (4, 8), (16, 2), "bf16", "cuda", 0)
    assert view(FakeTensor("torch.float8_e4m3fn"), "A").strides == (8, 1)
    assert view(FakeTensor(device="cpu", index=None), "A").kind == "cpu"
    with pytest.raises(TkcError, match=r"no kernel takes arrays of torch\.complex64"):
        view(FakeTensor("torch.complex64"), "A")


class FakeCupy:
    """What the launcher asks of a cupy array; the class says that it comes from there."""

    dtype = np.dtype(np.float16)
    shape, strides = (4, 8), (32, 2)
    data = types.SimpleNamespace(ptr=0x4000, device_id=2)


FakeCupy.__module__ = "cupy"


def test_cupy_arrays_are_read_by_their_own_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert view(FakeCupy(), "A") == View(0x4000, (4, 8), (32, 2), "f16", "cuda", 2)
    current = types.SimpleNamespace(ptr=12)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(get_current_stream=lambda: current))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert stream_handle(None, (FakeCupy(),)) == 12


def test_marks_tell_arrays_apart_as_views_do() -> None:
    one, other = FakeTensor(), FakeTensor()
    other.shape = (8, 4)
    assert mark(one, "A") == mark(FakeTensor(), "A")
    assert mark(one, "A") != mark(other, "A")
    assert mark(one, "A") != mark(FakeTensor("torch.float16"), "A")
    assert mark(FakeCupy(), "A") == mark(FakeCupy(), "A")
    assert mark(bf16(4), "A") == view(bf16(4), "A")
    hash((mark(FakeCupy(), "A"), mark(bf16(4), "A")))


def test_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stream_handle(None) == 0
    assert stream_handle(5) == 5
    assert stream_handle(types.SimpleNamespace(cuda_stream=6)) == 6
    assert stream_handle(types.SimpleNamespace(ptr=7)) == 7
    assert stream_handle(types.SimpleNamespace(__cuda_stream__=lambda: (0, 8))) == 8

    class Handle:
        def __int__(self) -> int:
            return 9

    assert stream_handle(Handle()) == 9
    with pytest.raises(TkcError, match=r"a str is no CUDA stream"):
        stream_handle("main")
    torch = types.SimpleNamespace(
        _C=types.SimpleNamespace(),
        cuda=types.SimpleNamespace(
            current_stream=lambda device: types.SimpleNamespace(cuda_stream=10 + device.index)
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert stream_handle(None, (3.0, FakeTensor(index=1))) == 11
    torch._C._cuda_getCurrentRawStream = lambda index: 20 + index
    assert stream_handle(None, (FakeTensor(index=1),)) == 21
    assert stream_handle(None, (FakeTensor(device="cpu"),)) == 0


def test_packed() -> None:
    assert packed((2, 3, 4), 2) == (24, 8, 2)
    assert packed((2, 0, 4), 2) == (8, 8, 2)
    assert packed((), 2) == ()

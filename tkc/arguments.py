"""Values of a kernel's arguments: what is said of them on the command line (`argument_words`), made in their dtypes.

`make` makes them once a kernel's contract says the dtypes; `save` is `--out`. Sub-byte dtypes are uint8, packed along
the last axis, low element first. Block scales come with the random data or zeros that they scale, or from a file of
their own, `A.scales=s.npy`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tkc.argument_words import (
    Empty,
    FromFile,
    Number,
    Random,
    Several,
    Spec,
    Values,
    Zeros,
)
from tkc.diagnostics import Collector, TkcError, nearest
from tkc.ir.isa.dtypes import DTYPES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

Value = Any
"""A NumPy array, a list of such, an int or a float."""

NUMPY = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "tf32": "float32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e3m2": "float6_e3m2fn",
    "e2m3": "float6_e2m3fn",
    "e2m1": "float4_e2m1fn",
    "ue8m0": "float8_e8m0fnu",
    "ue4m3": "float8_e4m3fn",
    "s8": "int8",
    "u8": "uint8",
    "ue5m3": "uint8",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "bool": "bool",
    # Those that the language does not have, for kernels of other compilers.
    "f64": "float64",
    "s16": "int16",
    "u16": "uint16",
    "u64": "uint64",
}
"""dtype → the name of its values in NumPy or ml_dtypes."""

_MORE_NAMES = {
    "i8": "s8",
    "i16": "s16",
    "s32": "i32",
    "s64": "i64",
    **{f"b{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{numpy: dtype for dtype, numpy in reversed(NUMPY.items())},
}

BITS_ALONE = "ue5m3"
"""What neither NumPy nor ml_dtypes has: an array of it holds bits."""

_UNSIGNED = ("ue8m0", "ue4m3", "ue5m3")


def dtype_named(name: str) -> str:
    """Our name of a dtype that is called as in the language, in PTX or in NumPy; ValueError where there is none."""
    dtype = name if name in NUMPY else _MORE_NAMES.get(name)
    if dtype is None:
        near = nearest(name, (*NUMPY, *_MORE_NAMES))
        raise ValueError(f"no dtype {name}{f'; did you mean {near}?' if near else ''}")
    return dtype


def bits_of(dtype: str) -> int:
    """Bits of one element."""
    return DTYPES[dtype].bits if dtype in DTYPES else 8 * numpy_dtype(dtype).itemsize


def _is_floating(dtype: str) -> bool:
    return DTYPES[dtype].floating if dtype in DTYPES else dtype[0] == "f"


def make(
    specs: Mapping[str, Spec], kernel: Mapping[str, Any]
) -> tuple[list[Value], dict[str, int]]:
    """The values of a kernel's arguments in order, and of the symbols that are given by hand.

    `kernel` is a KERNEL of a contract. Raises TkcError with every argument that is missing, unknown or cannot be made.
    """
    found = Collector()
    arguments = {a["name"]: a for a in kernel["arguments"]}
    free = {name for name, places in kernel["symbols"].items() if places == []}
    for name in specs:
        if name not in arguments and name not in free:
            near = nearest(name, (*arguments, *free))
            hint = (
                f"; did you mean {near}?"
                if near
                else f"; there are {', '.join((*arguments, *free))}"
            )
            found.error("TK401", f"{kernel['entry']} has no argument {name}{hint}")
    # Scales come with the data that are made; where those are missing too, one word will give both.
    with_data = {
        name: argument["scales"]["of"]
        for name, argument in arguments.items()
        if "scales" in argument and name not in specs and _made(specs.get(argument["scales"]["of"]))
    }
    missing = [
        name for name in (*arguments, *sorted(free)) if name not in specs and name not in with_data
    ]
    if missing:
        found.error(
            "TK401",
            f"{kernel['entry']} needs {', '.join(missing)}",
            help=" ".join(_example(arguments[m]) if m in arguments else f"{m}=1" for m in missing),
        )
    found.stop_on_errors()
    values: list[Value] = []
    for name, argument in arguments.items():
        try:
            if name in with_data:
                of = arguments[with_data[name]]
                make = scaled_list if argument.get("list") else scaled
                values[-1:] = make(specs[of["name"]], of["dtype"], argument, of["name"])
                continue
            values.append(_value(specs[name], argument))
        except TkcError as error:
            found.diagnostics.extend(error.diagnostics)
        except (MemoryError, ValueError) as error:
            found.error("TK412", f"{name} cannot be made: {str(error) or 'not enough memory'}")
    symbols: dict[str, int] = {}
    for name in free:
        spec = specs[name]
        if isinstance(spec, Number) and isinstance(spec.value, int):
            symbols[name] = spec.value
        else:
            found.error("TK412", f"{name} is a size, expected an integer")
    found.stop_on_errors()
    return values, symbols


def _example(argument: Mapping[str, Any]) -> str:
    if argument.get("scalar"):
        return f"{argument['name']}=1"
    if "scales" in argument:
        return f"{argument['name']}=FILE.npy"
    maker = "empty" if argument["access"] == "write" else "random"
    if not argument["dims"]:
        return f"{argument['name']}=1.0"
    if maker == "random" and len(argument["dims"]) == 1 and not _is_floating(argument["dtype"]):
        return f"'{argument['name']}=[1,2,…]'"
    dims = ",".join(
        d if isinstance(d, str) else str(d) if isinstance(d, int) else "…" for d in argument["dims"]
    )
    if argument.get("list"):
        _, _, each = dims.partition(",")
        return f"'{argument['name']}=[{maker}({each}),…]'"
    return f"'{argument['name']}={maker}({dims})'"


def _value(spec: Spec, argument: Mapping[str, Any]) -> Value:
    name, dtype = argument["name"], argument["dtype"]
    if argument.get("scalar"):
        if not isinstance(spec, Number):
            raise ValueError(f"it is a scalar of {dtype}, expected a number")
        if isinstance(spec.value, float) and not _is_floating(dtype):
            raise ValueError(f"it is a scalar of {dtype}, found {spec.value}")
        return spec.value
    if isinstance(spec, Number) and not argument["dims"]:
        import numpy as np

        return np.array(spec.value, numpy_dtype(dtype))
    major = argument.get("major")
    if argument.get("list"):
        arrays = make_list(spec, dtype, name, len(argument["dims"]))
        return [_lying(array, None if major is None else major - 1) for array in arrays]
    return _lying(make_array(spec, dtype, name), major)


def _lying(array: Array, major: int | None) -> Array:
    """The array, with the axis `major` contiguous where that is said."""
    if major is None or not 0 <= major < array.ndim:
        return array
    import numpy as np

    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, major, -1)), -1, major)


def make_array(spec: Spec, dtype: str, name: str) -> Array:
    """The array of an argument called `name`; ValueError where the spec gives none, TkcError for a file."""
    match spec:
        case Number():
            raise ValueError(f"it is an array of {dtype}, found the number {spec.value}")
        case Several():
            raise ValueError(
                f"it is one array of {dtype}, found a list of {len(spec.items)} arrays"
            )
        case Values():
            return _array_of(spec.values, dtype)
        case FromFile():
            return load(spec.path, dtype)
        case Random():
            seed = zlib.crc32(name.encode()) if spec.seed is None else spec.seed
            return random(spec.shape, dtype, seed)
        case Empty():
            return _filled(spec.shape, dtype, 0xFF)
        case Zeros():
            return _filled(spec.shape, dtype, 0x00)


def make_list(spec: Spec, dtype: str, name: str, rank: int | None = None) -> list[Array]:
    """The arrays of a list, each in memory of its own. `rank` is that of the array that may stand for all of them, with
    the axis that numbers them; TkcError TK402 for one of another rank, else as `make_array`."""
    if isinstance(spec, Several):
        return [make_array(item, dtype, f"{name}[{i}]") for i, item in enumerate(spec.items)]
    if isinstance(spec, Values) and not spec.values:
        return []
    if isinstance(spec, FromFile) and spec.path.endswith(".npz"):
        return load_list(spec.path, dtype)
    if isinstance(spec, Number):
        raise ValueError(f"it is a list of arrays of {dtype}, found the number {spec.value}")
    whole = make_array(spec, dtype, name)
    if rank is None:
        rank = max(whole.ndim, 1)
    if whole.ndim != rank:
        raise TkcError.at(
            "TK402",
            f"{name} is a list of arrays of rank {rank - 1}; found one array of shape {whole.shape}, expected one of"
            f" rank {rank}, whose first axis numbers them, or a list, as in '{name}=[random(…),random(…)]'",
        )
    return [array.copy() for array in whole]


def _array_of(values: Sequence[int | float], dtype: str) -> Array:
    """An array of one axis with values that are written out; what a floating dtype has not is rounded."""
    import numpy as np

    if dtype == BITS_ALONE:
        raise ValueError(f"it holds {dtype}, whose values cannot be written out")
    floating, kind = _is_floating(dtype), numpy_dtype(dtype)
    if not floating:
        low, high = (0, 1) if dtype == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max)
        for value in values:
            if isinstance(value, float) or not low <= value <= high:
                raise ValueError(f"it holds {dtype}, found {value}")
        return np.array(values, kind)
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.array([_float(value) for value in values], np.float64)
        made = wide.astype(kind)
    lost = np.isfinite(wide) & ~np.isfinite(made)
    if lost.any():
        raise ValueError(f"it holds {dtype}, which has no {wide[lost][0]:g}")
    if dtype == "tf32":
        made = (made.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return pack(made, dtype) if bits_of(dtype) % 8 else made


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _made(spec: Spec | None) -> bool:
    """Whether data are made here, or missing, and scales with them."""
    return isinstance(spec, Random | Zeros | None) or (
        isinstance(spec, Several) and all(isinstance(item, Random | Zeros) for item in spec.items)
    )


def scaled_list(
    spec: Spec, dtype: str, scales_argument: Mapping[str, Any], name: str
) -> tuple[Value, Value]:
    """As `scaled`, of each array of a list, or of the one that stands for all of them."""
    if not isinstance(spec, Several):
        return scaled(spec, dtype, scales_argument, name)
    each = [
        scaled(item, dtype, scales_argument, f"{name}[{i}]") for i, item in enumerate(spec.items)
    ]
    return [data for data, _ in each], [its for _, its in each]


def scaled(
    spec: Spec, dtype: str, scales_argument: Mapping[str, Any], name: str
) -> tuple[Array, Array]:
    """Random data or zeros in blocks, and their scales in the order of `tkc.scales.interleave`."""
    from tkc import scales

    assert isinstance(spec, Random | Zeros)
    dtype_of_scales, block = scales_argument["dtype"], scales_argument["scales"]["block"]
    plain = make_array(spec, "f32", name)
    made = scales.quantise(
        plain,
        dtype,
        scale=dtype_of_scales,
        block=block,
        global_scale=None if dtype_of_scales == "ue8m0" else 1.0,
    )
    return made.data, scales.interleave(made.scales, dtype_of_scales)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype of the values of one of our dtypes; ml_dtypes is only imported where NumPy has none."""
    import numpy as np

    name = NUMPY[dtype]
    if hasattr(np, name) or name == "bool":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def _filled(shape: tuple[int, ...], dtype: str, byte: int) -> Array:
    import numpy as np

    storage = np.dtype(np.uint8) if bits_of(dtype) % 8 else numpy_dtype(dtype)
    made = np.empty(_stored_shape(shape, dtype), storage)
    if made.size:
        made.reshape(-1).view(np.uint8)[:] = byte if dtype != "bool" else byte & 1
    return made


def random(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Random data in a dtype, as the array that a kernel takes (packed where the dtype is narrower than a byte)."""
    import numpy as np

    rng = np.random.default_rng(seed)
    if not _is_floating(dtype):
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(np.bool_)
        low = 0 if dtype.startswith("u") else -8
        return rng.integers(low, low + 16, shape).astype(numpy_dtype(dtype))
    values = rng.random(shape, np.float32)
    if dtype in _UNSIGNED:
        values = 1 - values
    else:
        values *= 2
        values -= 1
    if dtype == "tf32":
        return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if dtype == BITS_ALONE:
        # f16 has its exponent, and 7 more bits of mantissa.
        return (values.astype(np.float16).view(np.uint16) >> 7).astype(np.uint8)
    typed = values.astype(numpy_dtype(dtype))
    return pack(typed, dtype) if bits_of(dtype) % 8 else typed


def _stored_shape(shape: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    bits = bits_of(dtype)
    if bits % 8 == 0:
        return shape
    if not shape or shape[-1] * bits % 8:
        raise ValueError(
            f"{dtype} is packed, and a last dimension of {shape[-1] if shape else 1} is no whole number of bytes"
        )
    return (*shape[:-1], shape[-1] * bits // 8)


def pack(values: Array, dtype: str) -> Array:
    """Values of a sub-byte dtype (a byte each, as ml_dtypes has them) as packed uint8, low element first."""
    import numpy as np

    bits = bits_of(dtype)
    packed_shape = _stored_shape(values.shape, dtype)
    unpacked = np.unpackbits(
        values.view(np.uint8)[..., np.newaxis], axis=-1, count=bits, bitorder="little"
    )
    flat = unpacked.reshape(*values.shape[:-1], values.shape[-1] * bits)
    return np.packbits(flat, axis=-1, bitorder="little").reshape(packed_shape)


def unpack(packed: Array, dtype: str) -> Array:
    """The values in a packed array, in the dtype of ml_dtypes."""
    import numpy as np

    bits = bits_of(dtype)
    flat = np.unpackbits(np.ascontiguousarray(packed).view(np.uint8), axis=-1, bitorder="little")
    count = packed.shape[-1] * 8 // bits
    split = flat[..., : count * bits].reshape(*packed.shape[:-1], count, bits)
    return np.packbits(split, axis=-1, bitorder="little")[..., 0].view(numpy_dtype(dtype))


def load(path: str, dtype: str) -> Array:
    """An array from a `.npy` file, as values of `dtype` where NumPy could only save their bits."""
    import numpy as np

    loaded = _loaded(path)
    if not isinstance(loaded, np.ndarray):
        raise TkcError.at("TK412", f"{path} holds several arrays, expected one (.npy)")
    return _typed(loaded, dtype)


def load_list(path: str, dtype: str) -> list[Array]:
    """The arrays of a `.npz` file in its order, or those along the first axis of the array of a `.npy` file."""
    import numpy as np

    loaded = _loaded(path)
    if isinstance(loaded, np.ndarray):
        if not loaded.ndim:
            raise TkcError.at("TK412", f"{path} holds one number, expected several arrays (.npz)")
        return list(_typed(loaded, dtype))
    return [_typed(array, dtype) for array in loaded]


def _loaded(path: str) -> Array | list[Array]:
    """What NumPy has saved: an array, or several."""
    import zipfile

    import numpy as np

    try:
        loaded: Any = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return cast("Array", loaded)
        with loaded:
            several = [loaded[name] for name in loaded.files]
        if not all(isinstance(one, np.ndarray) for one in several):
            raise ValueError("something in it is no array")
        return several
    except OSError as error:
        raise _unreadable(path, error) from None
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise TkcError.at(
            "TK412", f"{path} is no array saved by NumPy: {_why_unread(str(error))}"
        ) from None


def _why_unread(said: str) -> str:
    """NumPy's reason; its advice is for whoever calls it, and trusts the file."""
    if "Object arrays" in said:
        return "it holds Python objects, expected numbers"
    if "pickle" in said:
        return "expected a file that numpy.save or numpy.savez has written"
    if "descr is not a valid dtype" in said:
        return "it was saved in a dtype that NumPy cannot read back; save its bits, x.view('u1')"
    return (said or "it is damaged").splitlines()[0]


def _typed(array: Array, dtype: str) -> Array:
    wanted = numpy_dtype(dtype)
    if (
        array.dtype.kind == "V"
        and array.dtype.itemsize == wanted.itemsize
        and array.dtype.names is None
    ):
        array = array.view(wanted)
    return array


def check_files(files: Mapping[str, str], lists: Collection[str], option: str) -> None:
    """Refuses a file of one array for a list's (TK412)."""
    for name, path in files.items():
        if name in lists and not path.endswith(".npz"):
            raise TkcError.at(
                "TK412",
                f"{option} {name}={path}: {name} is a list of arrays, expected a file that holds several",
                help=f"{option} {name}={Path(path).with_suffix('.npz')}",
            )


def check_readable(files: Collection[str]) -> None:
    """Refuses a file to compare with that cannot be read (TK412), before anything runs."""
    for path in files:
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> TkcError:
    why = (error.strerror or str(error)).lower()
    return TkcError.at("TK412", f"{path} cannot be read: {why}")


def save(path: str, value: Array | list[Array]) -> None:
    """Writes a `.npy` file, or for a list a `.npz` file (arr_0, arr_1, …), whole or not at all; dtypes of ml_dtypes are
    saved as their bits."""
    import io

    import numpy as np

    from tkc.backend.package import write_files

    def plain(array: Array) -> Array:
        # NumPy writes a name for some of those dtypes that it refuses to read (float8_e5m2: '<f1').
        return array if array.dtype.isbuiltin == 1 else array.view(f"V{array.dtype.itemsize}")

    stream = io.BytesIO()
    if isinstance(value, list):
        np.savez(stream, *map(plain, value))
    else:
        np.save(stream, plain(value), allow_pickle=False)
    write_files({Path(path): stream.getvalue()})


def values_of(array: Array, dtype: str) -> Array:
    """An argument's values as numbers: unpacked where it is packed, and in their dtype where it holds bits, as an
    argument may (uint16 for bf16)."""
    from tkc.backend.arrays import ACCEPTS

    as_bits = array.dtype.kind == "u" and f"u{8 * array.itemsize}" in ACCEPTS.get(dtype, ())
    if not as_bits or not _is_floating(dtype):
        return array
    if dtype == BITS_ALONE:
        from tkc.scales import values_of_codes

        return values_of_codes(array, dtype)
    if bits_of(dtype) % 8:
        return unpack(array, dtype)
    return array.view(numpy_dtype(dtype))

"""The values of a plain launch: arrays, tensor maps, structures and numbers, as `tkc.emulate` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkc import arguments
from tkc.argument_words import Empty, FromFile, Number
from tkc.arguments import dtype_named, make_array
from tkc.commands.plain_launch import Argument, Data, Mapped, PlainLaunch, Same, Structure
from tkc.diagnostics import Collector, TkcError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True)
class Made:
    """What `tkc.emulate` takes, in order, and the arrays among it with their dtypes, by the arguments' names."""

    args: list[Any]
    arrays: dict[str, tuple[Array, str]]


def make(launch: PlainLaunch) -> Made:
    """The values of the arguments. Raises TkcError with every one that cannot be made."""
    maker = _Maker()
    for name, argument in launch.arrays.items():
        maker.make(name, argument, array=True)
    args = [maker.make(name, argument) for name, argument in launch.args.items()]
    maker.found.stop_on_errors()
    return Made(args, maker.arrays)


class _Maker:
    """Makes values one after the other; what is wrong with them is gathered in `found`."""

    def __init__(self) -> None:
        self.found = Collector()
        self.arrays: dict[str, tuple[Array, str]] = {}
        self._wrapped: dict[str, Any] = {}

    def make(self, name: str, argument: Argument, array: bool = False) -> Any:
        """The value of an argument, which must be an array if `array`; None where it cannot be made."""
        try:
            if array and not (isinstance(argument, Data) and not isinstance(argument.spec, Number)):
                raise ValueError("expected an array, as in f16:random(256,64)")
            return self._value(name, argument)
        except TkcError as error:
            self.found.diagnostics.extend(
                replace(d, message=f"{name}: {d.message}") for d in error.diagnostics
            )
        except OSError as error:
            self.found.error("TK412", f"{name}: {error.filename} cannot be read: {error.strerror}")
        except (MemoryError, ValueError) as error:
            self.found.error("TK412", f"{name} cannot be made: {str(error) or 'not enough memory'}")
        return None

    def _value(self, name: str, argument: Argument) -> Any:
        from tkc.emulator import Struct, TensorMap

        if argument is None:
            return None
        if isinstance(argument, Structure):
            members = {o: self._value(f"{name}.{o}", m) for o, m in argument.members.items()}
            image = Path(argument.image).read_bytes() if argument.image is not None else b""
            return Struct(members, image)
        if isinstance(argument, Mapped):
            base = self._array(name, argument.data)
            plain, dtype = self.arrays[
                argument.data.name if isinstance(argument.data, Same) else name
            ]
            return TensorMap(base, **map_fields(plain, dtype, argument.fields))
        if isinstance(argument, Data) and isinstance(argument.spec, Number):
            return _number(argument.spec.value, argument.dtype)
        return self._array(name, argument)

    def _array(self, name: str, data: Data | Same) -> Any:
        """An array, as `tkc.emulate` takes it."""
        from tkc.emulator import Poisoned

        if isinstance(data, Same):
            if data.name not in self.arrays:
                raise ValueError(f"no array {data.name} stands before it")
            return self._wrapped[data.name]
        made, dtype = _array(data, name)
        self.arrays[name] = made, dtype
        self._wrapped[name] = Poisoned(made) if isinstance(data.spec, Empty) else made
        return self._wrapped[name]


def _array(data: Data, name: str) -> tuple[Array, str]:
    """(the array, its dtype)."""
    if data.dtype is not None:
        return make_array(data.spec, data.dtype, name), data.dtype
    if not isinstance(data.spec, FromFile):
        raise ValueError("it has no dtype; expected one, as in f16:random(256,64)")
    loaded = arguments.load(data.spec.path, "u8")
    if loaded.dtype.kind == "V":
        raise ValueError(
            f"{data.spec.path} holds bits without a dtype; expected one, as in bf16:FILE"
        )
    return loaded, dtype_named(loaded.dtype.name)


def _number(value: float, dtype: str | None) -> Any:
    """A number as `tkc.emulate` takes it: a NumPy scalar, which is as wide as its dtype, where one is given."""
    if dtype is None:
        return value
    import numpy as np

    wanted = arguments.numpy_dtype(dtype)
    if arguments.bits_of(dtype) % 8:
        raise ValueError(f"a parameter holds no {dtype}")
    if wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if not isinstance(value, int) or not limits.min <= value <= limits.max:
            raise ValueError(f"{value} does not fit {dtype}")
    return np.array(value, wanted)[()]


def map_fields(array: Array, dtype: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a tensor map: those that are given, and sizes and strides of the array where they are not."""
    from tkc.emulator.tensormap import element_type

    fields: dict[str, Any] = {"dtype": dtype, **given}
    try:
        fields["dtype"] = dtype_named(fields["dtype"])
    except ValueError:
        pass  # a name of the driver's, such as 16U4_ALIGN16B
    bits = element_type(fields["dtype"]).bits
    if "sizes" not in given:
        if array.ndim == 0 or array.shape[-1] * array.itemsize * 8 % bits:
            raise ValueError(
                f"rows of {array.shape} {dtype} are no whole number of elements; give sizes"
            )
        inner = array.shape[-1] * array.itemsize * 8 // bits
        fields["sizes"] = (inner, *array.shape[-2::-1])
    if "strides" not in given:
        if "sizes" in given and len(given["sizes"]) != array.ndim:
            raise ValueError("sizes of another rank than the array's need strides")
        fields["strides"] = array.strides[-2::-1]
    return fields

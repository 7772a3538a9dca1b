"""Lists of arrays as one argument: `[a0, a1, …]`, or one array whose first axis numbers them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from tkc.backend.arrays import ACCEPTS, View, mark, view, wrong_dtype
from tkc.diagnostics import Collector


class Views(NamedTuple):
    """What each array of a list is."""

    arrays: tuple[View, ...]


def views(value: Any, name: str, stream: int = 0) -> Views:
    """The arrays of a list argument. Raises TkcError as `view` does."""
    if isinstance(value, list | tuple):
        given = cast("Sequence[Any]", value)
        return Views(tuple(view(x, f"{name}[{i}]", stream) for i, x in enumerate(given)))
    whole = view(value, name, stream)
    if not whole.shape:
        return Views((whole,))
    each = whole._replace(shape=whole.shape[1:], strides=whole.strides[1:])
    return Views(
        tuple(
            each._replace(address=whole.address + i * whole.strides[0])
            for i in range(whole.shape[0])
        )
    )


def marks(value: Any, name: str, stream: int = 0) -> Any:
    """A hashable value that is equal for two lists only if their views are."""
    if isinstance(value, list | tuple):
        given = cast("Sequence[Any]", value)
        return tuple([mark(x, name, stream) for x in given])
    return mark(value, name, stream)


def element(argument: Mapping[str, Any], index: int) -> dict[str, Any]:
    """An array of a list as an argument of its own, so that it is checked like any other."""
    alone = {k: v for k, v in argument.items() if k != "list"}
    major = {} if "major" not in argument else {"major": argument["major"] - 1}
    return {**alone, **major, "name": f"{argument['name']}[{index}]", "dims": argument["dims"][1:]}


def named(name: str, value: View | Views) -> Iterator[tuple[str, View]]:
    """An argument's arrays by name."""
    if isinstance(value, Views):
        yield from ((f"{name}[{i}]", array) for i, array in enumerate(value.arrays))
    else:
        yield name, value


def sizes(
    argument: Mapping[str, Any],
    value: Views,
    elements: Callable[[Mapping[str, Any], View, Collector], tuple[int, ...]],
    found: Collector,
) -> tuple[int, ...] | None:
    """How many arrays there are, and the extents that all of them have; 0 where each has its own. None and an error
    for the arrays that are of another rank, and for each of another dtype or extent: TK402, TK403, TK407. `elements`
    says the shape of an array in elements."""
    dims = argument["dims"][1:]
    name, before = argument["name"], len(found.diagnostics)
    common = [0] * len(dims)
    strange = [i for i, array in enumerate(value.arrays) if len(array.shape) != len(dims)]
    if strange:
        shape, more = value.arrays[strange[0]].shape, len(strange) - 1
        found.error(
            "TK402",
            f"{name}[{strange[0]}] has rank {len(shape)} (shape {shape}); {name} is a list of arrays of rank "
            f"{len(dims)}" + (f"; {more} more of its arrays are of another rank" if more else ""),
        )
    for i, array in enumerate(value.arrays):
        if len(array.shape) != len(dims):
            continue
        if array.dtype not in ACCEPTS[argument["dtype"]]:
            told, mend = wrong_dtype(f"{name}[{i}]", array.dtype, argument["dtype"])
            found.error("TK403", told, help=mend)
        else:
            shape = elements(element(argument, i), array, found)
            for axis, dim in enumerate(dims):
                size = shape[axis]
                if dim is None:
                    continue
                if i and common[axis] != size:
                    found.error(
                        "TK407",
                        f"axis {axis} of {name}[{i}] has {size} elements, and {common[axis]} in the arrays before it; "
                        "they must agree",
                    )
                common[axis] = size
    return None if len(found.diagnostics) > before else (len(value.arrays), *common)

"""Binding arguments: every mistake found before a launch, and the numbers of a right one."""

from __future__ import annotations

import copy
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tkc.backend.arrays import View
from tkc.backend.bind import (
    Bound,
    PointerValue,
    ScalarValue,
    TensorMapValue,
    bind,
    fill,
    number,
    pack,
)
from tkc.backend.contract import check_kernel
from tkc.backend.gather import gather
from tkc.backend.package import read_package
from tkc.diagnostics import TkcError

PACKAGES = Path(__file__).parent.parent / "gpu" / "packages"
FACTS = {"sm_count": 132, "max_clusters": 66}


@pytest.fixture
def copying() -> dict[str, Any]:
    kernel = copy.deepcopy(read_package(PACKAGES / "tile_copy.json").kernels[0])
    kernel["requires"] = []  # of its store; here any number of columns may come
    return kernel


@pytest.fixture
def adding() -> dict[str, Any]:
    return copy.deepcopy(read_package(PACKAGES / "vector_add.json").kernels[0])


def array(
    shape: tuple[int, ...], strides: tuple[int, ...] | None = None, dtype: str = "bf16", **more: Any
) -> View:
    """Strides in elements."""
    size = {"bf16": 2, "f32": 4, "u8": 1, "i32": 4, "f16": 2}[dtype]
    if strides is None:
        strides = tuple(int(np.prod(shape[i + 1 :], dtype=int)) for i in range(len(shape)))
    return View(
        more.pop("address", 0x10000),
        shape,
        tuple(s * size for s in strides),
        dtype,
        "cuda",
        0,
        **more,
    )


def run(kernel: Mapping[str, Any], *views: Any, **given: int) -> Bound:
    check_kernel(kernel)
    return bind(kernel, views, given, FACTS.__getitem__, spare=0x5000)


def codes(error: TkcError) -> list[str]:
    return [d.code for d in error.diagnostics]


def test_a_tile_copy(copying: dict[str, Any]) -> None:
    bound = run(copying, array((100, 72)), array((100, 72), (80, 1), address=0x20000))
    assert (bound.action, bound.symbols, bound.grid) == ("launch", {"M": 100, "N": 72}, (2, 2, 1))
    source, result = bound.values
    assert isinstance(source, TensorMapValue)
    assert isinstance(result, TensorMapValue)
    tiled = source.map.tiled
    assert (tiled.sizes, tiled.strides, tiled.box, tiled.swizzle) == (
        (72, 100),
        (144,),
        (64, 64),
        "128B",
    )
    assert (tiled.address, tiled.type.name, source.map.l2_promotion) == (
        0x10000,
        "BFLOAT16",
        "256B",
    )
    assert result.map.tiled.strides == (160,)


def test_a_vector_add(adding: dict[str, Any]) -> None:
    x = array((1000,), dtype="f32")
    bound = run(adding, x, x, x, 0.5)
    assert bound.grid == (8, 1, 1)
    assert bound.values == (
        *[PointerValue(n, 0, 0x10000) for n in "XYZ"],
        ScalarValue("i32", 1000, struct.pack("<i", 1000)),
        ScalarValue("f32", 0.5, struct.pack("<f", 0.5)),
    )


@pytest.mark.parametrize(
    ("views", "code", "said"),
    [
        (
            (array((8, 8, 8)), array((8, 8))),
            "TK402",
            r"A has rank 3 \(shape \(8, 8, 8\)\); expected 2: A\[M, N\]",
        ),
        (
            (array((8, 8), dtype="f16"), array((8, 8))),
            "TK403",
            r"A holds f16; expected bf16 \(taken: bf16, u16, raw16\) \[TK403\]\n"
            r"help: `A.astype\(ml_dtypes.bfloat16\)` in NumPy",
        ),
        (
            (array((8, 8)), array((8, 16))),
            "TK407",
            r"N is 8 by axis 1 of A and 16 by axis 1 of C; they must agree",
        ),
        (
            (array((8, 17)), array((8, 24))),
            "TK407",
            r"N is 17 by axis 1 of A and 24 by axis 1 of C",
        ),
        (
            (array((8, 17)), array((8, 17), (24, 1))),
            "TK405",
            r"A: axis 0 has a stride of 34 bytes; .* needs a multiple of 16, such as 48 \(24 elements\)",
        ),
        (
            (array((8, 8), (1, 8)), array((8, 8))),
            "TK405",
            r"A: axis 1 must be contiguous, a stride of 2 bytes; found strides \(2, 16\) bytes for shape \(8, 8\)",
        ),
        (
            (array((8, 8), (0, 1)), array((8, 8))),
            "TK405",
            r"A: axis 0 is broadcast \(stride 0\); pass a copy",
        ),
        (
            (array((8, 8), (-8, 1)), array((8, 8))),
            "TK405",
            r"A: axis 0 runs backwards \(stride -16 bytes\)",
        ),
        (
            (array((8, 64), (8, 1)), array((8, 64), (8, 1))),
            "TK405",
            r"C is written by the kernel, and its elements overlap",
        ),
        (
            (array((8, 8), address=0x10008), array((8, 8))),
            "TK406",
            r"A starts at 0x10008, 8 bytes past a multiple of 16; the kernel needs a 16-byte aligned base",
        ),
        (
            (array((8, 8)), array((8, 8), readonly=True)),
            "TK404",
            r"C is written by the kernel, and the array is read-only",
        ),
        ((array((8, 8)), 3), "TK404", r"C: expected an array, found 3"),
        (
            (array((8, 1 << 32), (1 << 32, 1)), array((8, 1 << 32), (1 << 32, 1))),
            "TK207",
            r"the tensor map of A: size of axis 0 is 4294967296, expected 1\.\.2147483648",
        ),
    ],
)
def test_wrong_arguments(
    copying: dict[str, Any], views: tuple[Any, ...], code: str, said: str
) -> None:
    with pytest.raises(TkcError, match=said) as caught:
        run(copying, *views)
    assert code in codes(caught.value)


def test_an_array_that_lies_the_other_way_round_is_one_mistake(copying: dict[str, Any]) -> None:
    """Its other strides are no stride of rows, so they are not judged as one."""
    with pytest.raises(TkcError) as caught:
        run(copying, array((16, 12), (1, 16)), array((16, 12), (16, 1)))
    (found,) = caught.value.diagnostics
    assert found.message.startswith("A: axis 1 must be contiguous")
    assert found.help == "pass A.contiguous(), or a view whose axis 1 is the contiguous one"


def test_every_argument_is_looked_at(copying: dict[str, Any]) -> None:
    with pytest.raises(TkcError) as caught:
        run(copying, array((8, 8), address=0x10002), array((8, 8), (0, 1)))
    assert codes(caught.value) == ["TK406", "TK405"]


@pytest.mark.parametrize("strides", [(17, 1), (3, 9), (0, 0), (-5, 1)])
def test_the_stride_of_a_single_row_is_nobodys_matter(
    copying: dict[str, Any], strides: tuple[int, int]
) -> None:
    """TMA wants a multiple of 16, libraries put anything there: with one row, any number is right."""
    columns = 17 if strides[1] == 1 else 1
    one = array((1, columns), strides)
    bound = run(copying, one, one)
    value = bound.values[0]
    assert isinstance(value, TensorMapValue)
    assert value.map.tiled.strides[0] % 16 == 0
    assert value.map.tiled.strides[0] >= 2 * columns


def test_an_empty_dimension_launches_nothing(copying: dict[str, Any]) -> None:
    for shape in ((0, 8), (8, 0), (0, 0)):
        bound = run(copying, array(shape, (1, 1), address=0), array(shape, (3, 3), address=4))
        assert (bound.action, bound.values) == ("nothing", ())


def test_an_empty_dimension_without_a_rule_launches(copying: dict[str, Any]) -> None:
    """A GEMM with K = 0 writes zeros: the maps of its empty operands must be such that the driver takes them."""
    copying["empty"] = []
    copying["grid"] = [1, 1, 1]
    bound = run(copying, array((100, 0), (0, 1), address=0), array((100, 0), (0, 1), address=0))
    assert bound.action == "launch"
    value = bound.values[0]
    assert isinstance(value, TensorMapValue)
    tiled = value.map.tiled
    assert (tiled.sizes, tiled.address) == ((1, 100), 0x5000)
    assert tiled.strides[0] % 16 == 0
    assert tiled.strides[0] > 0


def test_zero_fill_is_an_action(copying: dict[str, Any]) -> None:
    copying["empty"] = [{"when": ["N"], "do": "zero"}]
    assert run(copying, array((4, 0)), array((4, 0))).action == "zero"


def test_a_grid_of_nothing_is_refused(copying: dict[str, Any]) -> None:
    copying["empty"] = []
    with pytest.raises(TkcError, match=r"the grid has 0 CTAs on axis 0 for M = 4, N = 0.*TK414"):
        run(copying, array((4, 0)), array((4, 0)))


def test_the_grid_is_a_multiple_of_the_cluster(copying: dict[str, Any]) -> None:
    copying["cluster"] = {"size": [2, 1, 1], "preferred": None, "minimum": None}
    assert run(copying, array((8, 128)), array((8, 128))).grid == (2, 1, 1)
    with pytest.raises(
        TkcError, match=r"the grid has 3 CTAs on axis 0 .* needs a multiple of 2.*TK414"
    ):
        run(copying, array((8, 192)), array((8, 192)))


def test_requirements(copying: dict[str, Any]) -> None:
    rest = {"op": "mod", "of": [{"sym": "N"}, 128]}
    copying["requires"] = [
        {
            "test": {"op": "eq", "of": [rest, 0]},
            "message": "N = {N} is no multiple of 128 ({unknown} for M = {M})",
        }
    ]
    run(copying, array((8, 128)), array((8, 128)))
    with pytest.raises(
        TkcError, match=r"N = 64 is no multiple of 128 \(\{unknown\} for M = 8\) \[TK414\]"
    ):
        run(copying, array((8, 64)), array((8, 64)))
    assert fill("{M}{M", {"M": 1}) == "1{M"


def test_sizes_that_no_array_tells(adding: dict[str, Any]) -> None:
    adding["symbols"]["steps"] = []
    adding["args"][3]["value"] = {"op": "mul", "of": [{"sym": "N"}, {"sym": "steps"}]}
    x = array((10,), dtype="f32")
    with pytest.raises(TkcError, match=r"size steps is in no array: give it by name, steps=…"):
        run(adding, x, x, x, 1.0)
    value = run(adding, x, x, x, 1.0, steps=3).values[3]
    assert isinstance(value, ScalarValue)
    assert value.value == 30


def test_a_size_given_by_name_must_agree(adding: dict[str, Any]) -> None:
    x = array((10,), dtype="f32")
    with pytest.raises(TkcError, match="N is 11 by the caller and 10 by axis 0 of X"):
        run(adding, x, x, x, 1.0, N=11)


def test_a_size_may_be_a_scalar(adding: dict[str, Any]) -> None:
    adding["arguments"].append({"name": "n", "dtype": "i32", "scalar": True})
    adding["symbols"]["N"].insert(0, {"argument": "n"})
    x = array((10,), dtype="f32")
    assert run(adding, x, x, x, 1.0, 10).symbols == {"N": 10}
    with pytest.raises(TkcError, match="N is 12 by n and 10 by axis 0 of X"):
        run(adding, x, x, x, 1.0, 12)


def test_fixed_and_computed_dimensions(adding: dict[str, Any]) -> None:
    adding["arguments"][1]["dims"] = [{"op": "add", "of": [{"sym": "N"}, 1]}]
    adding["arguments"][2]["dims"] = [64]
    adding["symbols"]["N"] = {"argument": "X", "dimension": 0}
    views = [array((n,), dtype="f32") for n in (10, 11, 64)]
    run(adding, *views, 1.0)
    with pytest.raises(TkcError, match=r"axis 0 of Y has 10 elements; expected \(N \+ 1\) = 11"):
        run(adding, views[0], views[0], views[2], 1.0)
    with pytest.raises(TkcError, match=r"axis 0 of Z has 11 elements; expected 64 \[TK407"):
        run(adding, views[0], views[1], views[1], 1.0)
    adding["params"] = {"BM": 64, "D": 64, "STAGES": 4}
    with pytest.raises(TkcError, match=r"has 11 elements; expected 64 \(param BM or D\)"):
        run(adding, views[0], views[1], views[1], 1.0)


def test_a_pointer_means_row_major_unless_the_contract_says_more(adding: dict[str, Any]) -> None:
    for argument in adding["arguments"][:3]:
        argument["dims"] = ["N", 4]
    padded, dense = array((10, 4), (8, 1), dtype="f32"), array((10, 4), dtype="f32")
    with pytest.raises(
        TkcError, match=r"X must be row-major without gaps; found strides \(32, 4\) bytes"
    ):
        run(adding, padded, dense, dense, 1.0)
    adding["arguments"][0]["contiguous"] = "major"
    run(adding, padded, dense, dense, 1.0)
    turned = array((10, 4), (1, 16), dtype="f32")
    with pytest.raises(TkcError, match="X: axis 1 must be contiguous"):
        run(adding, turned, dense, dense, 1.0)
    adding["arguments"][0]["major"] = 0
    run(adding, turned, dense, dense, 1.0)
    adding["arguments"][0]["contiguous"] = "none"
    run(adding, array((10, 4), (0, 3), dtype="f32"), dense, dense, 1.0)


def test_packed_elements_are_counted(copying: dict[str, Any]) -> None:
    for argument, arg in zip(copying["arguments"], copying["args"], strict=True):
        argument["dtype"] = arg["dtype"] = "e2m1"
        arg.update(box=[256, 64])
    data = array((10, 128), dtype="u8")
    bound = run(copying, data, data)
    assert bound.symbols == {"M": 10, "N": 256}
    value = bound.values[0]
    assert isinstance(value, TensorMapValue)
    assert (value.map.tiled.sizes, value.map.tiled.strides) == ((256, 10), (128,))


def test_offsets(copying: dict[str, Any]) -> None:
    copying["args"][0]["offset"] = {"op": "mul", "of": [{"stride": ["A", 0]}, 2]}
    value = run(copying, array((8, 64)), array((8, 64))).values[0]
    assert isinstance(value, TensorMapValue)
    assert (value.offset, value.map.tiled.address) == (256, 0x10100)
    copying["args"][0]["offset"] = 4
    with pytest.raises(
        TkcError,
        match=r"the tensor map of A starts at 0x10004, 4 bytes past a multiple of 16.*TK406",
    ):
        run(copying, array((8, 64)), array((8, 64)))


def test_strides_and_device_facts_reach_scalars_and_grid(adding: dict[str, Any]) -> None:
    adding["args"][3].update(value={"stride": ["X", 0]})
    adding["grid"] = [
        {
            "op": "min",
            "of": [{"sym": "sm_count"}, {"op": "mul", "of": [{"sym": "max_clusters"}, 3]}],
        },
        1,
        1,
    ]
    x = array((1000,), dtype="f32")
    bound = run(adding, x, x, x, 1.0)
    assert bound.grid == (132, 1, 1)
    value = bound.values[3]
    assert isinstance(value, ScalarValue)
    assert value.value == 4


def test_sizes_beyond_a_scalar_are_refused(adding: dict[str, Any]) -> None:
    x = array((1 << 31,), dtype="f32")
    with pytest.raises(TkcError, match=r"parameter n: 2147483648 does not fit i32 \[TK501\]"):
        run(adding, x, x, x, 1.0)


def test_gather(adding: dict[str, Any]) -> None:
    assert gather(adding, (1, 2, 3, 4), {}) == ([1, 2, 3, 4], {})
    assert gather(adding, (1, 2), {"alpha": 4, "Z": 3, "N": 9}) == ([1, 2, 3, 4], {"N": 9})
    for given_, named, said in (
        ((1, 2, 3, 4, 5), {}, r"vector_add\(X, Y, Z, alpha\) takes 4 arguments, found 5"),
        ((1, 2), {}, r"takes 4 arguments, found 2: Z, alpha missing"),
        ((1, 2, 3, 4), {"X": 1}, r"X is given twice"),
        ((1, 2, 3, 4), {"Q": 1}, r"has no argument or size Q"),
        ((1, 2, 3, 4), {"N": -1}, r"size N is -1, expected an integer >= 0"),
    ):
        with pytest.raises(TkcError, match=said + r".*TK401"):
            gather(adding, given_, named)


@given(st.floats(width=32, allow_nan=False))
def test_bf16_scalars_round_to_nearest_even(value: float) -> None:
    import ml_dtypes

    with np.errstate(over="ignore"):
        expected = np.array(value, np.float32).astype(ml_dtypes.bfloat16)
    assert pack("bf16", value, "x") == expected.tobytes()


def test_scalars() -> None:
    assert pack("f16", 1.5, "x") == b"\x00\x3e"
    assert pack("i64", -1, "x") == b"\xff" * 8
    assert pack("u8", 255, "x") == b"\xff"
    assert pack("bf16", float("nan"), "x")[1] & 0x7F == 0x7F
    for dtype, value in (
        ("u8", 256),
        ("i32", 1 << 31),
        ("u32", -1),
        ("f16", 1e6),
        ("f32", 1e39),
        ("bf16", 1e39),
    ):
        with pytest.raises(TkcError, match=f"x: .* does not fit {dtype}.*TK501"):
            pack(dtype, value, "x")
    with pytest.raises(TkcError, match=r"no scalar parameters of e4m3"):
        pack("e4m3", 1.0, "x")
    assert number("f32", np.float32(2.5), "x") == 2.5
    assert number("i32", np.int64(7), "x") == 7
    for dtype, value, said in (
        ("i32", 1.5, "expected an integer for i32, found 1.5"),
        ("f32", "1", "found str"),
    ):
        with pytest.raises(TkcError, match=said):
            number(dtype, value, "x")


def test_a_device_that_holds_no_cluster_says_so(adding: dict[str, Any]) -> None:
    """A grid of none is nothing that a caller could mend by other sizes."""
    adding["cluster"] = {"size": [16, 1, 1]}
    adding["grid"] = [{"op": "mul", "of": [{"sym": "max_clusters"}, 16]}, 1, 1]
    x = array((1000,), dtype="f32")
    with pytest.raises(TkcError, match=r"a cluster of 16 CTAs .* does not fit the device.*TK414"):
        bind(adding, [x, x, x, 1.0], {}, {"sm_count": 4, "max_clusters": 0}.__getitem__)

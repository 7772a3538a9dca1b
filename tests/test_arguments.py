"""Arguments on the command line: how they are read, made, packed and compared."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tkc import arguments, scales
from tkc.argument_words import Empty, FromFile, Number, Random, Several, Values, Zeros, parse
from tkc.backend.arrays import ACCEPTS
from tkc.comparison import check_expected, compare
from tkc.diagnostics import TkcError
from tkc.ir.isa.dtypes import DTYPES

KERNEL = {
    "entry": "gemm",
    "symbols": {"M": [{"argument": "A", "dimension": 0}], "steps": []},
    "arguments": [
        {"name": "A", "dtype": "bf16", "dims": ["M", "K"], "access": "read"},
        {"name": "C", "dtype": "f32", "dims": ["M", "N"], "access": "write"},
        {"name": "n", "dtype": "i32", "scalar": True},
        {"name": "alpha", "dtype": "f32", "scalar": True},
    ],
}
GIVEN = ["A=random(4,6,seed=3)", "C=empty(4,2)", "n=7", "alpha=0.5", "steps=2"]


def test_every_form_is_read() -> None:
    words = [
        "A=a.npy",
        "B=random(512, 256, seed=3)",
        "C=empty(512,256)",
        "D=zeros(0)",
        "n=7",
        "x=-1.5e3",
        "S=random()",
        "r=[130, 7,0]",
        "L=[random(2,3,seed=1), a.npy,[1,.5],empty(0,3)]",
        "none=[ ]",
    ]
    assert parse(words) == {
        "A": FromFile("a.npy"),
        "B": Random((512, 256), 3),
        "C": Empty((512, 256)),
        "D": Zeros((0,)),
        "n": Number(7),
        "x": Number(-1500.0),
        "S": Random(()),
        "r": Values((130, 7, 0)),
        "L": Several((Random((2, 3), 1), FromFile("a.npy"), Values((1, 0.5)), Empty((0, 3)))),
        "none": Values(()),
    }


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("A", "expected NAME=FILE.npy"),
        ("=a.npy", "expected NAME="),
        ("A=randon(3)", "did you mean random"),
        ("A=random(3,x)", "a dimension is x"),
        ("A=random(-3)", "a dimension is -3"),
        ("A=random(3,,4)", "a dimension is missing"),
        ("A=random(seed=1,3)", "before the seed"),
        ("A=empty(3,seed=1)", "no option seed"),
        ("A=random(3,mean=1)", "no option mean"),
        ("A=random(9999999999999999999999)", "a dimension"),
        ("A=[1,2", "the bracket is not closed"),
        ("A=[1,,2]", "element 1 of the list is missing"),
        ("A=[1,random(3)]", r"holds numbers or arrays; found 1 and random\(3\)"),
        ("A=[[1,x]]", "x is no number"),
        ("A=" + "[" * 5000 + "]" * 5000, "no number"),
        ("A=[random(3,x)]", "a dimension is x"),
    ],
)
def test_what_cannot_be_read_is_said(word: str, says: str) -> None:
    with pytest.raises(TkcError, match=says) as caught:
        parse([word])
    assert caught.value.diagnostics[0].code == "TK412"


def test_every_bad_word_is_reported_at_once() -> None:
    with pytest.raises(TkcError) as caught:
        parse(["A", "B=nothing(1)", "C=1", "C=2"])
    assert len(caught.value.diagnostics) == 3


def test_values_come_in_the_order_of_the_contract() -> None:
    (a, c, n, alpha), symbols = arguments.make(parse(reversed(GIVEN)), KERNEL)
    assert (a.shape, a.dtype) == ((4, 6), ml_dtypes.bfloat16)
    assert (c.shape, c.dtype) == ((4, 2), np.float32)
    assert np.isnan(c).all()
    assert (n, alpha, symbols) == (7, 0.5, {"steps": 2})


def test_missing_and_unknown_arguments_are_one_error() -> None:
    with pytest.raises(TkcError) as caught:
        arguments.make(parse(["A=random(4,6)", "Alpha=1"]), KERNEL)
    assert "did you mean alpha" in str(caught.value)
    assert "needs C, n, alpha, steps" in str(caught.value)
    assert "'C=empty(M,N)' n=1 alpha=1 steps=1" in str(caught.value)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("A=3", "an array of bf16"),
        ("n=random(3)", "a scalar of i32"),
        ("n=1.5", "a scalar of i32, found 1.5"),
        ("steps=1.5", "expected an integer"),
        ("A=missing.npy", "no such file"),
        ("A=missing.npz", "no such file"),
        ("A=[random(3,4),random(3)]", "one array of bf16, found a list of 2 arrays"),
        ("A=[1e39]", "holds bf16, which has no 1e.39"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(word: str, says: str) -> None:
    given = [w for w in GIVEN if w.split("=")[0] != word.split("=")[0]]
    with pytest.raises(TkcError, match=says):
        arguments.make(parse([*given, word]), KERNEL)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_can_be_random_and_poisoned(dtype: str) -> None:
    made = arguments.random((3, 8), dtype, seed=1)
    again = arguments.random((3, 8), dtype, seed=1)
    assert made.tobytes() == again.tobytes()
    assert made.tobytes() != arguments.random((3, 8), dtype, seed=2).tobytes()
    assert made.nbytes == 3 * DTYPES[dtype].bits
    values = arguments.values_of(made, dtype).astype(np.float64)
    assert np.isfinite(values).all()
    if DTYPES[dtype].floating:
        assert np.abs(values).max() <= 1
    if dtype.startswith("ue"):
        assert values.min() > 0
    empty = arguments._filled((3, 8), dtype, 0xFF)
    assert (empty.shape, empty.dtype) == (made.shape, made.dtype)


def test_tf32_values_are_exact_in_tf32() -> None:
    made = arguments.random((64,), "tf32", seed=0)
    assert not (made.view(np.uint32) & 0x1FFF).any()


def test_packing_puts_the_low_element_first() -> None:
    values = np.array([[1.0, -0.5, 6.0, 0.0]], np.float32).astype(ml_dtypes.float4_e2m1fn)
    packed = arguments.pack(values, "e2m1")
    assert packed.tolist() == [[0x92, 0x07]]
    assert (arguments.unpack(packed, "e2m1") == values).all()


@pytest.mark.parametrize("dtype", ["e2m1", "e2m3", "e3m2"])
def test_packing_and_unpacking_are_inverse(dtype: str) -> None:
    packed = arguments.random((5, 16), dtype, seed=4)
    assert (arguments.pack(arguments.unpack(packed, dtype), dtype) == packed).all()


def test_a_last_dimension_that_fills_no_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="no whole number of bytes"):
        arguments.random((4, 3), "e2m1", seed=0)


@pytest.mark.parametrize("dtype", arguments.NUMPY)
def test_what_is_saved_comes_back_by_numpy_and_here(dtype: str, tmp_path: Path) -> None:
    made = arguments.random((4, 8), dtype, seed=0)
    arguments.save(str(tmp_path / "a.npy"), made)
    arguments.save(str(tmp_path / "a.npz"), [made, made[1:]])
    back = arguments.load(str(tmp_path / "a.npy"), dtype)
    _, rest = arguments.load_list(str(tmp_path / "a.npz"), dtype)
    assert back.dtype == rest.dtype == made.dtype
    assert back.tobytes() == made.tobytes() == np.load(tmp_path / "a.npy").tobytes()
    assert rest.tobytes() == made[1:].tobytes()


@pytest.mark.parametrize("dtype", [d for d, has in ACCEPTS.items() if {"u8", "u16"} & {*has}])
def test_bits_are_compared_as_the_values_they_are(dtype: str, tmp_path: Path) -> None:
    made = arguments.random((4, 8), dtype, seed=0)
    bits = made if made.dtype == bool else made.view(f"u{made.itemsize}")
    other = bits[::-1].copy()
    values = arguments.values_of(bits, dtype)
    for name, array in (("bits", bits), ("other", other)):
        np.save(tmp_path / f"{name}.npy", array)
    if dtype != "ue5m3":
        assert (
            values.astype(np.float64).tobytes()
            == arguments.values_of(made, dtype).astype(np.float64).tobytes()
        )
        arguments.save(str(tmp_path / "values.npy"), values)
    else:
        np.save(tmp_path / "values.npy", values)
    for found in (made, bits):
        for name in ("bits", "values"):
            (said,) = check_expected(
                {"A": (found, dtype)}, {"A": str(tmp_path / f"{name}.npy")}, 0.0
            )
            assert "relative error 0 " in said
        with pytest.raises(TkcError, match="worst at") as error:
            check_expected({"A": (found, dtype)}, {"A": str(tmp_path / "other.npy")}, 0.0)
        assert error.value.diagnostics[0].code == "TK413"


def test_integers_of_the_width_of_f32_are_values(tmp_path: Path) -> None:
    np.save(tmp_path / "n.npy", np.arange(5, dtype=np.uint32))
    found = np.arange(5, dtype=np.float32)
    assert check_expected({"A": (found, "f32")}, {"A": str(tmp_path / "n.npy")}, 0.0)


def test_a_file_that_is_no_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"not an array")
    with pytest.raises(TkcError, match="no array saved by NumPy"):
        arguments.load(str(path), "f32")
    np.savez(tmp_path / "b.npz", a=np.zeros(3))
    with pytest.raises(TkcError, match="several arrays"):
        arguments.load(str(tmp_path / "b.npz"), "f32")
    whole = (tmp_path / "b.npz").read_bytes()
    for cut in range(0, len(whole)):
        (tmp_path / "c.npz").write_bytes(whole[:cut] + b"?" + whole[cut + 1 :])
        with suppress(TkcError):
            arguments.load_list(str(tmp_path / "c.npz"), "f32")
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as made:
        made.writestr("note.txt", "not an array")
    with pytest.raises(TkcError, match="something in it is no array"):
        arguments.load_list(str(tmp_path / "d.npz"), "f32")


def test_why_a_file_is_no_array_is_said_without_numpys_advice(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("program", "objects.npy", "e5m2.npy")]
    paths[0].write_bytes(b"\x7fELF\x02\x01\x01")
    np.save(paths[1], np.array([{}, 3], object))
    np.save(paths[2], np.zeros(3, ml_dtypes.float8_e5m2))
    for path, why in zip(
        paths, ("that numpy.save", "Python objects", "save its bits"), strict=True
    ):
        with pytest.raises(TkcError, match=why) as error:
            arguments.load(str(path), "e5m2")
        assert "pickle" not in str(error.value)


def test_comparison_is_relative_and_sees_nan() -> None:
    wanted = np.array([3.0, 4.0, np.nan, np.inf])
    assert compare(wanted, wanted).error == 0
    near = compare(np.array([3.0, 4.5, np.nan, np.inf]), wanted)
    assert near.error == pytest.approx(0.1)
    assert near.at == (1,)
    assert near.within(0.11)
    assert not near.within(0.09)
    poisoned = compare(np.array([3.0, np.nan, np.nan, np.inf]), wanted)
    assert poisoned.strangers == 1
    assert poisoned.at == (1,)
    assert not poisoned.within(1.0)
    assert not compare(np.array([np.inf]), np.array([-np.inf])).within(1.0)
    assert not compare(np.array([1e-9]), np.array([0.0])).within(0.5)


def test_expected_files_are_judged(tmp_path: Path) -> None:
    wanted = np.ones((2, 2), np.float64)
    np.save(tmp_path / "ref.npy", wanted)
    found = {"C": (wanted.astype(np.float32) * np.float32(1.001), "f32")}
    ref = {"C": str(tmp_path / "ref.npy")}
    assert "relative error 0.001" in check_expected(found, ref, 3e-3)[0]
    with pytest.raises(TkcError, match=r"worst at \[0, 0\]: 1\.00") as caught:
        check_expected(found, ref, 1e-4)
    assert caught.value.diagnostics[0].code == "TK413"
    with pytest.raises(TkcError, match="has shape"):
        check_expected({"C": (np.ones(3, np.float32), "f32")}, ref, 1e-4)


def test_dtypes_may_be_called_as_elsewhere() -> None:
    for name, dtype in {
        "bf16": "bf16",
        "bfloat16": "bf16",
        "float16": "f16",
        "float32": "f32",
        "float8_e4m3fn": "e4m3",
        "s32": "i32",
        "i8": "s8",
        "b64": "u64",
        "int64": "i64",
        "float64": "f64",
    }.items():
        assert arguments.dtype_named(name) == dtype
    with pytest.raises(ValueError, match="no dtype f33; did you mean f32"):
        arguments.dtype_named("f33")


@pytest.mark.parametrize("dtype", arguments.NUMPY)
def test_every_dtype_can_be_made(dtype: str) -> None:
    made = arguments.make_array(Random((4, 8), 1), dtype, "A")
    assert arguments.values_of(made, dtype).shape == (4, 8)
    kept = np.dtype(np.float64) if dtype == arguments.BITS_ALONE else arguments.numpy_dtype(dtype)
    assert arguments.values_of(made, dtype).dtype == kept
    assert made.nbytes * 8 == 32 * arguments.bits_of(dtype)
    poisoned = arguments.make_array(Empty((4, 8)), dtype, "A")
    assert set(poisoned.view(np.uint8).ravel().tolist()) == {1 if dtype == "bool" else 255}


@pytest.mark.parametrize("dtype", arguments.NUMPY)
def test_values_are_written_out(dtype: str) -> None:
    if dtype == arguments.BITS_ALONE:
        with pytest.raises(ValueError, match="cannot be written out"):
            arguments.make_array(Values((1,)), dtype, "A")
        return
    numbers = (1, 0, 1, 1) if dtype == "bool" else (1, 2, 4, 2)
    made = arguments.make_array(Values(numbers), dtype, "A")
    assert made.nbytes * 8 == 4 * arguments.bits_of(dtype)
    assert arguments.values_of(made, dtype).astype(np.float64).tolist() == list(numbers)
    if not arguments._is_floating(dtype):
        for wrong in (0.5, 2**64, -(2**63) - 1):
            with pytest.raises(ValueError, match=f"holds {dtype}, found"):
                arguments.make_array(Values((1, wrong)), dtype, "A")


LISTED = {
    "entry": "grouped",
    "symbols": {},
    "arguments": [
        {"name": "rows", "dtype": "i32", "dims": ["G"], "access": "read"},
        {"name": "A", "dtype": "f32", "dims": ["G", None, "K"], "access": "read", "list": True},
    ],
}


@pytest.mark.parametrize(
    ("word", "shapes"),
    [
        ("A=random(2,3,4)", [(3, 4), (3, 4)]),
        ("A=[random(5,4),zeros(0,4)]", [(5, 4), (0, 4)]),
        ("A=random(0,3,4)", []),
        ("A=[]", []),
        ("A=stacked.npy", [(3, 4), (3, 4)]),
        ("A=several.npz", [(1, 4), (2, 4)]),
    ],
)
def test_lists_are_made(
    word: str, shapes: list[tuple[int, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments.save("stacked.npy", arguments.random((2, 3, 4), "f32", 1))
    arguments.save("several.npz", [arguments.random((i, 4), "f32", i) for i in (1, 2)])
    (rows, made), _ = arguments.make(parse(["rows=[3,-1]", word]), LISTED)
    assert (rows.tolist(), rows.dtype) == ([3, -1], np.int32)
    assert [x.shape for x in made] == shapes
    assert all(x.base is None for x in made) or word.endswith("npz")


def test_arrays_of_a_list_differ_without_seeds() -> None:
    (_, (a, b)), _ = arguments.make(parse(["rows=[1]", "A=[random(2,3),random(2,3)]"]), LISTED)
    assert (a != b).all()


def test_what_is_no_list_is_refused() -> None:
    for word, says in (
        ("A=random(3,4)", r"rank 2; found one array of shape \(3, 4\), expected one of rank 3"),
        ("A=[1,2]", r"found one array of shape \(2,\)"),
        ("A=3", "a list of arrays of f32, found the number 3"),
    ):
        with pytest.raises(TkcError, match=says) as caught:
            arguments.make(parse(["rows=[3]", word]), LISTED)
        assert len(caught.value.diagnostics) == 1
    with pytest.raises(TkcError) as caught:
        arguments.make({}, LISTED)
    assert caught.value.diagnostics[0].help == "'rows=[1,2,…]' 'A=[random(…,K),…]'"


def test_expected_lists_are_judged(tmp_path: Path) -> None:
    found = {"C": ([np.ones((2, 2), np.float32), np.full((1, 2), 2, np.float32)], "f32")}

    def told(*wanted: np.ndarray) -> str:
        path = str(tmp_path / "ref.npz")
        np.savez(path, *wanted)
        return check_expected(found, {"C": path}, 1e-3)[0]

    two = np.full((1, 2), 2.0)
    assert told(np.ones((2, 2)), two) == "C: relative error at most 0 (<= 0.001) in 2 arrays"
    for wanted, says in (
        ((np.ones((2, 2)), two * 1.01), r"C\[1\]: relative error 0.0099.*; 1 of 2 arrays differ"),
        ((np.ones((2, 2)) * 2, two * 9), r"C\[1\]: .*; 2 of 2 arrays differ"),
        ((np.ones((2, 2)), np.ones((2, 1))), r"C\[1\] has shape \(1, 2\)"),
        ((two,), "C has 2 arrays, .* has 1"),
    ):
        with pytest.raises(TkcError, match=says) as caught:
            told(*wanted)
        assert [d.code for d in caught.value.diagnostics] == ["TK413"]


SCALED = {
    "entry": "gemm",
    "symbols": {},
    "arguments": [
        {"name": "A", "dtype": "e2m1", "dims": ["M", "K"], "access": "read"},
        {
            "name": "A.scales",
            "dtype": "ue4m3",
            "dims": [2048],
            "access": "read",
            "scales": {"of": "A", "block": 16},
        },
    ],
}


def test_random_data_come_with_their_scales() -> None:
    (data, packed), _ = arguments.make(parse(["A=random(130,96,seed=4)"]), SCALED)
    assert (data.shape, packed.shape) == ((130, 48), (256 * 8,))
    plain = scales.row_major(packed, 130, 6)
    real = scales.dequantise(data, plain, "e2m1", scale="ue4m3", block=16)
    wanted = arguments.random((130, 96), "f32", 4)
    assert np.abs(real - wanted).max() < 0.2
    (data, packed), _ = arguments.make(parse(["A=zeros(130,96)"]), SCALED)
    assert not data.any()
    assert not scales.row_major(packed, 130, 6).any()  # of blocks without a number that is not 0
    assert set(packed.tolist()) == {0, scales.NEUTRAL["ue4m3"]}  # and of those that are not there


@pytest.mark.parametrize("word", ["A=[random(130,96),random(0,96)]", "A=random(2,130,96)"])
def test_random_data_of_a_list_come_with_their_scales(word: str) -> None:
    listed = [
        {**a, "list": True, "dims": ["G", None, "K"] if "scales" not in a else ["G", None]}
        for a in SCALED["arguments"]
    ]
    symbols = {"G": [{"argument": "A", "dimension": 0}], "K": [{"argument": "A", "dimension": 2}]}
    (data, packed), _ = arguments.make(
        parse([word]), {**SCALED, "arguments": listed, "symbols": symbols}
    )
    rows = (130, 0) if "[" in word else (130, 130)
    for of_one, its, count in zip(data, packed, rows, strict=True):
        assert of_one.shape == (count, 48)
        assert its.shape == (-(-count // 128) * 128 * 8,)


def test_scales_from_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full((130, 48), 3, np.uint8))
    np.save(tmp_path / "s.npy", np.full(2048, 7, np.uint8))
    words = [f"A={tmp_path}/a.npy", f"A.scales={tmp_path}/s.npy"]
    values, _ = arguments.make(parse(words), SCALED)
    assert [v.shape for v in values] == [(130, 48), (2048,)]
    with pytest.raises(TkcError, match=r"needs A.scales") as raised:
        arguments.make(parse(words[:1]), SCALED)
    assert raised.value.diagnostics[0].help == "A.scales=FILE.npy"
    with pytest.raises(TkcError, match=r"gemm needs A$|gemm needs A "):
        arguments.make({}, SCALED)

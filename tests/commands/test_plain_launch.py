"""Anybody's PTX on the command line: arguments in words and in files, and one clear error for what cannot be run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from emulate_command import (
    GEMM,
    LAUNCH,
    SCALE_WORDS,
    WORDS,
    emulate,
    one_error,
    write_texts,
)
from small_ptx import SCALE

from tkc import arguments


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path)


def test_a_text_is_launched_by_words(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("ref.npy", 2 * arguments.random((100,), "f32", 1))
    more = ("--expect", "y=ref.npy", "--rtol", "0")
    assert emulate("scale.ptx", *LAUNCH, *SCALE_WORDS, *more) == 0
    assert capsys.readouterr().out.endswith("scale: 2 CTAs, 65 steps, nothing found\n")


def test_a_text_is_launched_by_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.arange(100, dtype=np.float32))
    np.save("ref.npy", 3 * np.arange(100, dtype=np.float32))
    launch = {
        "schema": "tkc-plain-launch/1",
        "ptx": "scale.ptx",
        "grid": [2],
        "args": {"x": "x.npy", "y": "f32:empty(100)", "factor": "f32:3", "n": 100},
    }
    Path("launch.json").write_text(json.dumps(launch))
    more = ("--expect", "y=ref.npy", "--rtol", "0")
    assert emulate("launch.json", *more) == 0
    assert emulate("scale.ptx", "--launch", "launch.json", *more) == 0
    # A word gives a new value, in the dtype of the file; an option a new number.
    assert emulate("launch.json", "y=zeros(100)", "n=64", *more) == 1
    assert emulate("launch.json", "--grid", "1", *more) == 1
    capsys.readouterr()
    assert emulate("launch.json", "facto=1") == 1
    one_error(capsys.readouterr().err, "the launch has no argument facto; did you mean factor?")


def test_a_dependent_launch_is_said_in_words_or_in_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert emulate("scale.ptx", *LAUNCH, *SCALE_WORDS, "--dependent") == 1
    assert "nothing orders this after a griddepcontrol.wait" in capsys.readouterr().err
    names = ("x=f32:random(100)", "y=f32:empty(100)", "factor=f32:2", "n=i32:100")
    args = dict(word.split("=", 1) for word in names)
    launch = {"schema": "tkc-plain-launch/1", "ptx": "scale.ptx", "grid": [2], "args": args}
    for dependent in (False, True):
        Path("launch.json").write_text(json.dumps({**launch, "dependent": dependent}))
        assert emulate("launch.json") == int(dependent)
    Path("waits.ptx").write_text(re.sub(r"\n\{", "\n{\n    griddepcontrol.wait;", SCALE, count=1))
    assert emulate("waits.ptx", *LAUNCH, *SCALE_WORDS, "--dependent") == 0


@pytest.mark.parametrize("name", ["tile", "tile_by_pointer"])
@pytest.mark.parametrize(
    "map_word",
    [
        "map=map(f16:random(20,24,seed=1), box=8x8)",
        "map=map(f16:random(20,24,seed=1), sizes=24x20, strides=48, box=8x8, element_strides=1x1,"
        " interleave=none, swizzle=none, l2_promotion=128B, fill=zero, offset=0, dtype=bf16)",
    ],
)
def test_tensor_maps_are_given_by_their_fields(name: str, map_word: str) -> None:
    x = arguments.random((20, 24), "f16", 1)
    np.save("ref.npy", x[:8, :8].reshape(64))
    words = (map_word, "out=f16:empty(64)", "--expect", "out=ref.npy", "--rtol", "0")
    assert emulate(f"{name}.ptx", "--grid", "1", *words) == 0


def test_an_array_may_stand_twice_and_a_pointer_be_null(tmp_path: Path) -> None:
    np.save("ref.npy", 2 * arguments.random((64,), "f32", 1))
    words = ("x=f32:random(64,seed=1)", "y=@x", "factor=f32:2", "n=i32:64", "--expect", "x=ref.npy")
    assert emulate("scale.ptx", "--grid", "1", *words) == 0
    assert emulate("scale.ptx", "--grid", "1", "x=null", "y=null", "factor=f32:2", "n=i32:0") == 0


ARRAYS = ("--array", "x=f32:random(100,seed=1)", "--array", "y=f32:empty(100)")


def test_a_parameter_may_be_a_structure() -> None:
    np.save("ref.npy", 2 * arguments.random((100,), "f32", 1))
    Path("image.bin").write_bytes(bytes(16) + np.float32(2).tobytes() + np.int32(100).tobytes())
    more = ("--expect", "y=ref.npy", "--rtol", "0")
    for word in (
        "p=struct(0=@x, 8=@y, 16=f32:2, 20=i32:100)",
        "p=struct(image.bin, 0=@x, 8=@y)",
        "p=struct(image.bin, 8=@y, 0=f32:random(100,seed=1))",
    ):
        assert emulate("scale_struct.ptx", *LAUNCH, *ARRAYS, word, *more) == 0
    launch = {
        "schema": "tkc-plain-launch/1",
        "grid": 2,
        "arrays": {"x": "f32:random(100,seed=1)", "y": "f32:empty(100)"},
        "args": {"p": {"struct": {"0": "@x", "8": "@y", "16": "f32:3"}, "image": "../image.bin"}},
    }
    Path("folder").mkdir()
    Path("folder/launch.json").write_text(json.dumps(launch))
    words = ("scale_struct.ptx", "--launch", "folder/launch.json", *more)
    assert emulate(*words) == 1
    assert emulate(*words, "p=struct(image.bin, 0=@x, 8=@y)") == 0
    assert emulate(*words, "p=struct(image.bin, 0=@x, 8=@y)", "x=random(100,seed=2)") == 1


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("p=struct(0=@x, 8=@y, 16=f32:2, 20=100)", "the number at 20 has no width"),
        (
            "p=struct(0=@x, 8=@y, 16=f32:2, 24=i32:100)",
            "(p) at 24 has 4 bytes, and the parameter has 24",
        ),
        ("p=struct(0=@x, 8=@y, 16=f32:2, 16=f32:2)", "offset 16 is given twice"),
        ("p=struct(0=@x, y=@y)", "y is no offset"),
        ("p=struct(0=@x, @y)", "@y in a structure, expected OFFSET=VALUE"),
        ("p=struct(0=@z)", "no array z stands before it"),
        ("p=struct(0=struct(0=@x))", "a structure in a structure"),
        ("p=struct(none.bin, 0=@x)", "none.bin cannot be read: No such file"),
        ("p=struct(scale.ptx, 0=@x)", "bytes, and the parameter has 24"),
        ("p=struct(0=@x", "the parenthesis is not closed"),
        ("p=@x", "(p) is a pointer, and the parameter has 24 bytes"),
    ],
)
def test_structures_that_do_not_fit(
    word: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulate("scale_struct.ptx", *LAUNCH, *ARRAYS, word) == 1
    one_error(capsys.readouterr().err, says)


def test_arrays_beside_the_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    for words, says in (
        (("--array", "x=i32:7"), "x cannot be made: expected an array"),
        (("--array", "x=null"), "x cannot be made: expected an array"),
        ((*ARRAYS[:2], *ARRAYS[:2]), "x is given twice"),
        ((*ARRAYS[:2], "x=f32:zeros(3)"), "x is given twice"),
    ):
        assert emulate("scale_struct.ptx", *LAUNCH, *words) == 1
        one_error(capsys.readouterr().err, says)
    assert emulate(GEMM, *ARRAYS, *WORDS) == 2
    assert "--array is for a PTX text alone" in capsys.readouterr().err


def test_one_entry_of_several_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("two.ptx", "--grid", "1", "--block", "32")
    assert emulate(*words, "--entry", "second") == 0
    assert capsys.readouterr().out.startswith("second: 1 CTA, ")
    assert emulate(*words) == 1
    assert "the PTX has 2 entries (first, second)" in capsys.readouterr().err
    assert emulate(*words, "--entry", "secund") == 1
    assert "nearest is second" in capsys.readouterr().err
    assert emulate(*words, "--entry", "first", "--kernel", "second") == 2


def test_a_kernel_of_another_compiler_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    """As docs/emulator.md has it."""
    a, b = (arguments.random((192, 192), "bf16", seed).astype(np.float64) for seed in (1, 2))
    np.save("ref.npy", a @ b.T)
    operands = {"a": "random(192,192,seed=1)", "b": "random(192,192,seed=2)", "c": "empty(192,192)"}
    words: list[str] = []
    for name, data in operands.items():
        words.append(f"{name}=map(bf16:{data}, box=64x128, swizzle=128B)")
        words += [f"{name}0=192", f"{name}1=192", f"s{name}0=192", f"s{name}1=1"]
    text = Path(__file__).parents[1] / "emulator" / "foreign" / "ptx" / "tma_bf16_sm100.ptx"
    launch = ("--grid", "2,2", "--shared-bytes", "98352")
    more = ("M=192", "N=192", "K=192", "scratch=null", "profile=null", "--expect", "c=ref.npy")
    assert emulate(str(text), *launch, *words, *more) == 0
    out, err = capsys.readouterr()
    assert out.startswith("c: relative error 0.00")
    assert err == ""


# What cannot be run: one clear error each


def bad_text(old: str, new: str) -> str:
    assert old in SCALE
    return SCALE.replace(old, new)


BAD_TEXTS = {
    "a line that is no PTX": (
        bad_text("ld.global.f32 %f2, [%rd1];", "ld.global.f32 %f2 [%rd1];"),
        "TK417",
    ),
    "no directive": ("kernel k():\n", "TK417"),
    "no target": (bad_text(".target sm_90a\n", ""), "TK417"),
    "another target": (bad_text("sm_90a", "sm_75"), "TK201"),
    "an unknown instruction": (bad_text("mul.f32 %f3", "mull.f32 %f3"), "TK416"),
    "an unknown register": (bad_text("%f3, %f2, %f1", "%f3, %f9, %f1"), "TK416"),
    "an unknown label": (bad_text("@%p1 ret;", "@%p1 bra NOWHERE;"), "TK417"),
    "an end that is missing": (SCALE[: SCALE.rindex("}")], "TK417"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_text_that_cannot_be_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, code = BAD_TEXTS[name]
    Path("bad.ptx").write_text(text)
    assert emulate("bad.ptx", *LAUNCH, *SCALE_WORDS) == 1
    one_error(capsys.readouterr().err, "bad.ptx", code)


X, Y, FACTOR, N = SCALE_WORDS


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            (X, Y, FACTOR),
            "takes 4 arguments (.u64 x, .u64 y, .f32 factor, .u32 n), 3 are given [TK401]",
        ),
        ((X, Y, FACTOR, N, "q=1"), "5 are given [TK401]"),
        ((X, Y, FACTOR, "n=i64:100"), "(n) has 8 bytes, and the parameter has 4 bytes [TK403]"),
        ((X, Y, "factor=f64:2", N), "(factor) has 8 bytes, and the parameter has 4 bytes [TK403]"),
        ((X, Y, FACTOR, "n=5000000000"), "does not fit 4 bytes [TK501]"),
        ((X, Y, FACTOR, "n=u8:300"), "300 does not fit u8"),
        ((X, Y, FACTOR, "n=null"), "(n) is a pointer, and the parameter has 4 bytes [TK403]"),
        (("x=map(f32:zeros(8,8), box=8x8)", Y, FACTOR, "n=f32:zeros(4)"), "(n) is a pointer"),
        (("x=random(100)", Y, FACTOR, N), "x cannot be made: it has no dtype"),
        (("x=f99:random(100)", Y, FACTOR, N), "no dtype f99"),
        (("x=f32:randm(100)", Y, FACTOR, N), "did you mean random"),
        (("x=f32:random(100", Y, FACTOR, N), "the parenthesis is not closed"),
        (("x=map(f32:random(100), box=8", Y, FACTOR, N), "the parenthesis is not closed"),
        (("x=map(f32:random(8,8))", Y, FACTOR, N), "a tensor map needs a box"),
        (("x=map(f32:random(8,8), box=8xa)", Y, FACTOR, N), "box is 8xa, expected numbers"),
        (("x=map(f32:random(8,8), bocks=8)", Y, FACTOR, N), "did you mean box?"),
        (("x=map(f32:random(8,8), box=8x8, box=8x8)", Y, FACTOR, N), "box is given twice"),
        (("x=map(f32:7, box=8x8)", Y, FACTOR, N), "a tensor map needs an array"),
        (("x=map(f32:random(8,8), box=8x8x8)", Y, FACTOR, N), "x: tensor map: "),
        (("x=map(f32:random(8,3), box=3x8)", Y, FACTOR, N), "x: tensor map: "),
        (("x=map(f32:random(8,8), box=8x8, swizzle=7B)", Y, FACTOR, N), "x: tensor map: "),
        (("x=map(f32:random(8,8), box=8x8, sizes=8)", Y, FACTOR, N), "need strides"),
        (("x=@y", Y, FACTOR, N), "no array y stands before it"),
        ((X, X, FACTOR, N), "x is given twice"),
        (("x", Y, FACTOR, N), "'x' is no argument"),
        (("x=missing.npy", Y, FACTOR, N), "missing.npy cannot be read: no such file or directory"),
        (("x=scale.ptx", Y, FACTOR, N), "scale.ptx is no array saved by NumPy"),
        (("x=bits.npy", Y, FACTOR, N), "bits.npy holds bits without a dtype"),
        (("x=texts.npy", Y, FACTOR, N), "no dtype str96"),
        ((X, Y, FACTOR, N, "--out", "z=z.npy"), "the kernel has no array z; there are x, y"),
        ((X, Y, FACTOR, N, "--expect", "n=n.npy"), "the kernel has no array n"),
        ((X, Y, FACTOR, N, "--expect", "y=none.npy"), "none.npy cannot be read"),
        ((X, Y, FACTOR, N, "--out", "y=scale.ptx/y.npy"), "cannot be written"),
        ((X, Y, FACTOR, N, "--trace", "scale.ptx/t.json"), "cannot be written"),
    ],
)
def test_arguments_that_do_not_fit(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("bits.npy", np.zeros(3, "V2"))
    np.save("texts.npy", np.array(["abc"]))
    assert emulate("scale.ptx", *LAUNCH, *words) == 1
    one_error(capsys.readouterr().err, says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--grid", "1", "--block", "32"),
            "block (32, 1, 1), and the kernel says .reqntid 64 [TK418]",
        ),
        (("--grid", "1", "--block", "2048"), "2048 threads in a CTA, at most 1024 [TK208]"),
        (("--grid", "1", "--block", "1,1,65"), "at most 64 along z [TK418]"),
        (("--grid", "1,70000"), "at most 65535 along y [TK418]"),
        (("--grid", "3", "--cluster", "2"), "grid (3, 1, 1) is no multiple of cluster (2, 1, 1)"),
        (("--grid", "32", "--cluster", "32"), "32 CTAs in a cluster, at most 16 [TK418]"),
        (("--grid", "1", "--shared-bytes", "300000"), "sm_90a has 232448 [TK204]"),
    ],
)
def test_impossible_launches(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulate("scale.ptx", *words, *SCALE_WORDS) == 1
    one_error(capsys.readouterr().err, says)


def test_a_cluster_that_the_kernel_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.ptx").write_text(bad_text(".reqntid 64", ".reqntid 64\n.reqnctapercluster 2"))
    assert emulate("k.ptx", "--grid", "4", *SCALE_WORDS) == 0
    capsys.readouterr()
    assert emulate("k.ptx", "--grid", "4", "--cluster", "4", *SCALE_WORDS) == 1
    one_error(capsys.readouterr().err, "the kernel says .reqnctapercluster 2 [TK418]")


def test_a_kernel_without_a_size_needs_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate("two.ptx", "--entry", "first", "--grid", "1") == 2
    assert "or --block and the arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "does not exist"),
        (b"", "the file is empty"),
        (b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_texts_that_cannot_be_read(
    data: bytes | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if data is not None:
        Path("k.ptx").write_bytes(data)
    assert emulate("k.ptx", "--grid", "1") == 1
    one_error(capsys.readouterr().err, says)


def test_a_folder_is_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.ptx").mkdir()
    assert emulate("k.ptx", "--grid", "1") == 1
    one_error(capsys.readouterr().err, "is a folder")


ARGS = '"args": {"x": "f32:random(100)", "y": "f32:empty(100)", "factor": 2.0, "n": 100}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "launch.json cannot be read: no such file or directory [TK411]"),
        ("{", "launch.json is no JSON"),
        ("[" * 100000, "launch.json is no JSON"),
        ("[]", "schema: expected tkc-launch/1"),
        ('{"schema": "tkc-launch/2"}', "schema: expected tkc-launch/1"),
        ('{"schema": "tkc-plain-launch/1"}', "launch.json: args missing"),
        ('{"schema": "tkc-plain-launch/1", "args": []}', "an object of arguments in order"),
        ('{"schema": "tkc-plain-launch/1", "gird": 1, "args": {}}', "unknown key gird"),
        ('{"schema": "tkc-plain-launch/1", "grid": 0, "args": {}}', "a positive number"),
        ('{"schema": "tkc-plain-launch/1", "grid": [1, 1, 1, 1], "args": {}}', "a list of 1..3"),
        ('{"schema": "tkc-plain-launch/1", "shared_bytes": -1, "args": {}}', "an integer >= 0"),
        ('{"schema": "tkc-plain-launch/1", "args": {"a": 1, "a": 2}}', "a stands twice"),
        ('{"schema": "tkc-plain-launch/1", "args": {"a b": 1}}', "names of letters"),
        ('{"schema": "tkc-plain-launch/1", "args": {"a": true}}', 'or {"struct": …}'),
        ('{"schema": "tkc-plain-launch/1", "args": {"a": "f32:rand(3)"}}', "args.a: no maker rand"),
        (
            '{"schema": "tkc-plain-launch/1", "args": {"a": {"map": "f32:zeros(8,8)"}}}',
            "needs a box",
        ),
        (
            '{"schema": "tkc-plain-launch/1", "args": {"a": {"map": "f32:zeros(8,8)", "box": "8"}}}',
            "args.a.box: expected a list",
        ),
        (
            '{"schema": "tkc-plain-launch/1", "args": {"a": {"map": "f32:zeros(8,8)", "bix": [8]}}}',
            "did you mean box?",
        ),
    ],
)
def test_launches_that_cannot_be_read(
    text: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        Path("launch.json").write_text(text)
    assert emulate("scale.ptx", "--launch", "launch.json") == 1
    one_error(capsys.readouterr().err, says)


def test_a_plain_launch_alone_names_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("launch.json").write_text(f'{{"schema": "tkc-plain-launch/1", "grid": 2, {ARGS}}}')
    assert emulate("launch.json") == 1
    one_error(capsys.readouterr().err, 'launch.json: names no PTX text; expected "ptx": "FILE.ptx"')
    assert emulate("scale.ptx", "--launch", "launch.json") == 0

"""Contract files: the documented form, refusals that name their place, and files that are whole or not there."""

from __future__ import annotations

import copy
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tkc.backend import package
from tkc.backend.contract import KEYS, check_kernel
from tkc.backend.package import (
    Package,
    complete,
    ptx_header,
    read_package,
    to_json,
    with_assembly,
    write_files,
    write_package,
)
from tkc.diagnostics import TkcError

PTX = ".version 8.6\n.target sm_100a\n.visible .entry gemm() { ret; }\n"


def documented() -> dict[str, Any]:
    """The kernel that the module's docstring gives as its example."""
    doc = package.__doc__ or ""
    return json.loads(doc[doc.index('{"entry": "gemm"') : doc.index("The passes leave")])


@pytest.fixture
def gemm() -> dict[str, Any]:
    return documented()


def test_the_documented_example_is_valid(gemm: dict[str, Any]) -> None:
    check_kernel(gemm)
    assert list(gemm) == list(KEYS)


def test_complete_adds_what_the_passes_do_not_know(gemm: dict[str, Any]) -> None:
    left = {
        k: v
        for k, v in gemm.items()
        if k not in ("entry", "target", "ptx_version", "registers", "versions")
    }
    left["cluster"] = {"size": [1, 1, 1]}
    for absent in ("attributes", "requires", "tensor_columns"):
        del left[absent]
    made = complete(
        left,
        entry="gemm",
        target="sm_90a",
        ptx_version="8.0",
        registers=168,
        versions={"assembler": "x 1"},
    )
    assert list(made) == list(KEYS)
    assert made["cluster"] == {"size": [1, 1, 1], "preferred": None, "minimum": None}
    assert (made["requires"], made["attributes"], made["tensor_columns"], made["registers"]) == (
        [],
        {},
        0,
        168,
    )
    assert made["versions"] == {"tkc": "0.1.0", "assembler": "x 1"}


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda k: k.pop("grid"), r"kernel: grid missing"),
        (lambda k: k.update(extra=1), r"kernel: unknown key extra; there are entry, target"),
        (lambda k: k.update(grid=[1, 1]), r"kernel\.grid: expected a list of 3"),
        (lambda k: k["grid"].__setitem__(1, {"op": "shl", "of": [1, 2]}), r"kernel\.grid\[1\]: unknown op 'shl'"),
        (lambda k: k["grid"].__setitem__(1, {"sym": "Q"}), r"kernel\.grid\[1\]: no symbol Q; there are"),
        (lambda k: k["args"][3].update(value={"sym": "max_clusters"}), r"args\[3\]\.value: no symbol max_clusters"),
        (lambda k: k["args"][0].update(swizzle="96B"), r"args\[0\]\.swizzle: expected one of none, 32B.*found '96B'"),
        (lambda k: k["args"][0].update(box=[64, 128, 1]), r"args\[0\]\.box: expected 2 for rank 2, found 3"),
        (lambda k: k["args"][0].update(box=[64, 257]), r"args\[0\]: box extent 1 is 257, expected 1\.\.256"),
        (lambda k: k["args"][0].update(box=[128, 128]), r"args\[0\]: inner box is 256 bytes, expected at most the 128"),
        (lambda k: k["args"][0].update(box=[7, 128], swizzle="none"), r"inner box is 14 bytes, expected a multiple"),
        (lambda k: k["args"][0].update(strides=[]), r"args\[0\]\.strides: expected 1 for rank 2, found 0"),
        (lambda k: k["args"][0].update(strides=[{"stride": ["A", 2]}]), r"strides\[0\]: no axis 2 of an array A"),
        (lambda k: k["args"][0].update(argument="D"), r"args\[0\]\.argument: no argument D"),
        (lambda k: k["args"][0].update(kind="image"), r"args\[0\]\.kind: expected one of tensormap, tensormaps, scratch, pointer, scalar"),
        (lambda k: k["args"][3].update(argument="A"), r"args\[3\]: a scalar has either value or argument"),
        (lambda k: k["args"][3].update(dtype="f32"), r"args\[3\]: an expression is an integer, dtype is f32"),
        (lambda k: k["args"][0].update(dtype="bf17"), r"args\[0\]\.dtype: expected one of bf16"),
        (lambda k: k["arguments"][1].update(name="A"), r"arguments\[1\]: A is there twice"),
        (lambda k: k["arguments"][1].update(major=2), r"arguments\[1\]\.major: B has no such axis"),
        (lambda k: k["arguments"][0].update(dims=["M", "Q"]), r"symbols\.K: axis 1 of A is Q"),
        (lambda k: k["arguments"][0].update(dims=["M", "K", "Q"]), r"arguments\[0\]\.dims\[2\]: no symbol Q"),
        (lambda k: k["symbols"].update(M={"argument": "A", "dimension": 3}), r"symbols\.M: A has no axis 3"),
        (lambda k: k["symbols"].update(M={"argument": "A"}), r"symbols\.M: an array has dimensions"),
        (lambda k: k["symbols"].update(sm_count=[]), r"symbols\.sm_count: the name is taken"),
        (lambda k: k["empty"].append({"when": ["Q"], "do": "nothing"}), r"empty\[1\]: no symbol Q"),
        (lambda k: k["empty"].append({"when": ["M"], "do": "fly"}), r"empty\[1\]\.do: expected one of nothing, zero"),
        (lambda k: k.update(outputs=["A"]), r"outputs\[0\]: A is no array that the kernel writes"),
        (lambda k: k["cluster"].update(size=[4, 4, 2]), r"cluster\.size: 32 CTAs; a cluster holds at most 16"),
        (lambda k: k["cluster"].update(size=[2, 1, 1], preferred=[3, 1, 1]), r"preferred: .* no multiple of size"),
        (lambda k: k["cluster"].update(size=[3, 1, 1], minimum=[2, 1, 1]), r"size: .* no multiple of minimum"),
        (lambda k: k.update(block=[1024, 2, 1]), r"block: 2048 threads; a block holds at most 1024"),
        (lambda k: k.update(block=[0, 1, 1]), r"block\[0\]: expected an integer >= 1, found 0"),
        (lambda k: k.update(shared_bytes=True), r"shared_bytes: expected an integer, found True"),
        (lambda k: k["params"].update(BM=1.5), r"params\.BM: expected an integer, a boolean or a text"),
        (lambda k: k["requires"].append({"test": 1}), r"requires\[0\]: message missing"),
        (lambda k: k["attributes"].update(pdl=True), r"attributes: unknown key pdl; there are dependent, cooperative"),
    ],
)  # fmt: skip
def test_refusals_name_their_place(gemm: dict[str, Any], change: Change, said: str) -> None:
    change(gemm)
    with pytest.raises(TkcError, match=said) as caught:
        check_kernel(gemm)
    assert {d.code for d in caught.value.diagnostics} <= {"TK411", "TK207"}


def test_write_and_read(tmp_path: Path, gemm: dict[str, Any]) -> None:
    place = write_package(tmp_path / "deep" / "k.ptx", {"kernels": [gemm]}, ptx=PTX)
    assert sorted(p.name for p in place.parent.iterdir()) == ["k.json", "k.ptx"]
    assert read_package(place) == Package((gemm,), PTX, None, place.parent)
    assert (tmp_path / "deep" / "k.ptx").read_text() == PTX


def test_a_contract_elsewhere_names_its_files_from_there(
    tmp_path: Path, gemm: dict[str, Any]
) -> None:
    place = write_package(
        tmp_path / "a" / "k",
        {"kernels": [gemm]},
        ptx=PTX,
        cubin=b"\x7fELF",
        contract_path=tmp_path / "b" / "c.json",
    )
    value = json.loads(place.read_text())
    assert (value["ptx"], value["cubin"]) == ("../a/k.ptx", "../a/k.cubin")
    assert read_package(place).cubin == b"\x7fELF"


def test_one_key_a_line(gemm: dict[str, Any]) -> None:
    text = to_json({"kernels": [gemm, gemm]}, ptx_name="k.ptx", ptx=PTX)
    assert json.loads(text)["kernels"] == [gemm, gemm]
    assert all(f'      "{key}": ' in text for key in KEYS)


def test_with_assembly(gemm: dict[str, Any]) -> None:
    made = with_assembly({"schema": "x", "kernels": [gemm]}, {"gemm": 168}, "ptxas 13.5.37")
    assert made["kernels"][0]["registers"] == 168
    assert made["kernels"][0]["versions"] == {"tkc": "0.1.0", "assembler": "ptxas 13.5.37"}
    assert gemm["registers"] is None


def _damage(place: Path, change: Change) -> None:
    value = json.loads(place.read_text())
    change(value)
    place.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda v: v.update(schema="tkc-launch/2"),
            r"k\.json: schema: expected tkc-launch/1, found 'tkc-launch/2'",
        ),
        (lambda v: v.update(kernels=[]), r"k\.json\.kernels: expected a list of >= 1"),
        (lambda v: v["kernels"][0].pop("args"), r"k\.json\.kernels\[0\]: args missing"),
        (lambda v: v.update(ptx="other.ptx"), r"other\.ptx, named by k\.json, cannot be read"),
        (lambda v: v.pop("ptx"), r"names neither ptx nor cubin"),
        (
            lambda v: v.update(ptx_sha256="0" * 64),
            r"k\.ptx is not the text that k\.json was written with",
        ),
    ],
)
def test_a_damaged_file_is_refused(
    tmp_path: Path, gemm: dict[str, Any], change: Change, said: str
) -> None:
    place = write_package(tmp_path / "k", {"kernels": [gemm]}, ptx=PTX)
    _damage(place, change)
    with pytest.raises(TkcError, match=said):
        read_package(place)


def test_without_a_checksum_an_edited_text_is_taken(tmp_path: Path, gemm: dict[str, Any]) -> None:
    place = write_package(tmp_path / "k", {"kernels": [gemm]}, ptx=PTX)
    (tmp_path / "k.ptx").write_text(PTX + "// edited\n")
    with pytest.raises(TkcError, match='delete "ptx_sha256"'):
        read_package(place)
    _damage(place, lambda v: v.pop("ptx_sha256"))
    assert (read_package(place).ptx or "").endswith("// edited\n")


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe", b'"text"', b"[" * 100_000])
def test_what_is_no_contract_is_refused(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "k.json"
    place.write_bytes(content)
    with pytest.raises(TkcError, match="TK411"):
        read_package(place)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TkcError, match=r"cannot be read: No such file.*TK411"):
        read_package(tmp_path / "none.json")


def test_files_are_whole_or_untouched(tmp_path: Path) -> None:
    first, second = tmp_path / "a.ptx", tmp_path / "b" / "a.json"
    first.write_text("old")
    second.parent.mkdir()
    (second).mkdir()
    with pytest.raises(TkcError, match=r"a\.json cannot be written.*TK118"):
        write_files({first: "new", second: "{}"})
    assert first.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_failure_half_way_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "old.ptx", tmp_path / "new.cubin"
    last = tmp_path / "k.json"
    old.write_text("old")
    real = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(target) == last.resolve():
            raise PermissionError(1, "Operation not permitted")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(TkcError, match=r"k\.json cannot be written: operation not permitted"):
        write_files({old: "fresh", new: b"fresh", last: "{}"})
    assert old.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["old.ptx"]


def test_modes_and_links_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.ptx", tmp_path / "link.ptx"
    real.write_text("old")
    link.symlink_to(real)
    before = os.umask(0o027)
    try:
        write_files({link: "new\n", tmp_path / "fresh": "x"})
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert real.read_text() == "new\n"
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


def test_a_device_is_written_to_and_not_replaced() -> None:
    before = os.stat(os.devnull)
    write_files({Path(os.devnull): "text"})
    after = os.stat(os.devnull)
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)


def test_header() -> None:
    header = ptx_header(
        "// made\n.version 9.4\n.target sm_107a\n.address_size 64\n.visible .entry a() {}\n.entry b$1() {}"
    )
    assert (header.version, header.target, header.entries) == ("9.4", "sm_107a", ("a", "b$1"))
    with pytest.raises(TkcError, match=r"no \.version line"):
        ptx_header("nothing")


def test_a_contract_survives_the_ir(gemm: dict[str, Any]) -> None:
    from tkc.ir.contract import from_attribute, to_attribute

    assert from_attribute(to_attribute(copy.deepcopy(gemm))) == gemm

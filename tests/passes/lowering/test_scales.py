"""Block scales in PTX: columns, descriptors, numbers of scales; combinations that the tensor core does not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tkc
from tkc.diagnostics import Severity
from tkc.driver import run
from tkc.ir.isa.layouts import SCALE_ATOM_ROWS, TCGEN05_DESCRIPTOR
from tkc.ir.isa.mma import decode_instruction
from tkc.job import Job

EXAMPLES = Path(__file__).parents[3] / "examples"


def text(name: str, *changes: tuple[str, str]) -> str:
    found = (EXAMPLES / f"{name}.tk").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in found
        found = found.replace(old, new)
    return found


def products(ptx: str) -> list[tuple[str, int]]:
    """Kind and instruction descriptor of each block-scaled product."""
    found = re.findall(r"tcgen05\.mma\.\S*kind::(\w+)\S* \[\S+\], \S+, \S+, (\d+),", ptx)
    return [(kind, int(word)) for kind, word in found]


@pytest.mark.parametrize(
    ("name", "kind", "numbers"),
    [
        ("gemm_mxfp8", "mxf8f6f4", [0, 1, 2, 3]),
        ("gemm_mxfp4", "mxf4", [0, 2, 0, 2]),
        ("gemm_nvfp4", "mxf4nvf4", [0, 0, 0, 0]),
    ],
)
def test_each_step_names_its_scales(name: str, kind: str, numbers: list[int]) -> None:
    """One scale an MMA of 8-bit elements, two of 4-bit ones, four in blocks of 16, of the four in a column."""
    found = products(tkc.compile(text(name), target="sm_100a").ptx)
    assert {k for k, _ in found} == {kind}
    decoded = [decode_instruction(kind, word) for _, word in found]
    assert [d.scale_a_id for d in decoded] == numbers
    assert [d.scale_b_id for d in decoded] == numbers
    assert {(d.m, d.n) for d in decoded} == {(128, 128)}
    scale = "ue4m3" if name == "gemm_nvfp4" else "ue8m0"
    assert {d.scale for d in decoded} == {scale}


@pytest.mark.parametrize(
    ("name", "depths", "numbers"),
    [
        ("gemm_mxfp8", {32: 2}, [0, 2]),
        ("gemm_mxfp4", {128: 2}, [0, 0]),
        ("gemm_nvfp4", {128: 2}, [0, 0]),
    ],
)
def test_sm_107_takes_steps_of_twice_the_depth(
    name: str, depths: dict[int, int], numbers: list[int]
) -> None:
    found = products(tkc.compile(text(name), target="sm_107a").ptx)
    assert [decode_instruction(kind, word).scale_a_id for kind, word in found] == numbers


def test_the_descriptor_of_an_atom() -> None:
    """32 rows of 16 bytes, 8 of them a core matrix: 128 bytes to the next, no swizzle (the sheet's 0x4008 on top)."""
    ptx = tkc.compile(text("gemm_nvfp4"), target="sm_100a").ptx
    (high,) = {
        int(h) for h in re.findall(r"mov\.b64 (?:%rd\d+), \{%r\d+, (\d+)\};\n    tcgen05\.cp", ptx)
    }
    what = TCGEN05_DESCRIPTOR.decode(high << 32)
    assert (what.swizzle, what.stride, what.leading) == ("none", SCALE_ATOM_ROWS, 0)


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        (
            "gemm_mxfp8",
            [("ue8m0 / 32", "ue4m3 / 32")],
            "sm_100a has no product of e4m3 and e4m3 with scales of ue4m3 / 32; they go with ue8m0 / 32",
        ),
        (
            "gemm_mxfp8",
            [("ue8m0 / 32", "ue8m0 / 16")],
            "with scales of ue8m0 / 16; they go with ue8m0 / 32",
        ),
        (
            "gemm_nvfp4",
            [("ue4m3 / 16", "ue4m3 / 32")],
            "with scales of ue4m3 / 32; they go with ue8m0 / 32, ue4m3 / 16, ue8m0 / 16",
        ),
    ],
)  # fmt: skip
def test_a_combination_that_there_is_not(
    name: str, changes: list[tuple[str, str]], told: str
) -> None:
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(text(name, *changes), target="sm_100a")
    (found,) = raised.value.diagnostics
    assert found.code == "TK203"
    assert told in found.message
    assert found.location is not None
    assert found.location.line > 20


def test_513_columns_are_refused_with_each_share() -> None:
    changes = [("BN = 128", "BN = 256"), ("BM = 128", "BM = 256"), ("STAGES = 4", "STAGES = 1")]
    told = r"needs 528 columns of tensor memory; the target gives 512; 16 fewer"
    with pytest.raises(tkc.TkcError, match=told) as raised:
        tkc.compile(text("gemm_mxfp8", *changes))
    notes = [n.message for n in raised.value.diagnostics[0].notes]
    assert any(n.startswith("a.scale_columns takes") for n in notes)


def test_a_target_without_tcgen05() -> None:
    with pytest.raises(tkc.TkcError, match="need tcgen05; sm_90a has none"):
        tkc.compile(text("gemm_nvfp4"), target="sm_90a")


def test_a_tile_on_both_sides_of_a_pair_s_product() -> None:
    changes = [("launch persistent", "launch persistent, pair"), ("a @ b.T", "a @ a.T")]
    changes += [("BM = 128, BN = 128", "BM = 256, BN = 256"), ("STAGES = 4", "STAGES = 2")]
    with pytest.raises(tkc.TkcError, match="a block-scaled tile that is an operand of products on both sides"):  # fmt: skip
        tkc.compile(text("gemm_mxfp8", *changes), target="sm_100a")


def test_a_pair_takes_all_scales_of_b_and_half_of_those_of_a() -> None:
    """M = 256 in the descriptor; 16 columns of scales a stage for the CTA's 128 rows of A, 32 for all 256 of B."""
    changes = [
        ("launch persistent", "launch persistent, pair"),
        ("BM = 128, BN = 128", "BM = 256, BN = 256"),
    ]
    ptx = tkc.compile(text("gemm_nvfp4", *changes), target="sm_100a").ptx
    decoded = [decode_instruction(kind, word) for kind, word in products(ptx)]
    assert {(d.m, d.n) for d in decoded} == {(256, 256)}
    assert len(re.findall(r"tcgen05\.cp\.cta_group::2\.32x128b\.warpx4", ptx)) == 4 + 8
    assert "cta_group::1" not in ptx


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("gemm_[mn]*fp*.tk")), ids=lambda p: p.stem)
def test_nothing_is_warned_of(path: Path) -> None:
    """Fences go, too: the certificates of their elimination hold with copies of scales among the accesses."""
    compiled = run(Job(path.read_text(encoding="utf-8"), path.name, "sm_100a"))
    assert [str(d) for d in compiled.diagnostics if d.severity is not Severity.REMARK] == []

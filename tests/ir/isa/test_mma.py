"""Tensor-core rows keep their sums, and instruction descriptors match the worked numbers both ways."""

from __future__ import annotations

import dataclasses

import pytest

from tkc.ir.isa.mma import (
    BITS,
    FORMAT_CODES,
    MMAS,
    Instruction,
    decode_instruction,
    descriptor_word,
    encode_instruction,
    select,
)
from tkc.ir.isa.targets import TARGETS


def plain(kind, d, a, b, m, n, k, **more):
    return Instruction(kind, a, b, d, m, n, k, **more)


def mxf8(a, b, m, n, **more):
    return Instruction("mxf8f6f4", a, b, "f32", m, n, more.pop("k", 32), scale="ue8m0", **more)


def fp4(scale, m, n, k=64, kind="mxf4nvf4"):
    return Instruction(kind, "e2m1", "e2m1", "f32", m, n, k, scale=scale)


BF16 = ("f16", "f32", "bf16", "bf16")
WORKED = {
    0x08400490: plain(*BF16, 128, 256, 16),
    0x08410490: plain(*BF16, 128, 256, 16, b_mn_major=True),
    0x08418490: plain(*BF16, 128, 256, 16, a_mn_major=True, b_mn_major=True),
    0x10400490: plain(*BF16, 256, 256, 16),
    0x04100490: plain(*BF16, 64, 64, 16),
    0x08400000: plain("f16", "f16", "f16", "f16", 128, 256, 16),
    0x08400910: plain("tf32", "f32", "tf32", "tf32", 128, 256, 8),
    0x08400010: plain("f8f6f4", "f32", "e4m3", "e4m3", 128, 256, 32),
    0x084004A0: plain("i8", "s32", "s8", "s8", 128, 256, 32),
    0x08C00000: mxf8("e4m3", "e4m3", 128, 256),
    0x10C00000: mxf8("e4m3", "e4m3", 256, 256),
    0x48C00020: mxf8("e4m3", "e4m3", 128, 256, scale_a_id=2, scale_b_id=2),
    0x08C01400: mxf8("e4m3", "e2m1", 128, 256),
    0x08400480: fp4("ue4m3", 128, 256),
    0x10400480: fp4("ue4m3", 256, 256),
    0x08C00480: fp4("ue8m0", 128, 256, kind="mxf4"),
    0x88400480: fp4("ue4m3", 128, 256, 96),
    0x08400488: fp4("ue4m3", 128, 256, 128),
    0x09400480: fp4("ue5m3", 128, 256),
}


@pytest.mark.parametrize("word", WORKED, ids=hex)
def test_worked_instruction_descriptors(word: int):
    assert encode_instruction(WORKED[word]) == word
    assert decode_instruction(WORKED[word].kind, word) == WORKED[word]


def test_every_flag_has_its_own_bit():
    base = WORKED[0x08400490]
    for flag, bit in (
        ("negate_a", 13),
        ("negate_b", 14),
        ("a_mn_major", 15),
        ("b_mn_major", 16),
        ("sparse", 2),
        ("saturate", 3),
    ):
        assert encode_instruction(base._replace(**{flag: True})) == 0x08400490 | 1 << bit
    assert encode_instruction(base._replace(max_shift=16)) == 0x08400490 | 2 << 30
    assert encode_instruction(base._replace(sparse_selector=3)) == 0x08400493
    double = plain("f8f6f4", "f32", "e4m3", "e4m3", 128, 256, 64)
    assert encode_instruction(double) == 0x08400010 | 1 << 29
    assert encode_instruction(mxf8("e4m3", "e4m3", 128, 256, k=64)) == 0x08C00000 | 1 << 31


def test_all_shapes_round_trip():
    for row in MMAS:
        if not row.kind:
            continue
        dense = row.k // 2 if row.sparse else row.k
        for a in row.a:
            for b in row.b:
                for d in row.d:
                    if not row.takes(a, b, d):
                        continue
                    for m in row.m:
                        if row.block and m % 128:
                            continue
                        said = Instruction(
                            row.kind.removeprefix(".kind::"),
                            a,
                            b,
                            d,
                            m,
                            row.n[-1],
                            dense,
                            sparse=row.sparse,
                            scale=row.scales[0] if row.scales else "",
                        )
                        assert decode_instruction(row.kind, encode_instruction(said)) == said


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        (plain("f16", "f32", "e4m3", "e4m3", 128, 256, 16), "takes no A of e4m3"),
        (plain("f16", "f64", "f16", "f16", 128, 256, 16), "no accumulator type f64"),
        (plain(*BF16, 128, 256, 32), "has no K 32, expected 16"),
        (plain(*BF16, 128, 257, 16), "n 257 is no multiple of 8"),
        (plain(*BF16, 1024, 256, 16), "m is 1024"),
        (plain(*BF16, 128, 256, 16, max_shift=4), "maximum shift is 4"),
        (fp4("ue4m3", 128, 256, 32), "has no K 32"),
        (fp4("ue4m3", 128, 256)._replace(a_mn_major=True), "K-major operands only"),
        (fp4("f32", 128, 256), "no scale type 'f32'"),
    ],
)
def test_what_a_descriptor_cannot_say(instruction: Instruction, says: str):
    with pytest.raises(ValueError, match=says):
        encode_instruction(instruction)


@pytest.mark.parametrize(
    ("kind", "word", "says"),
    [
        ("f16", 0x08400490 | 7 << 7, "gives A format 7 no meaning"),
        ("f16", 0x08400490 | 1 << 6, "bits 6 are set"),
        ("f16", 0x08400490 | 3 << 4, "accumulator type 3"),
        ("mxf4", 1 << 31 | 1 << 3 | 0x08400480, "K selector is 3"),
    ],
)
def test_words_without_meaning(kind: str, word: int, says: str):
    with pytest.raises(ValueError, match=says):
        decode_instruction(kind, word)


def test_unknown_kind():
    with pytest.raises(KeyError, match="no tcgen05 kind f64"):
        descriptor_word(".kind::f64")


def test_names_are_unique_and_codes_cover_the_types():
    assert len({row.name for row in MMAS}) == len(MMAS)
    for row in MMAS:
        assert set(row.a) <= set(BITS)
        if row.kind:
            assert set(row.a) == set(FORMAT_CODES[row.kind.removeprefix(".kind::")])


def test_rows_check_their_sums():
    row = MMAS[0]
    for wrong, says in (
        ({"k": 20}, "takes 40 bytes"),
        ({"slot": 8}, "takes 16 bytes"),
        ({"block": 32}, "do not divide|without scale"),
        ({"n": (4,)}, "out of range"),
        ({"mn_major": ("s8",)}, "no operand type"),
    ):
        with pytest.raises(ValueError, match=says):
            dataclasses.replace(row, **wrong)


@pytest.mark.parametrize(
    ("target", "a", "b", "d", "more", "names"),
    [
        ("sm_90a", "bf16", "bf16", "f32", {}, ["wgmma.bf16"]),
        ("sm_90a", "bf16", "f16", "f32", {}, []),
        ("sm_90a", "e4m3", "e5m2", "f32", {}, ["wgmma.f8"]),
        ("sm_100a", "bf16", "bf16", "f32", {}, ["tcgen05.f16.cta1"]),
        ("sm_100f", "bf16", "bf16", "f32", {"cta_group": 2}, ["tcgen05.f16.cta2"]),
        ("sm_100a", "bf16", "bf16", "f16", {}, []),
        ("sm_100a", "s8", "u8", "s32", {}, ["tcgen05.i8.cta1"]),
        ("sm_103a", "s8", "u8", "s32", {}, []),
        (
            "sm_100a",
            "e2m1",
            "e2m1",
            "f32",
            {"block": 16, "scale": "ue4m3"},
            ["tcgen05.mxf4nvf4.block16.k64.cta1"],
        ),
        ("sm_120a", "bf16", "bf16", "f32", {}, []),
    ],
)
def test_select(target, a, b, d, more, names):
    assert [row.name for row in select(TARGETS[target].features, a, b, d, **more)] == names


def test_k96_and_double_k_belong_to_their_chips():
    def depths(target):
        return {r.k for r in select(TARGETS[target].features, "e2m1", "e2m1", "f32", block=16)}

    assert depths("sm_100a") == {64}
    assert depths("sm_103a") == {64, 96}
    assert depths("sm_103f") == {64}
    assert depths("sm_107a") == {64, 96, 128}


def test_shapes_that_fit():
    (row,) = select(TARGETS["sm_100a"].features, "bf16", "bf16", "f32")
    assert row.fits(64, 8)
    assert row.fits(128, 256)
    assert not row.fits(128, 24)
    assert not row.fits(256, 256)
    (row,) = select(TARGETS["sm_90a"].features, "bf16", "bf16", "f32")
    assert row.fits(64, 8)
    assert not row.fits(64, 264)

"""Block scales in types, copies and products: what is understood, and each mistake where it is (R25)."""

from __future__ import annotations

import pytest
from programs import EXAMPLES, changed, compiled, mistakes, only

NVFP4 = (EXAMPLES / "gemm_nvfp4.tk").read_text(encoding="utf-8")
MXFP8 = (EXAMPLES / "gemm_mxfp8.tk").read_text(encoding="utf-8")
A = "A: global[e2m1, M, K, scale = ue4m3 / 16]"
TILE = "a: tile[e2m1, BM, BK, scale = ue4m3 / 16]"

CASES = [
    (A, "A: global[e2m1, M, K, scal = ue4m3 / 16]", "TK102", "scal", "did you mean `scale`"),
    (A, "A: global[e2m1, M, K, scale = ue4m3 / 16, scale = ue4m3 / 16]", "TK102", "scale", "`scale` once"),
    (A, "A: global[e2m1, M, K, scale = ue4m3]", "TK106", "ue4m3", "`scale = ue4m3 / 16`"),
    (A, "A: global[e2m1, M, K, scale = 16]", "TK106", "16", "`scale = ue4m3 / 16`"),
    (A, "A: global[e2m1, M, K, scale = e4m3 / 16]", "TK105", "e4m3", "did you mean `ue4m3`"),
    (A, "A: global[e2m1, M, K, scale = f32 / 16]", "TK105", "f32", "scales are `ue8m0`, `ue4m3` and `ue5m3`"),
    (A, "A: global[e2m1, M, K, scale = ue4m3 / 0]", "TK117", "0", "at least 1"),
    (A, "A: global[bf16, M, K, scale = ue4m3 / 16]", "TK105", "ue4m3 / 16", "not with bf16"),
    (A, "A: global[e2m1, K, scale = ue4m3 / 16]", "TK106", "global[e2m1, K, scale = ue4m3 / 16]", "two axes"),
    (A, "A: global[e2m1, M, K]", "TK110", "e2m1", "without block scales"),
    (A, A.replace("16]", "32]"), "TK105", "a <- A[m, k]", "a has scales of ue4m3 / 16 and A of ue4m3 / 32"),
    (TILE, TILE.replace("16]", "32]"), "TK105", "a @ b.T", "a with scales of ue4m3 / 32 and b of ue4m3 / 16"),
    ("a @ b.T", "a.T @ b.T", "TK104", "a.T @ b.T", "is not"),
    ("BM = 128, BN = 128, BK = 256", "BM = 128, BN = 128, BK = 128", "", "", ""),
    ("BM = 128", "BM = 64", "TK104", "tile[e2m1, BM, BK, scale = ue4m3 / 16]", "a multiple of 128 fits"),
    ("BN = 128", "BN = 192", "TK104", "tile[e2m1, BN, BK, scale = ue4m3 / 16]", "a multiple of 128 fits"),
    ("BK = 256", "BK = 96", "TK104", "tile[e2m1, BM, BK, scale = ue4m3 / 16]", "a multiple of 64 fits"),
    ("d: tile[f32, BM, BN]", "d: tile[f32, BM, BN, scale = ue4m3 / 16]", "TK105", "ue4m3 / 16", "not with f32"),
    ("read(d) * alpha", "read(a) * alpha", "TK108", "a", "outside"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "code", "place", "told"), CASES, ids=[f"{c[2]}-{c[1][:40]!r}" for c in CASES]
)
def test_a_mistake_is_found_where_it_is(
    old: str, new: str, code: str, place: str, told: str
) -> None:
    said = mistakes(changed(NVFP4, (old, new)))
    if not code:
        assert said == []
        return
    found = [s for s in said if s.code == code and told in s.message]
    assert found, [(s.code, s.message, s.text) for s in said]
    assert found[0].text == place


def test_bsc_7_a_depth_that_holds_no_whole_atoms_is_refused_with_what_fits() -> None:
    (said, _) = mistakes(changed(MXFP8, ("BK = 128", "BK = 96")))
    assert said.message == (
        "a tile with scales of ue8m0 / 32 has rows of 96; scales come in atoms of 4 blocks, so that a multiple of 128 fits"
    )


def test_scales_lie_along_what_is_contracted() -> None:
    text = changed(
        MXFP8,
        ("B: global[e4m3, N, K", "B: global[e4m3, K, N"),
        ("b: tile[e4m3, BN, BK", "b: tile[e4m3, BK, BN"),
        ("b <- B[n, k]", "b <- B[k, n]"),
        ("a @ b.T", "a @ b"),
    )
    said = only(mistakes(text))
    assert (said.code, said.text) == ("TK115", "a @ b")
    assert "the first axis of b, and its scales lie along the last" in said.message


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("d += a @ b.T", "d += a @ b.T\n                        x = read(a)", "reading the shared tile a, which is block-scaled"),
        ("d += a @ b.T", "d += a @ b.T\n                        A[m, k] <- a", "a copy of block-scaled data"),
    ],
)  # fmt: skip
def test_what_is_not_done_with_scaled_tiles_yet_is_named(old: str, new: str, told: str) -> None:
    said = only([s for s in mistakes(changed(MXFP8, (old, new))) if s.code == "TK110"])
    assert told in said.message


def test_the_two_parts_are_one_type() -> None:
    text = str(compiled(NVFP4))
    assert "!tile.tensor<e2m1, [M, K], ue4m3 / 16>" in text
    assert "!tile.shared<e2m1, [128, 256], 4, ue4m3 / 16>" in text
    assert "!tile.slice<e2m1, [128, 256], ue4m3 / 16>" in text


def test_the_block_may_be_a_param() -> None:
    text = NVFP4.replace("ue4m3 / 16", "ue4m3 / BLOCK").replace(
        "BM = 128,", "BLOCK = 16, BM = 128,"
    )
    assert str(compiled(text)) == str(compiled(NVFP4)).replace(
        "params = {", "params = {BLOCK = 16 : i64, "
    )


SLOW = (EXAMPLES / "gemm_nvfp4_slow.tk").read_text(encoding="utf-8")

EXPLICIT = [
    ("sa: scales[ue4m3 / 16, BM, BK]", "sa: scales[ue4m3 / 32, BM, BK]", "TK105", "sa <- a.scales", "of ue4m3 / 32"),
    ("sa: scales[ue4m3 / 16, BM, BK]", "sa: scales[ue4m3 / 16, 2 * BM, BK]", "TK104", "sa <- a.scales", "[256, 16]"),
    ("sa: scales[ue4m3 / 16, BM, BK]", "sa: scales[ue4m3 / 16, BM]", "TK106", "scales[ue4m3 / 16, BM]", "`scales[ue4m3"),
    ("sa: scales[ue4m3 / 16, BM, BK]", "sa: scales[ue4m3, BM, BK]", "TK106", "ue4m3", "`scale = ue4m3 / 16`"),
    ("sa: scales[ue4m3 / 16, BM, BK]", "sa: scales[ue4m3 / 16, 64, BK]", "TK104", "scales[ue4m3 / 16, 64, BK]", "of 128"),
    ("sa <- a.scales", "sa <- b.scales", "TK106", "a.scaled(sa)", "the scales of `b` are copied: expected a copy of `a.scales`"),
    ("a.scaled(sa)", "a.scaled(sb)", "TK106", "a.scaled(sb)", "the scales of `b` are copied"),
    ("sa <- a.scales", "sa <- a", "TK106", "sa <- a", "`sa <- a.scales` copies"),
    ("sa <- a.scales", "sa <- a.scale", "TK102", "scale", "has no `.scale`"),
    ("sa <- a.scales", "a <- a.scales", "TK107", "a", "written inside a get"),
    ("sa <- a.scales", "sa = 0", "TK106", "sa", "holds block scales"),
    ("                    sa <- a.scales\n", "", "TK114", "factors", "expected `sa <- ...` in the put"),
    ("a.scaled(sa)", "a", "TK106", "a @ b.scaled(sb).T", "both of them"),
    ("a.scaled(sa)", "a.scaled()", "TK116", "a.scaled()", "takes one value"),
    ("a.scaled(sa)", "a.scaled(d)", "TK106", "d", "not the accumulator d"),
    ("a.scaled(sa)", "d.scaled(sa)", "TK106", "d.scaled(sa)", "not of the accumulator d"),
    ("read(d) * alpha", "read(sa) * alpha", "TK108", "sa", "outside"),
    ("factors(sa, sb)", "factors(sa, sb, d)", "TK110", None, "a pipe of accumulators and scales"),
    ("    pipe factors(sa, sb): move -> math\n", "", "TK108", "sa", "no pipe carries `sa`"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "code", "place", "told"),
    EXPLICIT,
    ids=[f"{c[2]}-{c[1][:40]!r}" for c in EXPLICIT],
)
def test_a_mistake_with_scales_in_tensor_memory_is_found_where_it_is(
    old: str, new: str, code: str, place: str | None, told: str
) -> None:
    said = mistakes(changed(SLOW, (old, new)))
    found = [s for s in said if s.code == code and told in s.message]
    assert found, [(s.code, s.message, s.text) for s in said]
    assert place is None or found[0].text == place


def test_scales_in_tensor_memory_are_tiles_of_their_own() -> None:
    text = str(compiled(SLOW))
    assert '%sa = tile.accum {sym_name = "sa"} : () -> (!tile.accum<ue4m3, [128, 16], 2>)' in text
    assert text.count("tile.copy_scales") == 2
    assert "tile.scaled_mma %d_1, %a_3, %sa_2, %b_3, %sb_2" in text


LEVEL2 = (EXAMPLES / "gemm_nvfp4_level2.tk").read_text(encoding="utf-8")
COPY = "copy sa[slot] <- a[slot].scales"
SCALED = "a[slot].scaled(sa[slot])"
OTHER = "b[slot].scaled(sb[slot]).T"
READ = "read(d[i], j * WIDTH, WIDTH)"

SPELLED_OUT = [
    (COPY, "copy sa[slot] <- a[slot]", "TK106", "sa[slot] <- a[slot]", "not a slot of a"),
    (COPY, "copy sa[slot], a[slot]", "TK101", "copy sa[slot], a[slot]", "`copy sa[slot] <- a[slot].scales`"),
    (COPY, "copy sa[slot] <- b[slot].scales", "TK106", SCALED, "the scales of `b` are copied"),
    (COPY, "wait full[slot], phase", "TK320", SCALED, "where no scales are copied"),
    (COPY, "copy sa <- a[slot].scales", "TK116", "sa", "sa has 4 slots"),
    (COPY, "copy sa[slot] <- a.scales", "TK116", "a.scales", "a has 4 slots"),
    (COPY, "copy d[i] <- a[slot].scales", "TK106", "d[i] <- a[slot].scales", "not a slot of d"),
    (COPY, "copy sa[slot] <- c[0].scales", "TK102", "scales", "a slot of c has no `.scales`"),
    (COPY, "sa[slot] <- a[slot].scales", "TK106", "sa[slot] <- a[slot].scales", "`copy sa[slot] <- a[slot].scales`"),
    (COPY, f"{COPY}, pair", "TK106", f"{COPY}, pair", "`launch cluster(2)`"),
    (COPY, f"{COPY}, fast", "TK102", "fast", "options are `pair`"),
    ("sa: scales[ue4m3 / 16", "sa: scales[ue4m3 / 32", "TK105", COPY, "scales[ue4m3 / 16, 128, 256]"),
    (SCALED, "a[slot]", "TK106", "a[slot]", "`a[slot].scaled(sa[slot])`"),
    (SCALED, "a.scaled(sa[slot])", "TK116", "a", "a has 4 slots"),
    (SCALED, "a[slot].scaled(sa)", "TK116", "sa", "sa has 4 slots"),
    (SCALED, "a[slot].scaled(d[i])", "TK106", "d[i]", "not a slot of d"),
    (SCALED, "c[0].scaled(sa[slot])", "TK106", "c[0].scaled(sa[slot])", "not of a slot of c"),
    (OTHER, "b[slot].T", "TK106", "b[slot].T", "with its scales in tensor memory"),
    ("mma d[i] +=", "mma sa[slot] +=", "TK106", "sa[slot]", "holds block scales"),
    (READ, "read(a[0], j * WIDTH, WIDTH)", "TK110", "read(a[0], j * WIDTH, WIDTH)", "which is block-scaled"),
    (READ, "read(sa[0])", "TK110", "read(sa[0])", "which is block-scaled"),
    ("elect:\n                    copy", "elect:\n                    prefetch A[m, k]\n                    copy",
     "TK110", "prefetch A[m, k]", "a prefetch of block-scaled data"),
    ("bytes(a, b)", "bytes(a, sa)", "TK106", "sa", "`bytes` is of shared tiles"),
    ("A: global[e2m1, M, K, scale = ue4m3 / 16]", "A: global[e2m1, M, K, scale = ue4m3 / 32]", "TK105",
     "a[slot] <- A[m, k]", "a has scales of ue4m3 / 16 and A of ue4m3 / 32"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "code", "place", "told"),
    SPELLED_OUT,
    ids=[f"{c[2]}-{c[1][:40]!r}" for c in SPELLED_OUT],
)
def test_a_mistake_in_what_is_spelled_out(
    old: str, new: str, code: str, place: str, told: str
) -> None:
    said = mistakes(changed(LEVEL2, (old, new)))
    found = [s for s in said if s.code == code and told in s.message]
    assert found, [(s.code, s.message, s.text) for s in said]
    assert found[0].text == place


def test_the_bytes_of_a_slot_are_those_of_data_and_scales() -> None:
    assert f"bytes = {2 * (128 * 256 // 2 + 128 * 16)} : i32" in str(compiled(LEVEL2))

"""What a target cannot do with the GEMM, found by a pass: one error, at the place in the source, with numbers."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc.diagnostics import Diagnostic, TkcError

SOURCE = (Path(__file__).parents[2] / "examples" / "gemm_bf16.tk").read_text(encoding="utf-8")


def refused(text: str, target: str, **params: int) -> Diagnostic:
    """The one error of a program; its place is in the text."""
    with pytest.raises(TkcError) as raised:
        tkc.compile(text, target=target, params=params)
    (found,) = raised.value.diagnostics
    assert found.location is not None
    assert found.location.column
    assert raised.value.sources[found.location.file] == text
    assert all(n.location is not None for n in found.notes)
    assert found.message[0].islower()
    assert not found.message.endswith(".")
    return found


def line(text: str, found: Diagnostic) -> str:
    assert found.location is not None
    return text.splitlines()[found.location.line - 1].partition("#")[0].strip()


ACCUM = "accum  d: tile[f32, BM, BN] * 2"


@pytest.mark.parametrize(
    ("target", "params", "code", "place", "said"),
    [
        ("sm_120a", {}, "TK202", ACCUM, "accumulator d needs tcgen05 or wgmma; sm_120a has neither"),
        ("sm_90", {}, "TK202", ACCUM, "sm_90 has neither"),
        ("sm_100", {}, "TK202", ACCUM, "sm_100 has neither"),
        ("sm_90a", {"BM": 96}, "TK203", ACCUM, "has 96 rows; the target's matrix unit takes a multiple of 64"),
        ("sm_100a", {"BM": 96}, "TK203", ACCUM, "takes 64, 128 or a multiple of 128"),
        ("sm_100a", {"BM": 192}, "TK203", ACCUM, "has 192 rows"),
        ("sm_100a", {"BN": 8}, "TK203", "d += a @ b.T", "16 to 256 columns in steps of 16 (nearest: 16, 32, 48)"),
        ("sm_100a", {"BN": 24}, "TK203", "d += a @ b.T", "no bf16 product of 128 rows and 24 columns"),
        ("sm_90a", {"BN": 20, "BM": 64}, "TK207", "", "rows of 20 bf16 are no multiple of 16 bytes"),
        ("sm_100a", {"BN": 300}, "TK203", "d += a @ b.T", "no bf16 product of 128 rows and 300 columns"),
        ("sm_90a", {"BN": 300}, "TK207", "b <- B[n, k]",
         "an extent of 300; the tensor copy engine takes boxes of at most 256"),
        ("sm_100a", {"BK": 8}, "TK207", "shared a: tile[bf16, BM, BK] * STAGES",
         "rows of tile a are 16 bytes (8 bf16); an operand of products has rows of a multiple of 32 "
         "bytes (16 bf16)"),
        ("sm_90a", {"BK": 24}, "TK207", "shared a: tile[bf16, BM, BK] * STAGES", "are 48 bytes (24 bf16)"),
        ("sm_90a", {"STAGES": 8}, "TK204", "shared b: tile[bf16, BN, BK] * STAGES",
         "needs 426120 bytes of shared memory; the target has 232448; 4 slots of a and b instead of "
         "8 would fit"),
        ("sm_100a", {"STAGES": 8}, "TK204", "shared b: tile[bf16, BN, BK] * STAGES", "needs 426152 bytes"),
        ("sm_107a", {"STAGES": 8}, "TK204", "shared b: tile[bf16, BN, BK] * STAGES",
         "the target has 334848; 6 slots of a and b instead of 8"),
        ("sm_90a", {"BM": 256, "STAGES": 2}, "TK206", "role math:",
         "role math holds 256 registers of accumulators a thread in 2 warpgroups and may have 240, "
         "of which products leave 208"),
        ("sm_90a", {"BM": 192, "STAGES": 2}, "TK206", "role math:",
         "or rows that are a multiple of 128, which two warpgroups share"),
    ],
)  # fmt: skip
def test_a_parameter_that_does_not_fit(
    target: str, params: dict[str, int], code: str, place: str, said: str
) -> None:
    found = refused(SOURCE, target, **params)
    assert found.code == code
    assert said in found.message
    assert line(SOURCE, found) == (place or "C[m, n] <- bf16(read(d))")


def with_role(role: str, clause: str) -> str:
    return SOURCE.replace(f"role {role}:", f"role {role}, {clause}:")


@pytest.mark.parametrize(
    ("target", "role", "clause", "code", "said"),
    [
        ("sm_90a", "math", "warps 4", "TK208", "role math asks for 4 warps; what it does takes 8: 2 warpgroups share "
         "the 128 rows of d in their registers on this target; 64 rows take 4"),
        ("sm_100a", "store", "warps 1", "TK208", "role store asks for 1 warp; what it does takes 4: four warps reach the lanes "
         "of tensor memory, where d is"),
        ("sm_90a", "math", "registers 100", "TK206",
         "role math asks for 100 registers; setmaxnreg takes a multiple of 8"),
        ("sm_100a", "load", "registers 16", "TK206", "role load asks for 16 registers"),
        ("sm_90a", "math", "registers 128", "TK206", "may have 128, of which products leave 96"),
    ],
)  # fmt: skip
def test_a_clause_that_a_role_cannot_have(
    target: str, role: str, clause: str, code: str, said: str
) -> None:
    text = with_role(role, clause)
    found = refused(text, target)
    assert found.code == code
    assert said in found.message
    assert line(text, found) == f"role {role}, {clause}:"


def test_roles_that_ask_for_more_registers_than_there_are() -> None:
    found = refused(with_role("math", "registers 248"), "sm_90a")
    assert found.code == "TK206"
    assert "ask for 66560 registers; its 384 threads begin with 64512" in found.message
    assert [n.message for n in found.notes] == [
        "role load has 24 a thread in 1 warp",
        "role math has 248 a thread in 8 warps",
    ]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_depth_that_no_target_has_is_a_mistake(target: str) -> None:
    text = SOURCE.replace("BN] * 2  ", "BN] * 1000  ")
    found = refused(text, target)
    assert found.code == "TK205"
    assert found.message.startswith(
        "accumulator d has a depth of 1000, and no tensor memory has more than 576 columns"
    )
    assert line(text, found).startswith("accum  d: ")


def test_barriers_that_take_all_memory_are_blamed_themselves() -> None:
    path = Path(__file__).parents[2] / "examples" / "gemm_bf16_level2.tk"
    text = path.read_text(encoding="utf-8").replace(
        "barrier full * STAGES", "barrier full * 2000000000"
    )
    found = refused(text, "sm_100a")
    assert found.code == "TK204"
    assert (
        "fewer barriers than 2000000000 would fit: one a slot is what a ring takes" in found.message
    )
    assert line(text, found) == "barrier full * 2000000000, count = 1"


def test_a_value_that_a_loop_carries_is_blamed_where_it_is_set() -> None:
    text = """
kernel sums(X: global[f32, M, N], Y: global[f32, M]):
    launch persistent
    schedule work: m in tiles(blocks(M, 64))
    shared x: tile[f32, 64, 32]
    pipe p(x): load -> math
    role load:
        for m in work:
            for j in blocks(N, 32):
                put p: x <- X[m, j]
    role math, warps 4:
        for m in work:
            total = full(0)
            for j in blocks(N, 32):
                get p: total = total + row_sum(read(x))
            Y[m] <- total
"""
    found = refused(text, "sm_90a")
    assert found.message == (
        "a register tile of 64 rows leaves threads of a role of 128 idle; `warps 2` fits, or tiles of 128 rows fit"
    )
    assert line(text, found) == "total = full(0)"


def test_more_threads_than_a_cta_has() -> None:
    found = refused(with_role("load", "warps 31"), "sm_90a")
    assert found.code == "TK208"
    assert "take 1248 threads; a CTA has at most 1024" in found.message


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_warps_beyond_all_bounds_are_refused_before_anything_is_made_of_them(target: str) -> None:
    text = with_role("load", "warps 2147483647")
    found = refused(text, target)
    assert found.code == "TK208"
    assert [n.message for n in found.notes if "2147483647" in n.message]


def test_an_accumulator_in_registers_has_one_reader() -> None:
    store = SOURCE[SOURCE.index("    role store:") :]
    text = SOURCE.replace("math -> store", "math -> store, more")
    text += store.replace("role store", "role more")
    found = refused(text, "sm_90a")
    assert found.code == "TK213"
    assert "must join exactly two roles, not 3 (math, store, more)" in found.message
    assert line(text, found) == "pipe result(d):    math -> store, more"
    assert tkc.compile(text, target="sm_100a", params={"STAGES": 3}).ptx


def test_an_accumulator_in_registers_may_be_put_and_got_twice_a_turn(seed: int) -> None:
    """Each product is stored before the next one takes its registers."""
    load = SOURCE[
        SOURCE.index("            for k in blocks") : SOURCE.index("    role math:")
    ].rstrip()
    math = SOURCE[
        SOURCE.index("            put result:") : SOURCE.index("    role store:")
    ].rstrip()
    store = SOURCE[SOURCE.index("            get result:") :].rstrip()
    text = SOURCE.rstrip()
    for part in (load, math, store):
        text = text.replace(part, f"{part}\n{part}")
    kernel = tkc.compile(text, target="sm_90a", params={"BN": 64})
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (n, 72)).astype(ml_dtypes.bfloat16) for n in (136, 72))
    c = np.full((136, 72), np.nan, ml_dtypes.bfloat16)
    report = kernel.emulate(a, b, c, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    wanted = a.astype(float) @ b.astype(float).T
    np.testing.assert_allclose(c.astype(float), wanted, rtol=1e-2, atol=1e-2)
    assert tkc.compile(text, target="sm_100a").ptx


def test_accumulators_that_tensor_memory_cannot_hold() -> None:
    text = SOURCE.replace(ACCUM, "accum  d, e, f: tile[f32, BM, BN]").replace(
        "result(d)", "result(d, e, f)"
    )
    text = text.replace("d = 0", "d = 0\n                e = 0\n                f = 0")
    more = "".join(f"\n                        {x} += a @ b.T" for x in "ef")
    text = text.replace("d += a @ b.T", f"d += a @ b.T{more}")
    text = text.replace("read(d)", "read(d) + read(e) + read(f)")
    found = refused(text, "sm_100a")
    assert found.code == "TK205"
    assert (
        "needs 768 columns of tensor memory; the target gives 512; 256 fewer would fit"
        in found.message
    )
    assert [n.message for n in found.notes] == [f"{x} takes 256 columns" for x in "def"]
    found = refused(text, "sm_90a")
    assert found.code == "TK206"
    assert "holds 384 registers" in found.message


COPY = """kernel copy(X: global[bf16, M, N], Y: global[bf16, M, N]):
    param BM = 128, BN = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared t: tile[bf16, BM, BN] * 2
    pipe ring(t): load -> store
    role load:
        for m, n in work:
            put ring:
                t <- X[m, n]
    role store:
        for m, n in work:
            get ring:
                Y[m, n] <- t
"""


@pytest.mark.parametrize(
    ("params", "place", "said"),
    [
        ({"BN": 12}, "shared t: tile[bf16, BM, BN] * 2",
         "rows of tile t are 24 bytes (12 bf16); a tile that is copied has rows of a multiple of 16 "
         "bytes (8 bf16)"),
        ({"BM": 257}, "t <- X[m, n]", "an extent of 257"),
        ({"BM": 7, "BN": 24}, "t <- X[m, n]",
         "is copied in spans of 16 bytes of 7 rows; the tensor copy engine writes at multiples of "
         "128 bytes, so rows must be a multiple of 8"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["sm_90", "sm_120a"])
def test_a_tile_that_the_copy_engine_cannot_move(
    target: str, params: dict[str, int], place: str, said: str
) -> None:
    found = refused(COPY, target, **params)
    assert found.code == "TK207"
    assert said in found.message
    assert line(COPY, found) == place


def test_a_copy_needs_no_matrix_unit() -> None:
    for target in ("sm_90", "sm_100", "sm_120a"):
        assert f".target {target}\n" in tkc.compile(COPY, target=target).ptx

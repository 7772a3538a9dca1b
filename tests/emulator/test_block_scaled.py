"""Block-scaled GEMMs on the emulator, on fresh random data, against float64 of the dequantised operands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from rounding import allowed

import tkc
from tkc import scales
from tkc.driver import run
from tkc.ir.isa.mma import decode_instruction
from tkc.job import Job
from tkc.passes import pipeline

pytestmark = pytest.mark.share(4)

EXAMPLES = Path(__file__).parents[2] / "examples"
BF16 = ml_dtypes.bfloat16
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng()
BOUND = 3e-3

FORMS = {
    "gemm_nvfp4_slow": ("e2m1", "ue4m3", 16),
    "gemm_mxfp8": ("e4m3", "ue8m0", 32),
    "gemm_mxfp4": ("e2m1", "ue8m0", 32),
    "gemm_nvfp4": ("e2m1", "ue4m3", 16),
}
EACH = pytest.mark.parametrize("name", [n for n in FORMS if n != "gemm_nvfp4_slow"])


class Operand(NamedTuple):
    """What is passed, and what it stands for but for the global scale."""

    pair: tuple[Array, Array]
    real: Array
    global_scale: float


def operand(rows: int, k: int, dtype: str, scale: str, block: int) -> Operand:
    """Values whose blocks differ in size by orders of magnitude, so that a scale in the wrong place shows."""
    spread = np.exp2(RNG.integers(-5, 5, (rows, -(-k // block)))).repeat(block, axis=1)[:, :k]
    made = scales.quantise(RNG.standard_normal((rows, k)) * spread, dtype, scale=scale, block=block)
    real = scales.dequantise(made.data, made.scales, dtype, scale=scale, block=block)
    return Operand((made.data, scales.interleave(made.scales, scale)), real, made.global_scale)


def check(
    source: str | Path,
    m: int,
    n: int,
    k: int,
    form: tuple[str, str, int],
    schedule: str = "eager",
    target: str = "sm_100a",
    alpha: bool | None = None,
    other: str | None = None,
    passes: str | None = None,
    sm_count: int = 4,
    **params: int,
) -> None:
    """Runs a GEMM on few work units; nothing may be found, every element must be right."""
    kernel = tkc.compile(source, target=target, params=params or None, passes=passes)
    a, b = operand(m, k, *form), operand(n, k, other or form[0], *form[1:])
    c = np.full((m, n), np.nan, BF16)
    factor = a.global_scale * b.global_scale
    scalars = [factor] if alpha or (alpha is None and form[1] == "ue4m3") else []
    seed = int(RNG.integers(1 << 30))
    report = kernel.emulate(
        a.pair, b.pair, c, *scalars, sm_count=sm_count, schedule=schedule, seed=seed
    )
    assert not report.findings, "\n".join(map(str, report.findings))
    wanted = (a.real @ b.real.T) * (factor if scalars else 1)
    error = np.linalg.norm(c.astype(np.float64) - wanted)
    bound = allowed(wanted, BF16, BOUND)
    assert error <= bound, f"{schedule}, seed {seed}: {error:.2e} > {bound:.2e}"


def example(name: str) -> Path:
    return EXAMPLES / f"{name}.tk"


def changed(name: str, *changes: tuple[str, str]) -> str:
    text = example(name).read_text()
    for old, new in changes:
        assert old in text, f"no {old!r} in {name}"
        text = text.replace(old, new)
    return text


@EACH
@pytest.mark.parametrize(
    ("m", "n", "k"), [(128, 128, 256), (1, 8, 32), (130, 264, 96), (200, 136, 2880), (129, 8, 0)]
)
def test_ragged_sizes(name: str, m: int, n: int, k: int) -> None:
    """Rows that end in an atom, and rows of scales that do (90 or 180 of them in atoms of 4)."""
    check(example(name), m, n, k, FORMS[name])


@pytest.mark.soak
def test_the_last_block_of_k_may_be_short() -> None:
    """48 elements have two scales of 32; what the second one's block lacks counts as zero."""
    check(example("gemm_mxfp8"), 130, 136, 48, FORMS["gemm_mxfp8"], "random")


def test_batches() -> None:
    """A schedule axis that is an integer drops an axis of the elements and of their scales."""
    text = changed(
        "gemm_nvfp4", ("global[e2m1, ", "global[e2m1, L, "), ("global[bf16, ", "global[bf16, L, "),
        ("m, n in tiles(", "i, m, n in tiles(L, "), ("for m, n in", "for i, m, n in"),
        ("A[m", "A[i, m"), ("B[n", "B[i, n"), ("C[m", "C[i, m"),
    )  # fmt: skip
    kernel = tkc.compile(text, target="sm_100a", params={"STAGES": 2})
    form = FORMS["gemm_nvfp4"]
    a, b = ([operand(rows, 544, *form) for _ in range(2)] for rows in (130, 136))
    c = np.full((2, 130, 136), np.nan, BF16)
    pairs = [tuple(map(np.stack, zip(*(x.pair for x in each), strict=True))) for each in (a, b)]
    report = kernel.emulate(
        *pairs, c, 1.0, sm_count=2, schedule="random", seed=int(RNG.integers(99))
    )
    assert not report.findings, "\n".join(map(str, report.findings))
    for x, y, z in zip(a, b, c, strict=True):
        wanted = x.real @ y.real.T
        assert np.linalg.norm(z.astype(np.float64) - wanted) <= BOUND * np.linalg.norm(wanted)


@EACH
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
def test_every_number_of_stages(name: str, stages: int) -> None:
    check(example(name), 200, 136, 1056, FORMS[name], "random", sm_count=2, STAGES=stages)


@EACH
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize(
    "params",
    [{"BN": 256, "STAGES": 3}, {"BM": 256, "STAGES": 2}, {"BK": 128}],
    ids=lambda p: " ".join(f"{k}={v}" for k, v in p.items()),
)  # fmt: skip
def test_other_tiles(name: str, schedule: str, params: dict[str, int]) -> None:
    """Two row blocks of A share B's scales; 256 columns of B take two atoms side by side."""
    check(example(name), 200, 264, 544, FORMS[name], schedule, **params)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_copies_in_a_role_of_their_own(schedule: str, stages: int) -> None:
    """As written, with the barriers between; and after the copies have joined the products."""
    apart = pipeline("sm_100a").replace("cothread-copies,", "")
    for passes in (apart, None):
        form = FORMS["gemm_nvfp4_slow"]
        source = example("gemm_nvfp4_slow")
        check(source, 200, 136, 1056, form, schedule, passes=passes, sm_count=2, STAGES=stages)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize(
    ("sizes", "params"),
    [
        ((200, 136, 1056), {}),
        ((129, 8, 0), {"STAGES": 1}),
        ((130, 264, 96), {"STAGES": 2, "BK": 128}),
    ],
)
def test_spelled_out(schedule: str, sizes: tuple[int, int, int], params: dict[str, int]) -> None:
    check(example("gemm_nvfp4_level2"), *sizes, FORMS["gemm_nvfp4"], schedule, sm_count=2, **params)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_bsc_10_a_barrier_short_of_the_bytes_of_scales_is_found(stages: int) -> None:
    """`bytes` counts both parts of a block-scaled tile; a count of the data alone is a finding, not a wrong result."""
    data = 2 * 128 * 256 // 2
    text = changed("gemm_nvfp4_level2", ("bytes(a, b)", str(data)))
    with pytest.raises(AssertionError, match="TK3"):
        check(text, 300, 264, 1056, FORMS["gemm_nvfp4"], "random", STAGES=stages)


@pytest.mark.parametrize("target", ["sm_100f", "sm_103a", "sm_107a"])
def test_other_targets(target: str) -> None:
    check(example("gemm_nvfp4"), 200, 136, 544, FORMS["gemm_nvfp4"], target=target)


@pytest.mark.parametrize(
    ("name", "target", "clause", "params"),
    [
        ("gemm_nvfp4", "sm_103a", "", {"BK": 192, "STAGES": 3}),
        pytest.param(
            "gemm_nvfp4", "sm_107a", "", {"BK": 192, "STAGES": 1, "BN": 256}, marks=pytest.mark.soak
        ),
        pytest.param(
            "gemm_nvfp4_slow", "sm_103a", "", {"BK": 384, "STAGES": 2}, marks=pytest.mark.soak
        ),
        ("gemm_mxfp4", "sm_103a", "", {"BK": 384, "STAGES": 1}),
        ("gemm_nvfp4", "sm_103a", "", {"BK": 192, "STAGES": 2, "BM": 256}),
        pytest.param(
            "gemm_nvfp4_slow",
            "sm_103a",
            "",
            {"BK": 192, "STAGES": 1, "BM": 256},
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "gemm_mxfp4",
            "sm_103a",
            ", pair",
            {"BK": 384, "STAGES": 2, "BM": 256},
            marks=pytest.mark.soak,
        ),
    ],
)
def test_steps_of_96(name: str, target: str, clause: str, params: dict[str, int]) -> None:
    """Spans hold 96 bytes, so that each step lies in one; its scales lie in two atoms, one behind the other."""
    text = changed(name, ("launch persistent", f"launch persistent{clause}"))
    ptx = tkc.compile(text, target=target, params=params).ptx
    words = re.findall(r"tcgen05\.mma[^\n]*, (\d+), \[", ptx)
    kinds = [decode_instruction("mxf4nvf4", int(word)) for word in words]
    assert {kind.k for kind in kinds} == {96}
    assert len({kind.scale_a_id for kind in kinds}) == (2 if name != "gemm_mxfp4" else 4)
    check(text, 130, 136, 544, FORMS[name], "random", target=target, **params)


def test_steps_of_96_need_scales_behind_each_other() -> None:
    """Where a tile is both operands, those of several blocks of rows are not; and other targets have no such step."""
    twice = changed("gemm_nvfp4", ("a @ b.T", "a @ a.T"))
    for text, target, params in (
        (twice, "sm_107a", {"BM": 256, "BN": 256, "STAGES": 1}),
        (example("gemm_nvfp4"), "sm_100a", {}),
    ):
        ptx = tkc.compile(text, target=target, params={"BK": 192, "STAGES": 2, **params}).ptx
        words = re.findall(r"tcgen05\.mma[^\n]*, (\d+), \[", ptx)
        assert {decode_instruction("mxf4nvf4", int(word)).k for word in words} == {64}


@pytest.mark.parametrize(
    "form", [("e2m1", "ue5m3", 16), pytest.param(("e2m1", "ue4m3", 32), marks=pytest.mark.soak)]
)
def test_scales_that_only_sm_107a_has(form: tuple[str, str, int]) -> None:
    _, scale, block = form
    text = changed("gemm_nvfp4", ("ue4m3 / 16", f"{scale} / {block}"))
    check(text, 130, 136, 288, form, "random", target="sm_107a", alpha=True, STAGES=2)
    tkc.compile(text, target="sm_107a").cubin()
    with pytest.raises(
        tkc.TkcError,
        match=f"sm_103a has no product of e2m1 and e2m1 with scales of {scale} / {block}",
    ):
        tkc.compile(text, target="sm_103a")


@pytest.mark.parametrize(
    ("name", "params", "columns"),
    [
        ("gemm_nvfp4", {"BN": 256, "BK": 64}, 576),
        ("gemm_nvfp4", {"BM": 256, "STAGES": 2}, 512),
        pytest.param("gemm_nvfp4", {"STAGES": 7}, 512, marks=pytest.mark.soak),
        pytest.param("gemm_mxfp8", {"BM": 256, "STAGES": 2}, 544, marks=pytest.mark.soak),
    ],
)
def test_what_sm_107a_has_more_of(name: str, params: dict[str, int], columns: int) -> None:
    """Columns beyond 512, for one CTA alone; shared memory beyond 227 KiB; B kept between blocks of rows."""
    kernel = tkc.compile(example(name), target="sm_107a", params=params)
    assert kernel.contract["tensor_columns"] == columns
    assert kernel.ptx.count("alloc.exclusive") == (2 if columns > 512 else 0)
    assert (kernel.contract["shared_bytes"] > 232448) == (params.get("STAGES") == 7)
    hints = re.findall(r"tcgen05\.mma\S*(collector::b::\w+)", kernel.ptx)
    kept = ["collector::b::fill", "collector::b::lastuse"] if params.get("BM") == 256 else []
    assert hints == kept * (len(hints) // 2)
    assert bool(hints) == bool(kept)
    depth = 1824 if params.get("STAGES") == 7 else 544  # all slots are used
    check(example(name), 200, 136, depth, FORMS[name], "random", target="sm_107a", **params)


@pytest.mark.parametrize(
    ("target", "params", "k", "columns", "most"),
    [
        ("sm_100a", {"HALVES": 1, "BN": 256, "STAGES": 5}, 64, 512, 232448),
        ("sm_103a", {"BK": 384, "STAGES": 2}, 96, 512, 232448),
        ("sm_107a", {"BN": 256, "STAGES": 5}, 128, 576, 334848),
    ],
)
def test_one_source_of_nvfp4_for_each_target(
    target: str, params: dict[str, int], k: int, columns: int, most: int
) -> None:
    """The longest products, the columns and the shared memory that each has. On sm_107a an item is 512 rows and 256
    columns, in all of 576 columns with its scales, B stays in the tensor core between its halves, and A is given back early."""
    kernel = tkc.compile(example("gemm_nvfp4_2cta"), target=target, params=params)
    words = re.findall(r"tcgen05\.mma[^\n]*, (\d+), \[", kernel.ptx)
    assert {decode_instruction("mxf4nvf4", int(word)).k for word in words} == {k}
    assert kernel.contract["tensor_columns"] == columns
    assert 0.8 * most < kernel.contract["shared_bytes"] <= most
    hints = set(re.findall(r"collector::b::(\w+)", kernel.ptx))
    assert hints == ({"fill", "lastuse"} if target == "sm_107a" else set())
    assert ("::read::mma::a" in kernel.ptx) == (target == "sm_107a")
    assembly = kernel.assembly()
    assert not assembly.notices
    assert not assembly.spills


@pytest.mark.soak
@pytest.mark.parametrize(
    ("target", "params"),
    [("sm_103a", {"BK": 384, "STAGES": 2}), ("sm_107a", {"BN": 256, "STAGES": 5})],
)
def test_pairs_of_nvfp4_on_later_targets(target: str, params: dict[str, int]) -> None:
    form = FORMS["gemm_nvfp4"]
    check(example("gemm_nvfp4_2cta"), 700, 264, 1568, form, "random", target=target, **params)


@pytest.mark.parametrize(
    ("name", "form", "changes"),
    [
        ("gemm_mxfp8", ("e5m2", "ue8m0", 32), [("e4m3", "e5m2")]),
        ("gemm_mxfp4", ("e2m1", "ue8m0", 16), [("ue8m0 / 32", "ue8m0 / 16")]),
    ],
)
def test_other_formats(
    name: str, form: tuple[str, str, int], changes: list[tuple[str, str]]
) -> None:
    check(changed(name, *changes), 200, 136, 544, form)


ELEMENTS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


def mixed(a: str, b: str, *changes: tuple[str, str]) -> str:
    """gemm_mxfp8 with operands of other types."""
    types = [
        (f"{x.upper()}: global[e4m3", f"{x.upper()}: global[{dtype}")
        for x, dtype in (("a", a), ("b", b))
    ]
    tiles = [(f"{x}: tile[e4m3", f"{x}: tile[{dtype}") for x, dtype in (("a", a), ("b", b))]
    return changed("gemm_mxfp8", *types, *tiles, *changes)


@pytest.mark.parametrize("a", ELEMENTS)
@pytest.mark.parametrize("b", ELEMENTS)
def test_operands_of_any_two_types(a: str, b: str) -> None:
    """Elements of 4 and 6 bits lie padded in shared memory, but for e2m1 with e2m1, which is MXFP4."""
    check(mixed(a, b), 200, 136, 256, (a, "ue8m0", 32), "random", other=b, STAGES=2)


def test_padded_operands_of_other_tiles() -> None:
    check(
        mixed("e3m2", "e2m1"),
        300,
        264,
        640,
        ("e3m2", "ue8m0", 32),
        "lazy",
        other="e2m1",
        BM=256,
        STAGES=2,
    )
    check(
        mixed("e2m1", "e5m2"),
        300,
        264,
        640,
        ("e2m1", "ue8m0", 32),
        "lazy",
        other="e5m2",
        BK=256,
        STAGES=2,
    )


def test_copies_of_padded_elements_count_what_they_bring() -> None:
    """3 bytes for 4 elements of 6 bits, 1 for 2 of 4 bits; the scales are counted whole."""
    kernel = tkc.compile(mixed("e3m2", "e2m1"))
    (announced,) = re.findall(r"expect_tx\S* _, \[\S+\], (\d+);", kernel.ptx)
    assert int(announced) == 128 * 96 + 128 * 64 + 2 * 512
    maps = {
        a["argument"]: a.get("type") for a in kernel.contract["args"] if a["kind"] == "tensormap"
    }
    assert maps == {
        "A": None,
        "A.scales": None,
        "B": "16U4_ALIGN16B",
        "B.scales": None,
        "C": None,
    }


def test_rows_of_padded_elements_are_whole_boxes() -> None:
    kernel = tkc.compile(mixed("e3m2", "e3m2"))
    a, b = (operand(rows, 96, "e3m2", "ue8m0", 32) for rows in (130, 8))
    with pytest.raises(tkc.TkcError) as raised:
        kernel.emulate(a.pair, b.pair, np.zeros((130, 8), BF16))
    told = [d.message for d in raised.value.diagnostics if d.code == "TK414"]
    assert told[0] == "rows of A are 96 e3m2 wide; the copy engine takes multiples of 128"


def test_a_tile_is_not_packed_and_padded_at_once() -> None:
    text = several(2, 256, 2).replace("ue4m3 / 16", "ue8m0 / 32")
    text = text.replace(
        "A: global[e2m1", "D: global[e4m3, M, K, scale = ue8m0 / 32], A: global[e2m1"
    )
    text = text.replace("shared a0, a1: tile[e2m1", "shared a0: tile[e4m3, BM, BK, scale = ue8m0 / 32] * STAGES\n"
                        "    shared a1: tile[e2m1").replace("a0 <- A", "a0 <- D")  # fmt: skip
    with pytest.raises(tkc.TkcError, match="tile b of e2m1 in products with 4-bit elements"):
        tkc.compile(text)


SEVERAL = """
kernel k(A: global[e2m1, M, K, scale = ue4m3 / 16], B: global[e2m1, N, K, scale = ue4m3 / 16],
         C: global[bf16, M, N], alpha: f32):
    param BM = 128, BN = 128, BK = {bk}, STAGES = {stages}, EACH = {count}
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM * EACH), blocks(N, BN))
    shared {a}: tile[e2m1, BM, BK, scale = ue4m3 / 16] * STAGES
    shared b: tile[e2m1, BN, BK, scale = ue4m3 / 16] * STAGES
    accum {d}: tile[f32, BM, BN]
    pipe inputs({a}, b): load -> math
    pipe result({d}): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs:
                    b <- B[n, k]
                    {loads}
    role math:
        for m, n in work:
            put result:
                {clears}
                for k in blocks(K, BK):
                    get inputs:
                        {products}
    role store:
        for m, n in work:
            get result:
                {stores}
"""


def several(count: int, bk: int, stages: int) -> str:
    """A GEMM whose work items are `count` tiles of A by one of B."""
    each = range(count)
    return SEVERAL.format(
        count=count,
        bk=bk,
        stages=stages,
        a=", ".join(f"a{i}" for i in each),
        d=", ".join(f"d{i}" for i in each),
        loads="; ".join(f"a{i} <- A[m.part({i}, {count}), k]" for i in each),
        clears="; ".join(f"d{i} = 0" for i in each),
        products="; ".join(f"d{i} += a{i} @ b.T" for i in each),
        stores="; ".join(f"C[m.part({i}, {count}), n] <- bf16(read(d{i}) * alpha)" for i in each),
    )


def test_two_accumulators_share_the_scales_of_b() -> None:
    """B's scales are copied once an item though two products take them."""
    text = several(2, 256, 3)
    ptx = tkc.compile(text, target="sm_100a").ptx
    assert len(re.findall(r"tcgen05\.cp\b", ptx)) == 3 * 4
    assert len(re.findall(r"tcgen05\.mma\b", ptx)) == 2 * 4
    check(text, 300, 264, 1056, FORMS["gemm_nvfp4"], "random")


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_scales_that_do_not_fit_by_stage_are_held_once(schedule: str) -> None:
    """Three accumulators of 128 columns leave 128, and nine slots of four scales of 4 columns are 144."""
    text = several(3, 64, 9)
    compiled = run(Job(text, "k.tk", "sm_100a"))
    (told,) = [d.message for d in compiled.diagnostics if d.code == "TK221"]
    assert told.endswith(
        "d0 0 to 127, d1 128 to 255, d2 256 to 383, a0.scale_columns 384 to 387, a1.scale_columns 388 to 391, "
        "a2.scale_columns 392 to 395, b.scale_columns 396 to 399"
    )
    once = [
        d.message for d in compiled.diagnostics if d.code == "TK219" and "held once" in d.message
    ]
    assert len(once) == 4
    check(text, 500, 136, 1056, FORMS["gemm_nvfp4"], schedule)


PAIRS = [
    ({"BM": 256, "STAGES": 3}, "random", (300, 264, 1056)),
    ({"BM": 256, "BN": 256, "STAGES": 2}, "lazy", (300, 264, 544)),
    ({"BM": 512, "STAGES": 2}, "random", (200, 136, 320)),
    ({"BM": 256, "STAGES": 1}, "eager", (520, 8, 96)),
]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("params", "schedule", "sizes"), PAIRS)
def test_bsc_9_pairs(
    name: str, params: dict[str, int], schedule: str, sizes: tuple[int, int, int]
) -> None:
    """Both CTAs take all of B's scales, of which each holds half of the rows."""
    text = changed(name, ("launch persistent", "launch persistent, pair"))
    check(text, *sizes, FORMS[name], schedule, **params)
    if name == "gemm_nvfp4_slow":
        apart = pipeline("sm_100a").replace("cothread-copies,", "")
        check(text, *sizes, FORMS[name], schedule, passes=apart, **params)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize(
    ("sizes", "stages"), [((700, 264, 1056), 4), ((1, 8, 32), 2), ((520, 136, 2880), 1)]
)
def test_pairs_with_two_accumulators(
    schedule: str, sizes: tuple[int, int, int], stages: int
) -> None:
    check(example("gemm_nvfp4_2cta"), *sizes, FORMS["gemm_nvfp4"], schedule, STAGES=stages)


@EACH
@pytest.mark.parametrize("ctas", [2, 4])
def test_clusters_share_tiles_of_b(name: str, ctas: int) -> None:
    """Each CTA loads a part of B's elements for all, and the scales of all of it for itself."""
    text = changed(
        name,
        ("launch persistent", f"launch persistent, cluster({ctas})"),
        ("group = 8", "group = 8, across = m"),
        ("b <- B[n, k]", "b <- B[n, k], multicast"),
    )
    check(text, 600, 264, 544, FORMS[name], "random", STAGES=3)


def test_bsc_3_padding_that_is_not_one_changes_nothing() -> None:
    """Whatever finite scales stand in the padding, they meet zeros."""
    form = FORMS["gemm_mxfp4"]
    kernel = tkc.compile(example("gemm_mxfp4"))
    a, b = operand(130, 96, *form), operand(8, 96, *form)
    c = np.full((130, 8), np.nan, BF16)
    sizes = {"a": (130, 3), "b": (8, 3)}
    pairs: list[tuple[Array, Array]] = []
    for x, (rows, count) in zip((a, b), sizes.values(), strict=True):
        data, packed = x.pair
        mask = scales.interleave(np.ones((rows, count), np.uint8)) == 1
        assert (scales.row_major(packed, rows, count) != 0).all()
        pairs.append(
            (data, np.where(mask, packed, RNG.integers(0, 255, packed.shape)).astype(np.uint8))
        )
    report = kernel.emulate(*pairs, c, sm_count=2)
    assert not report.findings
    wanted = a.real @ b.real.T
    assert np.linalg.norm(c.astype(np.float64) - wanted) <= BOUND * np.linalg.norm(wanted)


def test_nan_in_a_scale_reaches_its_row_and_no_other() -> None:
    form = FORMS["gemm_mxfp8"]
    kernel = tkc.compile(example("gemm_mxfp8"))
    a, b = operand(130, 96, *form), operand(40, 96, *form)
    plain = scales.row_major(a.pair[1], 130, 3).copy()
    plain[77, 1] = 0xFF
    c = np.full((130, 40), np.nan, BF16)
    report = kernel.emulate((a.pair[0], scales.interleave(plain)), b.pair, c, sm_count=2)
    assert not report.findings
    values = c.astype(np.float64)
    assert np.isnan(values[77]).all()
    assert np.isfinite(np.delete(values, 77, 0)).all()

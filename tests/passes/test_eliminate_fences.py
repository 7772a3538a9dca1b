"""Fences go where the rest orders everything without them, and only there."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import tkc
from tkc.analysis import certificates
from tkc.diagnostics import Diagnostic, listening
from tkc.driver import to_module
from tkc.ir.certificates import Certificate, label, read
from tkc.ir.stage import ops as s
from tkc.job import Job
from tkc.passes import pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"
BF16 = ml_dtypes.bfloat16
LEVEL2 = (EXAMPLES / "gemm_bf16_level2.tk").read_text()


def compiled(
    text: str, target: str = "sm_100a", **job: str
) -> tuple[ModuleOp, Certificate, list[Diagnostic]]:
    """The module after the pass, its certificate, and what failed of it (nothing may, where a test does not ask)."""
    with listening() as heard:
        module = to_module(Job(text, "test.tk", target, **job), after="eliminate-fences")  # pyright: ignore
    [certificate] = read(module)
    return module, certificate, [d for d in heard if d.code == "TK902"]


def verdicts(text: str, target: str = "sm_100a", **job: str) -> dict[str, str]:
    _, certificate, failed = compiled(text, target, **job)
    assert [d.message for d in failed] == []
    return {x.id: x.verdict for x in certificate.sites}


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def fences(ptx: str) -> list[str]:
    return re.findall(r"^\s*(fence\.\S+|tcgen05\.fence\S+);", ptx, re.MULTILINE)


def test_what_is_as_careful_as_a_port_becomes_what_a_tile_program_is() -> None:
    """The level-2 GEMM, fenced at every step, has the fences of the level-1 one afterwards, one for one."""
    careful, plain = tkc.compile(LEVEL2, fences="conservative"), tkc.compile(LEVEL2)
    tiles = tkc.compile(EXAMPLES / "gemm_bf16.tk")
    assert len(fences(careful.ptx)) == len(fences(plain.ptx)) + 5
    assert fences(plain.ptx) == fences(tiles.ptx)


EVERY = changed(
    LEVEL2,
    ("barrier drained * 2, count = 4", "barrier drained * 2, count = 128"),
    (
        "            sync warp\n            arrive drained[i], each = warp\n",
        "            arrive drained[i], each = thread\n",
    ),
)
"""Every reader arrives for itself, so that nothing rests on what bar.warp.sync does to tensor memory (A13)."""


@pytest.mark.parametrize("text", [LEVEL2, EVERY], ids=["a warp at a time", "each reader"])
@pytest.mark.parametrize("model", ["practice", "strict"])
def test_both_fences_before_a_product_go(text: str, model: str) -> None:
    """In one CTA by documented rules: the wait acquires, so that tcgen05.mma needs neither of them."""
    found = verdicts(text, model=model)
    assert found["math.user.fence.2"] == "removed"  # tcgen05.fence::after_thread_sync
    assert found["math.user.fence.3"] == "removed"  # fence.proxy.async.shared::cta
    assert found["store.user.fence.2"] == "kept"


def test_what_the_copy_engine_brought_is_read_by_the_rules_of_one_proxy() -> None:
    _, certificate, _ = compiled(LEVEL2, model="strict")
    loads = [
        o
        for o in certificate.orders
        if (o.first.site, o.second.site) == ("load.tma_load_to.0", "math.mma.0")
    ]
    assert [x.rule for o in loads for x in o.forward or ()] == ["bytes", "one-proxy"]
    assert all(o.model == "strict" for o in loads)


@pytest.mark.parametrize("name", ["gemm_nvfp4", "gemm_mxfp8", "gemm_nvfp4_2cta"])
def test_block_scaled_products_need_neither(name: str) -> None:
    module, certificate, failed = compiled((EXAMPLES / f"{name}.tk").read_text())
    assert failed == []
    assert not any(isinstance(op, s.Tcgen05FenceOp) for op in module.walk())
    assert {x.verdict for x in certificate.sites if x.id.startswith("math.fence")} == {"removed"}


def test_a_number_that_is_only_read_hides_nothing() -> None:
    """Single elements of tensors are not followed; of one that the kernel does not write there is nothing to follow."""
    plain = (EXAMPLES / "gemm_2cta.tk").read_text()
    scaled = changed(
        plain,
        ("C: global[bf16, M, N])", "C: global[bf16, M, N], alpha: global[f32])"),
        ("bf16(read(d))", "bf16(read(d) * alpha)"),
    )
    for text in (plain, scaled):
        assert "acquire.cluster" not in re.sub(
            r"barrier\.cluster\.\S+", "", tkc.compile(text, target="sm_100a").ptx
        )


def test_a_pair_of_ctas_needs_assumptions_by_name() -> None:
    from tkc.analysis.happens_before.rules import RULES

    _, certificate, _ = compiled((EXAMPLES / "gemm_2cta.tk").read_text())
    used = {a for o in certificate.orders for rule in o.rules() for a in RULES[rule].assumes}
    assert {"A1", "A2"} <= used


def test_scale_columns_that_are_used_again_rest_on_an_assumption() -> None:
    """A product, then a copy over the scales that it reads: not in PTX's list of pairs."""
    text = (EXAMPLES / "gemm_nvfp4.tk").read_text()
    _, certificate, _ = compiled(text)
    again = [
        o
        for o in certificate.orders
        if {"copy_scales", "scaled_mma"}
        <= {o.first.site.split(".")[1], o.second.site.split(".")[1]}
    ]
    assert again
    assert {"pipelined", "pipelined-scales"} >= {
        x.rule for o in again for x in (*(o.forward or ()), *(o.back or ()))
    }
    _, strict, _ = compiled(text, model="strict")
    assert {o.model for o in strict.orders if "pipelined-scales" in o.rules()} <= {"practice"}


def test_copies_of_scales_by_another_thread_are_ordered_by_their_commit() -> None:
    text = (EXAMPLES / "gemm_nvfp4_slow.tk").read_text()
    apart = pipeline("sm_100a").replace("cothread-copies,", "").split(",elect-single-thread")[0]
    _, certificate, failed = compiled(text, passes=apart)
    assert failed == []
    across = [
        o for o in certificate.orders
        if o.first.role != o.second.role
        and {"copy_scales", "scaled_mma"} == {o.first.site.split(".")[1], o.second.site.split(".")[1]}
    ]  # fmt: skip
    assert across
    for order in across:
        assert "commit" in order.rules()
        assert "pipelined" not in order.rules()


def test_after_a_relaxed_wait_for_products_the_fence_stays() -> None:
    relaxed = changed(LEVEL2, ("wait done[i], turn\n", "wait done[i], turn, relaxed\n"))
    found = verdicts(relaxed)
    assert found["store.user.fence"] == "kept"
    assert found["store.user.fence.2"] == "kept"


def test_after_a_relaxed_wait_for_operands_nothing_is_proved_of_shared_memory() -> None:
    """A relaxed wait for what the copy engine brings is a mistake: no fence that could bear on it goes."""
    relaxed = changed(LEVEL2, ("wait full[slot], phase\n", "wait full[slot], phase, relaxed\n"))
    assert verdicts(relaxed)["math.user.fence.3"] == "kept"


FILL = """\
    role fill, warps 4:
        slot = 0
        phase = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait full[slot], phase
                b[slot] <- bf16(f32(read(raw[slot])) * 2)
                fence proxy shared
                sync warp
                arrive ready[slot], each = warp
                arrive empty[slot], each = warp
                slot += 1
                if slot == STAGES:
                    slot = 0
                    phase = phase ^ 1

"""
RAW = "    shared raw: tile[bf16, BN, BK] * STAGES\n    barrier ready * STAGES, count = 4\n"
WAIT = "                wait full[slot], phase\n"
FILLED = changed(
    LEVEL2,
    ("    barrier done * 2, count = 1\n", f"{RAW}    barrier done * 2, count = 1\n"),
    ("expect full[slot], bytes(a, b)", "expect full[slot], bytes(a, raw)"),
    ("load b[slot] <- B[n, k], full[slot]", "load raw[slot] <- B[n, k], full[slot]"),
    ("BN = 256, BK = 64, STAGES = 4", "BN = 128, BK = 64, STAGES = 2"),
    (WAIT, WAIT + WAIT.replace("full", "ready")),
    ("barrier empty * STAGES, count = 1", "barrier empty * STAGES, count = 5"),
    ("    role store, warps 4:\n", f"{FILL}    role store, warps 4:\n"),
)
"""The same GEMM, but threads write the operand b, twice what the copy engine brought."""


def test_an_operand_that_threads_write_needs_their_fence() -> None:
    """It also stands between their reads and the next copy; then the one before the product has nothing left to do."""
    found = verdicts(FILLED)
    assert (found["fill.user.fence"], found["math.user.fence.3"]) == ("kept", "removed")


def test_without_the_writers_fence_the_one_before_the_product_stays() -> None:
    fence = "                fence proxy shared\n                sync warp\n                arrive ready"
    found = verdicts(
        changed(FILLED, (fence, fence.replace("                fence proxy shared\n", "")))
    )
    assert found["math.user.fence.3"] == "kept"


def test_a_program_s_own_fences_stay_as_written() -> None:
    assert set(verdicts(LEVEL2, fences="as-written").values()) == {"kept"}
    assert (
        tkc.compile(LEVEL2, fences="as-written").ptx
        == tkc.compile(LEVEL2, fences="conservative").ptx
    )
    tiles = EXAMPLES / "gemm_bf16.tk"
    assert tkc.compile(tiles, fences="as-written").ptx == tkc.compile(tiles).ptx


def test_the_cheapest_form_is_taken() -> None:
    """One that covers every space costs a barrier of the whole GPU; this one is only there for shared memory."""
    wide = changed(
        LEVEL2,
        (
            "                fence proxy shared\n                sync role\n",
            "                fence proxy all\n                sync role\n",
        ),
    )
    module, certificate, failed = compiled(wide)
    assert failed == []
    forms = [(x.before, x.after) for x in certificate.sites if x.verdict == "weakened"]
    fence = ("fence.proxy.async", "fence.proxy.async.shared::cta")
    assert forms == [
        fence,
        ("bulk_wait", "bulk_wait.read"),
    ]  # the last one: nobody reads what has been stored
    [left] = [op for op in module.walk() if isinstance(op, s.ProxyFenceOp)]
    assert (label(left), left.space.data) == ("store.user.fence.2", "shared::cta")


def test_scopes_are_narrowed_where_no_generic_data_crosses() -> None:
    text = (EXAMPLES / "gemm_2cta_level2.tk").read_text()
    _, certificate, failed = compiled(text)
    assert failed == []
    assert {x.verdict for x in certificate.sites if x.op == "stage.mbarrier_arrive"} == {"weakened"}
    _, strict, _ = compiled(text, model="strict")
    assert not any(x.verdict == "weakened" for x in strict.sites)


def test_a_fence_of_tensors_that_threads_write_stays() -> None:
    """Another CTA may read what this one writes, which the analysis of one does not see."""
    text = changed(
        LEVEL2,
        (
            "        elect:\n            wait stores\n",
            "        elect:\n            wait stores\n        fence proxy global\n",
        ),
    )
    assert (
        verdicts(text)["store.user.fence.4"] == "removed"
    )  # here only the copy engine touches tensors
    written = changed(
        text,
        (
            "            arrive drained[i], each = warp\n",
            "            arrive drained[i], each = warp\n            atomic_add(D[0], 1.0)\n",
        ),
    )
    written = written.replace("C: global[bf16, M, N])", "C: global[bf16, M, N], D: global[f32, M])")
    assert verdicts(written)["store.user.fence.4"] == "kept"


STORED = "                fence proxy shared\n                sync role\n"
SYNC = "                sync role\n"
ONE = "                elect:\n                    fence proxy shared\n"
ATTEMPTS = {
    "after the meeting, by all": (
        SYNC + "                fence proxy shared\n",
        {"fence.2": "kept"},
    ),
    "before the meeting, by one thread that has not written": (ONE + SYNC, {"fence.2": "kept"}),
    "on both sides, one of them by one thread": (
        STORED + ONE,
        {"fence.2": "removed", "fence.3": "kept"},
    ),
    "twice": (
        "                fence proxy shared\n" + STORED,
        {"fence.2": "removed", "fence.3": "kept"},
    ),
    "under a condition on a size": (
        "                if K > 64:\n                    fence proxy shared\n" + SYNC,
        {"fence.2": "kept"},
    ),
    "in some turns": (
        "                if j < 3:\n                    fence proxy shared\n" + SYNC,
        {"fence.2": "kept"},
    ),
    "in a loop that may not turn": (
        "                for q in blocks(K, BK):\n                    fence proxy shared\n" + SYNC,
        {"fence.2": "kept"},
    ),
    "of the wrong space": ("                fence proxy global\n" + SYNC, {"fence.2": "removed"}),
}
"""Where else the fence of the epilogue may stand, and which then stay: a wrong program keeps what might help it."""


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_attempts_to_lose_the_fence_before_the_store(attempt: str) -> None:
    instead, wanted = ATTEMPTS[attempt]
    found = verdicts(changed(LEVEL2, (STORED, instead)))
    assert {id: found[f"store.user.{id}"] for id in wanted} == wanted


def test_staging_that_is_not_awaited_keeps_every_fence_of_its_space() -> None:
    text = changed(
        LEVEL2, ("                elect:\n                    wait stores <= 1, read\n", "")
    )
    found = verdicts(text)
    assert (found["store.user.fence.2"], found["math.user.fence.3"]) == ("kept", "kept")


SINGLE = """
kernel reverse(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m in tiles(M)
    shared v: vector[f32, 128] * 2
    role all, warps 4:
        slot = 0
        for m in work:
            x = read(X[m, thread]) if thread < N else 0.0
            v[slot][127 - thread] <- x * 2
            fence proxy shared
            fence acq_rel cta
            sync role
            if thread < N: Y[m, thread] <- read(v[slot][127 - thread]) + 1
            sync role
            slot = slot ^ 1
"""


def test_accesses_that_are_not_followed_keep_their_fences() -> None:
    """Single elements of shared memory: which thread touches which is not known."""
    assert set(verdicts(SINGLE).values()) == {"kept"}


def test_certificates_survive_printing_and_parsing() -> None:
    from tests.passes.programs import parse

    module, certificate, _ = compiled(LEVEL2)
    assert read(parse(str(module))) == [certificate]


def test_a_kernel_that_is_too_large_keeps_its_fences_and_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tkc.analysis.happens_before.paths.MOST_LABELS", 10)
    before = to_module(Job(LEVEL2, "test.tk", "sm_100a"), after="insert-fences")
    with listening() as heard:
        module = to_module(Job(LEVEL2, "test.tk", "sm_100a"), after="eliminate-fences")
    assert [d.code for d in heard if d.code in ("TK223", "TK902")] == ["TK223"]
    fences = [
        [op.name for op in m.walk() if isinstance(op, s.ProxyFenceOp | s.Tcgen05FenceOp)]
        for m in (before, module)
    ]
    assert fences[0] == fences[1] != []


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_roles_of_a_family_that_take_turns_are_followed(target: str) -> None:
    text = (EXAMPLES.parent / "lit_tests" / "run" / "turns.tk").read_text()
    module, certificate, failed = compiled(text, target)
    assert failed == []
    assert {"removed"} < {x.verdict for x in certificate.sites}
    ends = {e.role for o in certificate.orders for e in (o.first, o.second)}
    assert {"add[0]", "add[1]"} <= ends
    from tests.passes.programs import parse

    assert read(parse(str(module))) == [certificate]


def moving(target: str) -> str:
    return pipeline(target).replace("eliminate-fences", "eliminate-fences{move=true}")


@pytest.mark.parametrize(("name", "target"), [("silu_mul", "sm_90a"), ("transpose", "sm_100a")])
def test_one_thread_fences_for_its_role_where_that_is_asked_for(name: str, target: str) -> None:
    """A11: behind the role's barrier, so that one warp pays and not four."""
    text = (EXAMPLES / f"{name}.tk").read_text()
    module, certificate, failed = compiled(text, target, passes=moving(target))
    assert failed == []
    [site] = [x for x in certificate.sites if x.verdict != "removed"]
    form = "fence.proxy.async.shared::cta"
    assert (site.verdict, site.before, site.after) == ("moved", form, f"{form} by one thread")
    [fence] = [op for op in module.walk() if isinstance(op, s.ProxyFenceOp)]
    assert isinstance(fence.prev_op, s.RoleBarrierOp)
    assert fence.executed_by == "one"
    kernel = tkc.compile(text, target=target, passes=moving(target))
    x, y = (np.random.default_rng().uniform(-1, 1, (200, 264)).astype(BF16) for _ in range(2))
    given = [x, y] if name == "silu_mul" else [x]
    out = np.full((264, 200) if name == "transpose" else (200, 264), np.nan, BF16)
    assert kernel.emulate(*given, out, sm_count=2, schedule="random").clean
    whole = np.full(out.shape, np.nan, BF16)
    assert tkc.compile(text, target=target).emulate(*given, whole, sm_count=2).clean
    assert out.tobytes() == whole.tobytes()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_fence_moves_where_readers_release_in_two_places(target: str) -> None:
    """Items of one barrier are given back in two loops: the certificate has a chain through each."""
    text = (EXAMPLES / "row_softmax.tk").read_text()
    module, moved, failed = compiled(text, target, passes=moving(target))
    assert failed == []
    assert [x.verdict for x in moved.sites].count("moved") == 1
    [one] = [op for op in module.walk() if isinstance(op, s.ProxyFenceOp) and op.by is not None]
    assert isinstance(one.prev_op, s.RoleBarrierOp)
    kernel = tkc.compile(text, target=target, passes=moving(target))
    x = np.random.default_rng().normal(size=(130, 200)).astype(BF16)
    results: list[bytes] = []
    for each in (kernel, tkc.compile(text, target=target)):
        y, lse = np.full(x.shape, np.nan, BF16), np.full(len(x), np.nan, np.float32)
        assert each.emulate(x, y, lse, sm_count=2, schedule="random").clean
        results.append(y.tobytes() + lse.tobytes())
    assert results[0] == results[1]


def test_a_move_that_the_checker_refuses_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (EXAMPLES / "silu_mul.tk").read_text()
    _, plain, _ = compiled(text, "sm_90a")
    whole = certificates.wrong

    def refusing(certificate: Certificate, kernel: s.KernelOp) -> dict[int, str]:
        moves = [x for x in certificate.sites if x.verdict == "moved"]
        refused = {i: "refused" for x in moves for i in x.orders}
        return whole(certificate, kernel) | refused

    monkeypatch.setattr(certificates, "wrong", refusing)
    _, back, failed = compiled(text, "sm_90a", passes=moving("sm_90a"))
    assert failed == []
    assert [x.verdict for x in back.sites] == [x.verdict for x in plain.sites]


READS = "fence.proxy.async::generic.release.sync_restrict::shared::cluster::read.cluster"
ACQUIRE = "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster"
SOFTMAX = (EXAMPLES / "row_softmax.tk").read_text()


def test_what_reads_alone_is_released_one_way_where_the_target_has_the_form() -> None:
    """The fence between a pass that only reads and the copy engine's next write: a wait for the warp's own loads."""
    _, certificate, failed = compiled(SOFTMAX, "sm_107a")
    assert failed == []
    [halved] = [x for x in certificate.sites if x.verdict == "weakened"]
    assert (halved.before, halved.after) == ("fence.proxy.async.shared::cta", READS)
    added = [x for x in certificate.sites if x.verdict == "inserted"]
    assert [(x.before, x.after) for x in added] == [("", ACQUIRE)] * 2
    rules = {r for i in halved.orders for r in certificate.orders[i].rules()}
    assert {"half-release", "half-acquire"} <= rules
    kernel = tkc.compile(SOFTMAX, target="sm_107a")
    kept = "fence.proxy.async.shared::cta"
    assert sorted(f for f in fences(kernel.ptx) if "proxy" in f) == sorted(
        [ACQUIRE] * 2 + [READS, kept]
    )


def test_one_way_forms_are_not_a_reason_for_a_later_version_of_ptx() -> None:
    assert ACQUIRE not in tkc.compile(SOFTMAX, target="sm_100a").ptx
    newest = pipeline("sm_100a").replace("eliminate-fences", "eliminate-fences{newest=true}")
    asked = tkc.compile(SOFTMAX, target="sm_100a", passes=newest).ptx
    assert asked.count(ACQUIRE) == 2
    assert asked.startswith(".version 9.4")


@pytest.mark.parametrize("without", [READS, ACQUIRE])
def test_both_halves_are_needed(without: str) -> None:
    kernel = tkc.compile(SOFTMAX, target="sm_107a")
    x = np.random.default_rng().normal(size=(130, 456)).astype(BF16)
    given = (x, np.full(x.shape, np.nan, BF16), np.full(len(x), np.nan, np.float32))
    launch = kernel.emulation(*given, sm_count=1)
    assert launch is not None
    assert tkc.emulate(kernel.ptx, **launch).clean
    found = tkc.emulate(kernel.ptx.replace(f"{without};", ""), **launch).findings
    assert {f.code for f in found} == {"TK302"}


def test_halves_that_the_checker_refuses_become_the_fence_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = certificates.wrong

    def refusing(certificate: Certificate, kernel: s.KernelOp) -> dict[int, str]:
        refused = {i: "no" for x in certificate.sites if x.verdict == "inserted" for i in x.orders}
        return whole(certificate, kernel) | refused

    monkeypatch.setattr(certificates, "wrong", refusing)
    module, certificate, failed = compiled(SOFTMAX, "sm_107a")
    assert {d.code for d in failed} == {"TK902"}
    assert {"weakened", "inserted"}.isdisjoint(x.verdict for x in certificate.sites)
    left = [op.space.data for op in module.walk() if isinstance(op, s.ProxyFenceOp)]
    assert set(left) == {"shared::cta"}

"""CVG: barriers are met by all who must meet them, and leaders are relative to their role."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cases.products import EXAMPLES, check_product
from click.testing import CliRunner
from emulator.kernels import launch
from programs import changed

import tkc
from tkc.commands.check import command
from tkc.diagnostics import Severity
from tkc.driver import run
from tkc.ir.stage import ops as s
from tkc.job import Job

LEVEL2 = (EXAMPLES / "gemm_bf16_level2.tk").read_text(encoding="utf-8")
TWO_ARMS = """\
                if j == 0:
                    i = i + 0
                sync 3, 128
                if j > 0:
                    i = i + 0
                sync role
"""
"""A named barrier between two conditions: an optimiser that threads jumps would make two of it."""


def barriers(text: str) -> int:
    return len(re.findall(r"^\s*(?:@\S+ )?barrier\.cta\.sync", text, re.MULTILINE))


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_CVG_1_a_barrier_stands_once_in_the_text(target: str) -> None:
    """Each `sync` of the source is one instruction, on no branch that the source has not."""
    more = changed(LEVEL2, ("                sync role\n", TWO_ARMS))
    assert more.count("sync 3, 128") == 1
    before, after = (tkc.compile(t, target=target).ptx for t in (LEVEL2, more))
    assert barriers(after) == barriers(before) + 1
    assert len(re.findall(r"barrier\.cta\.sync 3, 128;", after)) == 1
    check_product(more, target, 136, 264, 72)


def test_CVG_1_every_stage_barrier_becomes_one_instruction() -> None:
    kernel = tkc.compile(EXAMPLES / "gemm_bf16.tk", target="sm_90a")
    stage = sum(
        isinstance(op, s.RoleBarrierOp) for op in kernel.module("elect-single-thread").walk()
    )
    whole = barriers(kernel.ptx)
    of_the_cta = len(re.findall(r"barrier\.cta\.sync 0;", kernel.ptx))
    assert stage > 0
    assert whole - of_the_cta == stage


@pytest.mark.parametrize(
    "test",
    [
        *("warp == 5", "thread == 160", "warp == 4 and lane == 0", "lane == 32"),
        *("warp == 0 and thread == 40", "lane == 1 and lane == 2", "warp == 0 and warp == 1"),
    ],
)
def test_CVG_3_a_leader_that_the_role_does_not_have_is_said(test: str) -> None:
    """Numbers of warps count from the role's own first: `warp == 5` in a role of four is never true."""
    text = changed(
        LEVEL2,
        (
            "                elect:\n                    store",
            f"                if {test}:\n                    store",
        ),
    )
    found = [d for d in run(Job(text, "k.tk")).diagnostics if d.code == "TK122"]
    (warning,) = found
    assert warning.severity is Severity.WARNING
    assert "no thread meets this condition" in warning.message
    assert "role store has 4 warps" in warning.message
    assert warning.location is not None
    assert f"if {test}:" in text.split("\n")[warning.location.line - 1]


ELEMENTS = """\
kernel k(X: global[f32, N], Y: global[f32, N]):
    launch persistent
    schedule work: n in blocks(N, 128)
    shared v: vector[f32, 128]
    barrier full, count = 1
    role all, warps 4:
        phase = 0
        for n in work:
            elect:
                wait stores, read
                expect full, bytes(v)
                load v <- X[n], full
            wait full, phase
            phase = phase ^ 1
            if TEST:
                v[0][5] <- 7
            fence proxy shared
            sync role
            elect:
                store Y[n] <- v
                commit stores
        elect: wait stores
"""


@pytest.mark.parametrize(
    ("test", "once"),
    [
        *[("lane == 32", False), ("warp == 0 and thread == 40", False), ("warp == 4", False)],
        *[("lane == 1 and lane == 2", False), ("thread == 40 and lane == 8", True)],
        *[("warp == 1 and thread == 40", True), ("lane == 31 and warp == 3", True)],
    ],
)
def test_CVG_3_what_no_thread_meets_runs_in_none(test: str, once: bool) -> None:
    x = np.random.default_rng(3).uniform(1, 2, 300).astype(np.float32)
    y = np.full_like(x, np.nan)
    tkc.compile(ELEMENTS.replace("TEST", test), target="sm_90a").emulate(x, y)
    expected = x.copy()
    if once:
        expected[5::128] = 7
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("test", ["warp == 3", "thread == 96", "lane == 0 and warp == 2"])
def test_CVG_3_a_leader_of_the_role_stores_wherever_the_role_stands(test: str) -> None:
    """The role's warps are 4 to 7 of the CTA; commit and wait stand with the store, since groups are a thread's own."""
    text = LEVEL2.replace(
        "elect:\n                    wait stores", f"if {test}:\n                    wait stores"
    )
    text = text.replace(
        "elect:\n                    store", f"if {test}:\n                    store"
    )
    text = text.replace(
        "        elect:\n            wait stores", f"        if {test}:\n            wait stores"
    )
    assert text.count(f"if {test}:") == 3
    assert not [d for d in run(Job(text, "k.tk")).diagnostics if d.code == "TK122"]
    check_product(text, "sm_100a", 136, 264, 72)


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("sync role", "lane < 7"),
        ("sync role", "warp < 2"),
        ("sync warp", "lane < 7"),
        ("sync role", "thread < 100"),
    ],
)
def test_CVG_5_a_barrier_under_a_condition_that_threads_differ_in_is_refused(
    statement: str, condition: str
) -> None:
    at = "                sync role\n" if statement == "sync role" else "            sync warp\n"
    blanks = at[: len(at) - len(at.lstrip())]
    text = changed(LEVEL2, (at, f"{blanks}if {condition}:\n    {at}"))
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text)
    found = caught.value.diagnostics[0]
    assert found.code == "TK121"
    assert statement in found.message
    assert found.location is not None
    assert statement in text.split("\n")[found.location.line - 1]
    (cause,) = found.notes
    assert cause.location is not None
    assert f"if {condition}:" in text.split("\n")[cause.location.line - 1]
    assert found.help is not None


SKIPS = """\
kernel k(X: global[i32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    role all, warps 4:
        for m, n in work:
            for e in range(4):
                if read(X[m, n.index * 128 + thread]) < 0: continue
                v[0][thread] <- f32(e)
                sync role
                Y[m, n.index * 128 + thread] <- read(v[0][127 - thread])
                sync role
"""


@pytest.mark.parametrize(
    ("index", "codes"), [("n.index * 128 + thread", ["TK121"]), ("n.index * 128", [])]
)
def test_CVG_5_a_continue_that_threads_differ_in_is_one_mistake(
    index: str, codes: list[str], tmp_path: Path
) -> None:
    """Both barriers behind it are skipped; one that all skip together is none."""
    path = tmp_path / "k.tk"
    path.write_text(changed(SKIPS, ("n.index * 128 + thread]) < 0", f"{index}]) < 0")))
    said = CliRunner().invoke(command, [str(path), "--format", "json"])
    found = [d for d in json.loads(said.output)["diagnostics"] if d["severity"] == "error"]
    assert [d["code"] for d in found] == codes


def test_CVG_5_lanes_that_skip_a_barrier_are_found_by_the_emulator() -> None:
    """`continue` on data: the lanes that skip one barrier come to the next, where the others are not."""
    body = """
        mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; add.u64 %d2, %d0, %d2;
        ld.global.s32 %r1, [%d2]; setp.lt.s32 %p0, %r1, 0; @%p0 bra SKIP;
        bar.sync 0;
        SKIP: bar.sync 1; ret;
    """
    data = np.ones(64, np.int32)
    data[33] = -1
    assert {f.code for f in launch(body, data, block=64).findings} & {"TK314", "TK316"}

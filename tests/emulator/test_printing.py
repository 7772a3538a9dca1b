"""What kernels print and where they stop: formats as C has them, hangs that say what they wait for."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from programs import changed

import tkc
import tkc.emulator
from tkc.backend.assemble import find_ptxas
from tkc.diagnostics import TkcError

EXAMPLES = Path(__file__).parents[2] / "examples"
HANG = Path(__file__).parents[1] / "gpu" / "hang.tk"
TARGETS = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas here")

PRINTS = """
.version 8.0
.target sm_90a
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 p, .param .b64 q);
.global .align 1 .b8 text[] = {%s, 0};
.visible .entry k()
.reqntid 32, 1, 1
{
    .local .align 8 .b8 list[32];
    .reg .b64 %%a<2>;
    .reg .b32 %%t;
    .reg .pred %%p;
    .param .b64 first;
    .param .b64 second;
    .param .b32 result;
    mov.u32 %%t, %%tid.x;
    setp.ne.u32 %%p, %%t, 2;
    @%%p ret;
    st.local.b32 [list], -5;
    st.local.b64 [list+8], 1234567890123;
    st.local.f64 [list+16], 0d3FF8000000000000;
    st.local.b32 [list+24], %%t;
    mov.b64 %%a0, text;
    cvta.global.u64 %%a0, %%a0;
    st.param.b64 [first], %%a0;
    mov.b64 %%a1, list;
    cvta.local.u64 %%a1, %%a1;
    st.param.b64 [second], %%a1;
    call (result), vprintf, (first, second);
    ret;
}
"""


@pytest.mark.parametrize(
    ("format", "wanted"),
    [
        ("%d|%lld|%g|%u\n", "-5|1234567890123|1.5|2\n"),
        ("%x 100%% %llx %.3f %c", "fffffffb 100% 11f71fb04cb 1.500 \x02"),
        ("%6d|%-14lld|%e|%03d", "    -5|1234567890123 |1.500000e+00|002"),
        ("nothing, \u00fc", "nothing, \u00fc"),
    ],
)
def test_a_format_is_read_as_c_reads_it(format: str, wanted: str) -> None:
    report = tkc.emulate(PRINTS % ", ".join(map(str, format.encode())), grid=1, block=32, args=[])
    assert not report.findings, report.findings
    assert report.printed == wanted


@TARGETS
def test_a_wait_that_nobody_ends_says_what_it_waits_for(target: str) -> None:
    report = tkc.compile(HANG, target=target, trap_hangs=0).emulate(np.zeros((4, 8), np.float32))
    assert [f.code for f in report.findings] == ["TK410"]
    assert report.printed.splitlines()[3] == (
        f"{HANG}:6:9: hang: role work still waits for barrier never[1], phase of parity 0, "
        "in CTA (0, 0, 0), thread 3"
    )


@TARGETS
def test_without_the_option_nothing_is_printed(target: str) -> None:
    kernel = tkc.compile(HANG, target=target)
    assert "vprintf" not in kernel.ptx
    assert "trap" not in kernel.ptx
    report = kernel.emulate(np.zeros((4, 8), np.float32))
    assert [f.code for f in report.findings] == ["TK314"]
    assert not report.printed


@TARGETS
def test_a_kernel_that_is_right_gives_the_same_bits(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (n, 136)).astype(ml_dtypes.bfloat16) for n in (136, 72))
    results = []
    for limit in (None, 0.5):
        c = np.full((136, 72), np.nan, ml_dtypes.bfloat16)
        kernel = tkc.compile(
            EXAMPLES / "gemm_bf16.tk", target=target, params={"BN": 128}, trap_hangs=limit
        )
        report = kernel.emulate(a, b, c, schedule="random", seed=seed)
        assert not report.findings, report.findings
        assert not report.printed
        results.append(c.view(np.uint16))
    assert (results[0] == results[1]).all()


@needs_ptxas
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gemm_bf16", "sm_90a"),
        ("gemm_bf16", "sm_100a"),
        ("gemm_2cta", "sm_100a"),
        ("gemm_bf16_level2_sm90", "sm_90a"),
    ],
)
def test_it_assembles(name: str, target: str) -> None:
    assert tkc.compile(EXAMPLES / f"{name}.tk", target=target, trap_hangs=10).cubin()


@pytest.mark.parametrize("seconds", [-1, 1e9, float("nan")])
def test_a_time_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(TkcError, match="TK120"):
        tkc.compile(HANG, trap_hangs=seconds)


SAYS = """\
kernel says(X: global[f32, N], Y: global[f32, N]):
    launch persistent
    role work, warps 4:
        if unit == 0:
            x = read(X[thread])
            print("all", unit, N, 1.5)
            if thread == 37:
                print("mine", thread, lane)
            if thread > 125:
                print("last", thread)
            if warp == 2:
                print("warp", warp)
            elect:
                print("100%")
            assert x < 10.0, "x is 100% small"
            Y[thread] <- x
"""


def say(target: str, wrong: bool) -> tuple[tkc.emulator.Report, np.ndarray, np.ndarray]:
    x, y = np.linspace(-9, 9, 128).astype(np.float32), np.zeros(128, np.float32)
    if wrong:
        x[70] = 10
    return tkc.compile(SAYS, target=target).emulate(x, y), x, y


@TARGETS
def test_threads_print_one_by_one_where_they_come_so(target: str) -> None:
    report, x, y = say(target, wrong=False)
    assert not report.findings, report.findings
    wanted = ["100%", "all 0 128 1.5", "last 126", "last 127", "mine 37 5", "warp 2"]
    assert sorted(report.printed.splitlines()) == wanted
    assert (x == y).all()


@TARGETS
def test_an_assertion_names_the_thread(target: str) -> None:
    report, _, _ = say(target, wrong=True)
    assert [f.code for f in report.findings] == ["TK410"]
    assert report.printed.splitlines()[-1] == (
        "<source>:15:13: assertion failed: x < 10.0: x is 100% small, in CTA (0, 0, 0), thread 70"
    )


TALKING = (
    ("a <- A[m, k]", 'print("load", k.index)\n                    a <- A[m, k]'),
    ("a <- A[m, k]", 'assert k.index < 3, "three"\n                    a <- A[m, k]'),
    ("d += a @ b.T", 'print("multiply", k.index)\n                        d += a @ b.T'),
    ("C[m, n] <-", 'print("store", m.index)\n                C[m, n] <-'),
)


@TARGETS
def test_a_gemm_that_prints_gives_the_same_bits(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (n, 136)).astype(ml_dtypes.bfloat16) for n in (136, 72))
    plain = (EXAMPLES / "gemm_bf16.tk").read_text(encoding="utf-8")
    results = []
    for text in (plain, changed(plain, *TALKING)):
        c = np.full((136, 72), np.nan, ml_dtypes.bfloat16)
        kernel = tkc.compile(text, target=target, params={"BN": 128})
        report = kernel.emulate(a, b, c, schedule="random", seed=seed)
        assert not report.findings, report.findings
        results.append(c.view(np.uint16))
    assert (results[0] == results[1]).all()
    lines = report.printed.splitlines()
    assert {f"{what} {k}" for what in ("load", "multiply") for k in range(3)} < set(lines)
    assert lines.count("load 2") == 2, "one thread of each of two CTAs"
    assert {"store 0", "store 1"} < set(lines)


@needs_ptxas
@TARGETS
def test_what_prints_assembles(target: str) -> None:
    plain = (EXAMPLES / "gemm_bf16.tk").read_text(encoding="utf-8")
    for text in (SAYS, changed(plain, *TALKING)):
        assert tkc.compile(text, target=target, params={}).cubin()


def test_a_given_pipeline_says_so_itself() -> None:
    with pytest.raises(TkcError, match=r"lower-stage-to-ptx\{trap-hangs=500000000\}"):
        tkc.compile(HANG, trap_hangs=0.5, passes="set-target{arch=sm_90a}")

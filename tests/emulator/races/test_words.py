"""Order that comes through a value: a wait that returns true, words of global memory, arrivals for copies of threads."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.kernels import launch
from emulator.mutation.witness import opinion
from emulator.races.twins import HEAD, SCHEDULES, Twin, both_asked_of, init, wait

from tkc.emulator import Report

OTHER = "xor.b32 %r2, t, 32; mad.lo.u32 %r2, %r2, 16, at; ld.shared.u32 %r1, [%r2];"
"""A load of the 16 bytes of the thread 32 further on."""
COPY = "mad.wide.u32 %d5, t, 16, %d0; cp.async.ca.shared.global [mine], [%d5], 16;"
STATE = ".reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [f];"
LEADER = "and.b32 o, t, 31; setp.eq.u32 q, o, 0;"
RELAXED = "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [f];"
PEEK = "mbarrier.test_wait.parity.shared::cta.b64 p, [f], 0;"

TWINS = (
    Twin(
        "a thread arrives, and waits for the phase of its own arrival",
        f"{HEAD}{init(f=64)} st.shared.u32 [mine], t; {STATE} {{wait}} {OTHER} ret;",
        "TK301",
        "shared",
        good={
            "wait": "V: mbarrier.try_wait.shared::cta.b64 p, [f], state; @!p bra V;",
        },
    ),
    Twin(
        "copies of threads, of which an arrival of their own tells",
        f"{HEAD}{init(f=64)} {COPY} {{arrive}} {wait('f', 0)} {OTHER} cp.async.wait_all; ret;",
        "TK301|TK309",
        "shared",
        {"arrive": "mbarrier.arrive.shared::cta.b64 _, [f];"},
        {"arrive": "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [f];"},
    ),
    Twin(
        "an arrival for copies tells of nothing else",
        f"{HEAD}{init(f=64)} st.shared.u32 [mine], t; {{arrive}} {wait('f', 0)} {OTHER} ret;",
        "TK301",
        "shared",
        {"arrive": "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [f];"},
        {"arrive": "mbarrier.arrive.shared::cta.b64 _, [f];"},
    ),
    Twin(
        "a fence of one thread is for what that thread has done, or knew then",
        f"{HEAD}{init(f=2)} {LEADER} st.shared.u32 [mine], t; {{order}} @q {RELAXED} {wait('f', 0)} {OTHER} ret;",
        "TK301",
        "shared",
        {"order": "fence.acq_rel.cta; bar.warp.sync -1;"},
        {"order": "bar.warp.sync -1; fence.acq_rel.cta;"},
    ),
    Twin(
        "each thread's own fence before its relaxed arrival",
        f"{HEAD}{init(f=64)} st.shared.u32 [mine], t; {{order}} {RELAXED} {wait('f', 0)} {OTHER} ret;",
        "TK301",
        "shared",
        {"order": "bar.warp.sync -1;"},
        {"order": "fence.acq_rel.cta; bar.warp.sync -1;"},
    ),
)


test_the_bad_form_is_found, test_the_mended_form_is_silent = both_asked_of(TWINS)


def codes(report: Report) -> set[str]:
    return {f.code for f in report.findings}


def test_a_peek_orders_only_where_it_returned_true(seed: int) -> None:
    """Thread 32 looks once whether thread 0 has arrived, and may read what that wrote if so."""

    def run(guard: str, schedule: str, number: int) -> set[str]:
        body = (
            f"{HEAD}{init()} setp.eq.u32 q, t, 32; @q bra B; @!first bra E; st.shared.u32 [mine], t;"
            f" mbarrier.arrive.shared::cta.b64 _, [f]; bra E; B: {PEEK} {guard} ld.shared.u32 %r1, [at]; E: ret;"
        )
        data = np.zeros(64, np.uint32)
        return codes(launch(body, data, block=64, target="sm_90a", schedule=schedule, seed=number))

    tries = [(s, seed + n) for s in SCHEDULES for n in range(8)]
    assert not any(run("@p", *one) for one in tries)
    assert any("TK301" in run("", *one) for one in tries)


TELL = "red.release.gpu.global.add.u32 [%d1], 1;"
SPIN = "S: ld.acquire.gpu.global.u32 %r1, [%d1]; setp.eq.u32 p, %r1, 0; @p bra S;"
FENCED = "fence.acq_rel.gpu;"


def handed(tell: str, spin: str, schedule: str, cluster: int = 1) -> Report:
    """CTA 0 writes a word and tells CTA 1, which then reads it."""
    body = (
        f"{HEAD} .reg .b32 c; mov.u32 c, %ctaid.x; setp.eq.u32 q, c, 0; @!first bra E; @!q bra R;"
        f" st.global.u32 [%d0], 7; {tell} bra E; R: {spin} ld.global.u32 %r2, [%d0]; st.global.u32 [%d0+64], %r2; E: ret;"
    )
    data, flag = np.zeros(64, np.uint32), np.zeros(4, np.uint32)
    options = {"grid": 2, "cluster": cluster, "target": "sm_90a", "schedule": schedule}
    return launch(body, data, flag, block=32, **options)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("tell", "spin", "cluster", "found"),
    [
        (TELL, SPIN, 1, False),
        (f"{FENCED} {TELL.replace('release', 'relaxed')}", SPIN, 1, False),
        (TELL, f"{SPIN.replace('acquire', 'relaxed')} {FENCED}", 1, False),
        (TELL.replace("gpu", "cluster"), SPIN.replace("gpu", "cluster"), 2, False),
        (TELL.replace("release", "relaxed"), SPIN, 1, True),
        (TELL, SPIN.replace("acquire", "relaxed"), 1, True),
        (TELL, SPIN.replace("gpu", "cta"), 1, True),  # an acquire whose scope leaves the other out
        (TELL.replace("gpu", "cta"), SPIN, 1, True),
        (TELL.replace("gpu", "cluster"), SPIN, 1, True),  # two CTAs of no cluster
        (TELL, SPIN.replace("gpu", "cta"), 2, True),
    ],
)
def test_a_word_of_global_memory_hands_data_on(
    tell: str, spin: str, cluster: int, found: bool, schedule: str
) -> None:
    report = handed(tell, spin, schedule, cluster)
    assert codes(report) == ({"TK301"} if found else set())
    if schedule == "lazy":
        assert bool(opinion(lambda: handed(tell, spin, schedule, cluster)).wrong) is found

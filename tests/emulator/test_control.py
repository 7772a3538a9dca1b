"""Branches, divergence, barriers, and what happens when nobody can go on."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.kernels import launch, per_thread

SCHEDULES = ("eager", "lazy", "random")


def test_lanes_part_and_meet_again() -> None:
    found = per_thread(
        """
        mov.u32 %r10, 0;
        and.b32 %r1, %r0, 1;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 bra EVEN;
        add.u32 %r10, %r10, 100;
        setp.gt.u32 %p2, %r0, 20;
        @%p2 bra JOIN;
        add.u32 %r10, %r10, 7;
        bra JOIN;
    EVEN:
        add.u32 %r10, %r10, 200;
    JOIN:
        vote.sync.ballot.b32 %r2, 1, -1;
        popc.b32 %r2, %r2;
        add.u32 %r10, %r10, %r2;
        """
    )
    lane = np.arange(32)
    assert (found == np.where(lane % 2 == 0, 200, np.where(lane > 20, 100, 107)) + 32).all()


def test_a_loop_with_trip_counts_of_each_lane() -> None:
    found = per_thread(
        """
        mov.u32 %r10, 0; mov.u32 %r1, 0;
    LOOP:
        setp.ge.u32 %p1, %r1, %r0;
        @%p1 bra DONE;
        add.u32 %r1, %r1, 1;
        mad.lo.u32 %r10, %r1, %r1, %r10;
        bra LOOP;
    DONE:
        """,
        block=48,
    )
    assert found.tolist() == [sum(i * i for i in range(1, n + 1)) for n in range(48)]


def test_nested_scopes_have_labels_and_registers_of_their_own() -> None:
    found = per_thread(
        """
        mov.u32 %r10, 0;
        { .reg .b32 %r1; .reg .pred P; mov.u32 %r1, 3;
        L: add.u32 %r10, %r10, 1; sub.u32 %r1, %r1, 1; setp.ne.u32 P, %r1, 0; @P bra L; }
        { .reg .b32 %r1; .reg .pred P; mov.u32 %r1, 5;
        L: add.u32 %r10, %r10, 1; sub.u32 %r1, %r1, 1; setp.ne.u32 P, %r1, 0; @P bra L; }
        """
    )
    assert (found == 8).all()


def test_switch() -> None:
    found = per_thread(
        """
        and.b32 %r1, %r0, 3;
        brx.idx %r1, TARGETS;
    TARGETS: .branchtargets A, B, C, B;
    A:  mov.u32 %r10, 10; bra END;
    B:  mov.u32 %r10, 20; bra END;
    C:  mov.u32 %r10, 30;
    END:
        """
    )
    assert found.tolist() == [(10, 20, 30, 20)[lane % 4] for lane in range(32)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_lock_that_lanes_of_one_warp_take_in_turn(schedule: str) -> None:
    """Lanes that have the lock must go on while their siblings turn round it."""
    out = np.zeros(1, np.uint32)
    report = launch(
        """
        .shared .align 4 .b32 lock; .shared .align 4 .b32 count;
        mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0;
        mov.u32 %r6, lock; mov.u32 %r7, count;
        @%p1 bra W;
        st.shared.u32 [%r6], 0; st.shared.u32 [%r7], 0;
    W:  bar.warp.sync -1;
    T:  atom.shared.cas.b32 %r2, [%r6], 0, 1;
        setp.ne.u32 %p2, %r2, 0;
        @%p2 bra T;
        ld.volatile.shared.u32 %r3, [%r7];
        add.u32 %r3, %r3, 1;
        st.volatile.shared.u32 [%r7], %r3;
        atom.shared.exch.b32 %r4, [%r6], 0;
        bar.warp.sync -1;
        ld.shared.u32 %r5, [%r7];
        st.global.u32 [%d0], %r5;
        ret;
        """,
        out,
        block=4,
        schedule=schedule,
    )
    assert not report.findings
    assert out[0] == 4


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_cta_that_waits_for_one_that_has_not_started(schedule: str) -> None:
    flag, out = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    report = launch(
        """
        mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra SET;
    W:  ld.acquire.gpu.global.u32 %r2, [%d0]; setp.eq.u32 %p2, %r2, 0; @%p2 bra W;
        st.global.u32 [%d1], %r2; ret;
    SET: st.release.gpu.global.u32 [%d0], 7; ret;
        """,
        flag,
        out,
        grid=2,
        schedule=schedule,
    )
    assert not report.findings
    assert out[0] == 7


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_named_barriers_between_warps(schedule: str) -> None:
    """Two warps hand a value to a third one through barriers of 64 threads."""
    out = np.zeros(96, np.uint32)
    report = launch(
        """
        .shared .align 4 .b32 cell[96];
        mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5;
        mov.u32 %r2, cell; mad.lo.u32 %r3, %r0, 4, %r2;
        st.shared.u32 [%r3], %r0;
        setp.eq.u32 %p1, %r1, 2;
        @%p1 bra READER;
        add.u32 %r4, %r1, 1;
        barrier.cta.arrive %r4, 64;
        ret;
    READER:
        barrier.cta.sync 1, 64;
        barrier.cta.sync 2, 64;
        ld.shared.u32 %r5, [%r3+-256];
        ld.shared.u32 %r6, [%r3+-128];
        add.u32 %r5, %r5, %r6;
        mad.wide.u32 %d1, %r0, 4, %d0;
        st.global.u32 [%d1], %r5;
        ret;
        """,
        out,
        block=96,
        schedule=schedule,
    )
    assert not report.findings
    assert (out[64:] == 2 * np.arange(32) + 32).all()


def test_deadlock_names_who_waits_for_what() -> None:
    report = launch(
        """
        mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 32; @%p1 bra A;
        barrier.cta.sync 1, 96; ret;
    A:  barrier.cta.sync 2, 64; ret;
        """,
        np.zeros(1, np.uint32),
        block=64,
    )
    assert report.hang is not None
    assert report.hang.code == "TK314"
    said = " ".join(report.hang.agents)
    assert "warp 0" in said
    assert "barrier 2 (32 of 64" in said
    assert "warp 1" in said
    assert "barrier 1 (32 of 96" in said


def test_exited_threads_are_not_waited_for() -> None:
    out = np.zeros(64, np.uint32)
    report = launch(
        """
        mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 32; @%p1 ret;
        barrier.cta.sync 0;
        mad.wide.u32 %d1, %r0, 4, %d0; st.global.u32 [%d1], 1; ret;
        """,
        out,
        block=64,
    )
    assert not report.findings
    assert out.tolist() == [0] * 32 + [1] * 32


def test_trap_and_step_limit() -> None:
    assert launch("trap; ret;", np.zeros(1, np.uint32)).faults[0].code == "TK410"
    report = launch(
        "L: add.u32 %r1, %r0, 1; mov.u32 %r0, 0; bra L;", np.zeros(1, np.uint32), max_steps=5000
    )
    assert report.faults[0].code == "TK415"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cluster_barrier_and_remote_shared_memory(schedule: str) -> None:
    out = np.zeros(8, np.uint32)
    report = launch(
        """
        .shared .align 4 .b32 cell;
        mov.u32 %r0, %cluster_ctarank; mov.u32 %r9, %ctaid.x; mov.u32 %r1, cell;
        add.u32 %r2, %r9, 10; st.shared.u32 [%r1], %r2;
        barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
        xor.b32 %r3, %r0, 1;
        mapa.shared::cluster.u32 %r4, %r1, %r3;
        ld.shared::cluster.u32 %r5, [%r4];
        mad.wide.u32 %d1, %r9, 4, %d0; st.global.u32 [%d1], %r5;
        barrier.cluster.arrive; barrier.cluster.wait; ret;
        """,
        out,
        grid=8,
        cluster=2,
        schedule=schedule,
    )
    assert not report.findings
    assert out.tolist() == [11, 10, 13, 12, 15, 14, 17, 16]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_that_arrive_at_the_cluster_barrier_and_end_count_once(schedule: str) -> None:
    """Lanes of CTA 0 arrive and end long before CTA 1 arrives, which alone makes what is read behind the wait."""
    out = np.zeros(2, np.uint32)
    report = launch(
        """
        .shared .align 4 .b32 cell;
        mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, cell; mov.u32 %r2, %tid.x; mov.u32 %r6, 0;
        setp.eq.u32 %p1, %r0, 0; @%p1 bra A;
    L:  add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 200; @%p2 bra L;
        st.shared.u32 [%r1], %r6;
    A:  barrier.cluster.arrive.release;
        setp.ne.u32 %p3, %r2, 0; @%p3 ret;
        barrier.cluster.wait.acquire;
        mov.u32 %r3, 1; mapa.shared::cluster.u32 %r4, %r1, %r3; ld.shared::cluster.u32 %r5, [%r4];
        mad.wide.u32 %d1, %r0, 4, %d0; st.global.u32 [%d1], %r5;
        barrier.cluster.arrive; barrier.cluster.wait; ret;
        """,
        out,
        grid=2,
        block=64,
        cluster=2,
        schedule=schedule,
    )
    assert not report.findings, report.findings
    assert out.tolist() == [200, 200]


def test_convergence_is_demanded() -> None:
    report = launch(
        """
        mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 16; @%p1 bra A;
        bar.warp.sync 0xffffffff; ret;
    A:  ret;
        """,
        np.zeros(1, np.uint32),
    )
    assert not report.findings
    report = launch(
        """
        mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 16; @%p1 bra A;
        bar.warp.sync 0xffffffff; ret;
    A:  barrier.cta.sync 3, 64; ret;
        """,
        np.zeros(1, np.uint32),
    )
    assert report.hang is not None
    assert any("lanes 0x0000ffff of the warp" in a for a in report.hang.agents)

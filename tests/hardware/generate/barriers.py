"""Programs of mbarrier: counts, transactions, phases, parities and states, of one thread, then of warps in a ring."""

from __future__ import annotations

from generate.writing import Json, Program, buffer, joined, out, wait_parity

_INIT = "mbarrier.init.shared::cta.b64 [%r10], {};\nfence.mbarrier_init.release.cluster;"


class Script:
    """Instructions of one thread, each result stored as the next word of `out`."""

    def __init__(self, doc: str) -> None:
        self.doc = doc
        self.parts: list[str] = []
        self.words: list[str] = []

    def do(self, *instructions: str) -> None:
        self.parts += instructions

    def record(self, label: str, register: str) -> None:
        self.parts.append(f"st.global.b32 [%d1+{4 * len(self.words)}], {register};")
        self.words.append(label)

    def test(self, label: str, instruction: str) -> None:
        """A wait or test that sets %p1."""
        self.do(instruction, "selp.b32 %r20, 1, 0, %p1;")
        self.record(label, "%r20")

    def parity(self, label: str) -> None:
        """Which parities have completed."""
        for p in (0, 1):
            self.test(
                f"{label}: parity {p}",
                f"mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r10], {p};",
            )

    def pending(self, label: str, state: str) -> None:
        self.do(f"mbarrier.pending_count.b64 %r20, {state};")
        self.record(f"{label}: pending", "%r20")


def _counts() -> Script:
    s = Script("Arrivals with and without counts; states of earlier phases.")
    s.do(_INIT.format(3))
    s.parity("fresh")
    s.test("fresh: try parity 1", "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 1;")
    for i in range(3):
        s.do(f"mbarrier.arrive.shared::cta.b64 %d{20 + i}, [%r10];")
        s.pending(f"arrival {i}", f"%d{20 + i}")
        s.test(f"arrival {i}: state 0", "mbarrier.test_wait.shared::cta.b64 %p1, [%r10], %d20;")
        s.parity(f"arrival {i}")
    s.do("mbarrier.arrive.shared::cta.b64 %d23, [%r10], 2;")
    s.pending("second phase, 2 of 3", "%d23")
    s.test("state 0", "mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [%r10], %d20;")
    s.test("state 3", "mbarrier.test_wait.shared::cta.b64 %p1, [%r10], %d23;")
    s.do("mbarrier.arrive.release.cta.shared::cta.b64 _, [%r10], 1;")
    s.parity("second phase done")
    s.test("state 3 again", "mbarrier.try_wait.shared::cta.b64 %p1, [%r10], %d23;")
    s.do("mbarrier.arrive.noComplete.shared::cta.b64 %d24, [%r10], 2;")
    s.pending("noComplete 2 of 3", "%d24")
    s.do("mbarrier.arrive.shared::cta.b64 %d25, [%r10];")
    s.pending("completing", "%d25")
    s.parity("third phase done")
    for i in range(4):
        s.do("mbarrier.arrive.shared::cta.b64 _, [%r10], 3;")
        s.parity(f"phase {4 + i}")
    s.do("mbarrier.inval.shared::cta.b64 [%r10];", _INIT.format(1))
    s.parity("made anew")
    return s


def _drops() -> Script:
    s = Script("arrive_drop lowers the count of every later phase.")
    s.do(_INIT.format(5), "mbarrier.arrive_drop.shared::cta.b64 %d20, [%r10];")
    s.pending("dropped one", "%d20")
    s.do("mbarrier.arrive.shared::cta.b64 %d21, [%r10], 3;")
    s.pending("three", "%d21")
    s.parity("four of five")
    s.do("mbarrier.arrive_drop.shared::cta.b64 %d22, [%r10], 1;")
    s.pending("last, dropped", "%d22")
    s.parity("all five")
    s.do("mbarrier.arrive.shared::cta.b64 %d23, [%r10];")
    s.pending("next phase starts with", "%d23")
    s.do("mbarrier.arrive_drop.noComplete.shared::cta.b64 %d24, [%r10], 1;")
    s.pending("dropped without completing", "%d24")
    s.do("mbarrier.arrive.shared::cta.b64 _, [%r10];")
    s.parity("second phase")
    s.do("mbarrier.arrive.shared::cta.b64 %d25, [%r10];")
    s.pending("third phase starts with", "%d25")
    s.do("mbarrier.arrive_drop.expect_tx.shared::cta.b64 %d26, [%r10], 32;")
    s.pending("dropped with bytes", "%d26")
    s.parity("bytes outstanding")
    s.do("mbarrier.complete_tx.shared::cta.b64 [%r10], 32;")
    s.parity("bytes there")
    s.do("mbarrier.arrive.shared::cta.b64 %d27, [%r10];")
    s.pending("fourth phase starts with", "%d27")
    s.parity("fourth phase")
    return s


def _bytes() -> Script:
    s = Script("Transaction counts: late, early, negative, large.")
    s.do(_INIT.format(1), "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], 64;")
    s.parity("expects 64")
    s.do("mbarrier.arrive.shared::cta.b64 %d20, [%r10];")
    s.pending("arrived", "%d20")
    s.parity("arrived")
    s.do("mbarrier.complete_tx.shared::cta.b64 [%r10], 32;")
    s.parity("32 of 64")
    s.do("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 32;")
    s.parity("64 of 64")
    s.test("state", "mbarrier.test_wait.shared::cta.b64 %p1, [%r10], %d20;")
    s.do("mbarrier.complete_tx.shared::cta.b64 [%r10], 48;")
    s.parity("48 early")
    s.do("mbarrier.complete_tx.shared::cta.b64 [%r10], 16;")
    s.parity("64 early")
    s.do("mbarrier.arrive.expect_tx.shared::cta.b64 %d21, [%r10], 64;")
    s.pending("expected in arrears", "%d21")
    s.parity("expected in arrears")
    s.do(
        "mbarrier.expect_tx.shared::cta.b64 [%r10], 1048575;",
        "mbarrier.arrive.shared::cta.b64 _, [%r10];",
    )
    s.parity("expects 1048575")
    s.do("mbarrier.complete_tx.shared::cta.b64 [%r10], 1048574;")
    s.parity("one byte missing")
    s.do("mbarrier.complete_tx.shared::cta.b64 [%r10], 1;")
    s.parity("none missing")
    s.do("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %d22, [%r10], 0;")
    s.pending("expects nothing", "%d22")
    s.parity("expects nothing")
    s.do("mbarrier.inval.shared::cta.b64 [%r10];", _INIT.format(2))
    s.do("mbarrier.arrive.expect_tx.shared::cta.b64 %d23, [%r10], 16;")
    s.pending("one of two with 16 bytes", "%d23")
    s.do("mbarrier.complete_tx.shared::cta.b64 [%r10], 16;")
    s.parity("bytes done, one arrival missing")
    s.do("mbarrier.arrive.shared::cta.b64 _, [%r10];")
    s.parity("both")
    s.test("hint", "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0, 1000;")
    return s


def _most() -> Script:
    s = Script("The largest count.")
    s.do(_INIT.format(1048575), "mbarrier.arrive.noComplete.shared::cta.b64 %d20, [%r10], 1048574;")
    s.pending("before", "%d20")
    s.parity("one missing")
    s.do("mbarrier.arrive.shared::cta.b64 %d21, [%r10];")
    s.pending("last", "%d21")
    s.parity("done")
    s.do("mbarrier.arrive.shared::cta.b64 %d22, [%r10];")
    s.pending("again", "%d22")
    return s


def _scripts() -> Program:
    p = Program(
        "mbarrier_states", "One thread goes through the states of a barrier and tells what it sees."
    )
    p.text(".shared .align 8 .b64 bar;")
    for name, script in (
        ("counts", _counts()),
        ("drops", _drops()),
        ("bytes", _bytes()),
        ("most", _most()),
    ):
        body = joined("mov.u32 %r10, bar;\nld.param.u64 %d1, [out];", *script.parts)
        p.entry(name, {"out": "u64"}, body, threads=1)
        count = len(script.words)
        p.launch(
            name, name, ["out"], {"out": out("b32", count, 0xFFFF)}, block=1, rows=script.words
        )
    return p


def _ring() -> Program:
    p = Program(
        "mbarrier_ring",
        "A producer warp and three consumer warps share a ring of two stages through barriers.",
    )
    p.text(
        ".shared .align 8 .b64 full[2];\n.shared .align 8 .b64 empty[2];\n.shared .align 16 .b32 stage[64];"
    )
    body = joined(
        """
        mov.u32 %r1, %tid.x;
        shr.u32 %r2, %r1, 5;
        and.b32 %r3, %r1, 31;
        ld.param.u64 %d0, [source];
        ld.param.u64 %d1, [out];
        mov.u32 %r10, full;
        mov.u32 %r11, empty;
        mov.u32 %r12, stage;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r10], 32;
        mbarrier.init.shared::cta.b64 [%r10+8], 32;
        mbarrier.init.shared::cta.b64 [%r11], 96;
        mbarrier.init.shared::cta.b64 [%r11+8], 96;
        READY:
        bar.sync 0;
        mov.u32 %r20, 0;
        mov.u32 %r21, 0;
        setp.ne.u32 %p2, %r2, 0;
        @%p2 bra CONSUME;
        PRODUCE:
        and.b32 %r22, %r20, 1;
        shr.u32 %r23, %r20, 1;
        and.b32 %r23, %r23, 1;
        xor.b32 %r24, %r23, 1;
        mad.lo.u32 %r25, %r22, 8, %r11;
        """,
        wait_parity("%r25", "%r24", "FREE"),
        """
        mad.lo.u32 %r26, %r20, 32, %r3;
        mul.wide.u32 %d9, %r26, 4;
        add.u64 %d9, %d0, %d9;
        ld.global.b32 %r27, [%d9];
        mad.lo.u32 %r28, %r22, 32, %r3;
        mad.lo.u32 %r28, %r28, 4, %r12;
        st.shared.b32 [%r28], %r27;
        mad.lo.u32 %r25, %r22, 8, %r10;
        mbarrier.arrive.release.cta.shared::cta.b64 _, [%r25];
        add.u32 %r20, %r20, 1;
        setp.lt.u32 %p3, %r20, 9;
        @%p3 bra PRODUCE;
        bra DONE;
        CONSUME:
        and.b32 %r22, %r20, 1;
        shr.u32 %r23, %r20, 1;
        and.b32 %r23, %r23, 1;
        mad.lo.u32 %r25, %r22, 8, %r10;
        """,
        wait_parity("%r25", "%r23", "FULL"),
        """
        // each consumer reads another lane's word
        add.u32 %r26, %r3, %r2;
        and.b32 %r26, %r26, 31;
        mad.lo.u32 %r28, %r22, 32, %r26;
        mad.lo.u32 %r28, %r28, 4, %r12;
        ld.shared.b32 %r27, [%r28];
        mad.lo.u32 %r21, %r21, 3, %r27;
        mad.lo.u32 %r25, %r22, 8, %r11;
        mbarrier.arrive.release.cta.shared::cta.b64 _, [%r25];
        add.u32 %r20, %r20, 1;
        setp.lt.u32 %p3, %r20, 9;
        @%p3 bra CONSUME;
        DONE:
        mul.wide.u32 %d9, %r1, 4;
        add.u64 %d9, %d1, %d9;
        st.global.b32 [%d9], %r21;
        """,
    )
    p.entry("ring", {"source": "u64", "out": "u64"}, body)
    source: Json = buffer("b32", 9 * 32, "bits", seed=830)
    p.launch("ring", "ring", ["source", "out"], {"source": source, "out": out("b32", 128)})
    return p


def _copies() -> Program:
    """cp.async and its arrival on a barrier."""
    p = Program(
        "mbarrier_cp_async", "cp.async that arrives on a barrier, counted by init or by itself."
    )
    p.text(".shared .align 8 .b64 bar;\n.shared .align 16 .b8 tile[2048];")
    for name, tail, count in (("noinc", ".noinc", 128), ("inc", "", 128)):
        extra = "" if name == "noinc" else "mbarrier.arrive.shared::cta.b64 _, [%r10];"
        body = joined(
            f"""
            mov.u32 %r1, %tid.x;
            mov.u32 %r10, bar;
            mov.u32 %r4, tile;
            ld.param.u64 %d0, [source];
            ld.param.u64 %d1, [out];
            setp.eq.u32 %p1, %r1, 0;
            @%p1 mbarrier.init.shared::cta.b64 [%r10], {count};
            bar.sync 0;
            mad.lo.u32 %r5, %r1, 16, %r4;
            mul.wide.u32 %d9, %r1, 16;
            add.u64 %d10, %d0, %d9;
            cp.async.cg.shared.global [%r5], [%d10], 16;
            cp.async.mbarrier.arrive{tail}.shared::cta.b64 [%r10];
            {extra}
            """,
            wait_parity("%r10", "0", "WAIT"),
            """
            xor.b32 %r6, %r1, 77;
            mad.lo.u32 %r5, %r6, 16, %r4;
            ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r5];
            add.u64 %d10, %d1, %d9;
            st.global.v4.b32 [%d10], {%r20, %r21, %r22, %r23};
            """,
        )
        p.entry(name, {"source": "u64", "out": "u64"}, body)
        p.launch(
            name,
            name,
            ["source", "out"],
            {"source": buffer("b32", 512, "bits", seed=840), "out": out("b32", 512)},
        )
    return p


def programs() -> list[Program]:
    return [_scripts(), _ring(), _copies()]

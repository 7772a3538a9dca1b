"""Tensor memory: every shape of ld and st, copies, operands in tensor memory, masks, and two CTAs."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.kernels import launch

from tkc.emulator import Report
from tkc.ir.isa.fragments import TENSOR_MOVES, split_move

COLUMNS = 128


def run(body: str, *arrays: np.ndarray, block: int = 128, **options: object) -> Report:
    """Warp 0 owns tensor memory; `tm` is its address, `row` the lane of the thread's quadrant as an address."""
    whole = f"""
        .shared .align 8 .b32 slot[2]; .reg .b32 s, tm, row, wid; mov.u32 s, slot;
        mov.u32 %r0, %tid.x; shr.u32 wid, %r0, 5;
        setp.ne.u32 %p0, wid, 0; @%p0 bra MADE;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], {COLUMNS};
    MADE:
        barrier.cta.sync 0; ld.shared.b32 tm, [s];
        shl.b32 row, wid, 21; add.u32 row, row, tm;
        {body}
        barrier.cta.sync 0;
        @%p0 ret;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, {COLUMNS};
        ret;
    """
    report = launch(whole, *arrays, block=block, shared=65536, **options)
    assert not report.findings, "\n".join(map(str, report.findings))
    return report


def registers(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"{prefix}{k}" for k in range(count)) + "}"


def fill_all(values: str = "%r1") -> str:
    """Every cell becomes 1000 * lane + column."""
    lines = [".reg .b32 v<128>; mul.lo.u32 %r1, %r0, 1000;"]
    lines += [f"add.u32 v{k}, %r1, {k};" for k in range(COLUMNS)]
    lines.append(f"tcgen05.st.sync.aligned.32x32b.x128.b32 [row], {registers('v', 128)};")
    lines.append("tcgen05.wait::st.sync.aligned; barrier.cta.sync 0;")
    return "\n".join(lines)


def dump(count: int, prefix: str = "w") -> str:
    """Stores registers of each thread: out[thread][register]."""
    lines = [f"mad.wide.u32 %d5, %r0, {4 * count}, %d0;"]
    lines += [f"st.global.u32 [%d5+{4 * k}], {prefix}{k};" for k in range(count)]
    return "\n".join(lines)


CASES = [(shape, num) for shape in TENSOR_MOVES for num in (1, 2, 4)]


@pytest.mark.parametrize(("shape", "num"), CASES)
def test_loads_and_stores_place_registers_as_the_table_says(shape: str, num: int) -> None:
    move = TENSOR_MOVES[shape]
    count = move.registers * num
    upper = 16 if move.lanes == 16 else 0
    out = np.zeros((128, count), np.uint32)
    body = f"""{fill_all()}
        .reg .b32 w<{count}>; add.u32 %r2, row, {upper << 16 | 3};
        tcgen05.ld.sync.aligned.{shape}.x{num}.b32 {registers("w", count)}, [%r2];
        tcgen05.wait::ld.sync.aligned;
        {dump(count)}"""
    run(body, out)
    t, r = np.arange(128)[:, None], np.arange(count)[None, :]
    lane, column = np.vectorize(move.place)(t % 32, r)
    assert (out == 1000 * (32 * (t // 32) + upper + lane) + column + 3).all()
    # The other way round: what st puts, a plain load finds.
    back = np.zeros((128, COLUMNS), np.uint32)
    body = f"""{fill_all()}
        .reg .b32 w<{count}>; add.u32 %r2, row, {upper << 16};
        {"".join(f"mad.lo.u32 w{k}, %r0, 64, {k + 500000};" for k in range(count))}
        tcgen05.st.sync.aligned.{shape}.x{num}.b32 [%r2], {registers("w", count)};
        tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x128.b32 {registers("v", 128)}, [row];
        tcgen05.wait::ld.sync.aligned;
        {dump(COLUMNS, "v")}"""
    run(body, back)
    wanted = 1000 * np.arange(128)[:, None] + np.arange(COLUMNS)[None, :]
    wanted[32 * (t // 32) + upper + lane, column] = 64 * t + r + 500000
    assert (back == wanted).all()


def test_split_and_packed_loads() -> None:
    out = np.zeros((128, 4), np.uint32)
    body = f"""{fill_all()} .reg .b32 w<4>;
        tcgen05.ld.sync.aligned.16x32bx2.x4.b32 {registers("w", 4)}, [row], 8;
        tcgen05.wait::ld.sync.aligned;
        {dump(4)}"""
    run(body, out)
    t, r = np.arange(128)[:, None], np.arange(4)[None, :]
    lane, column = split_move(t % 32, r, 8)
    assert (out == 1000 * (32 * (t // 32) + lane) + column).all()
    body = f"""{fill_all()} .reg .b32 w<4>;
        tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {registers("w", 4)}, [row];
        tcgen05.wait::ld.sync.aligned;
        {dump(4)}"""
    run(body, out)
    low = (1000 * t + 2 * r) & 0xFFFF
    assert (out == (low | ((1000 * t + 2 * r + 1) & 0xFFFF) << 16)).all()


K_MAJOR = 0x0000400800080000
"""No swizzle: 8 rows of 16 bytes are 128 bytes apart from the next 8 (stride), chunks of K likewise (leading)."""


def _tile(a: np.ndarray) -> np.ndarray:
    """Rows of 16-byte chunks in the unswizzled K-major order: [K chunk][row][16 bytes]."""
    rows, width = a.shape[0], a.view(np.uint8).shape[1]
    return np.ascontiguousarray(a.view(np.uint8).reshape(rows, width // 16, 16).transpose(1, 0, 2))


def _descriptor(rows: int) -> int:
    """LBO = one chunk column, SBO = 8 rows."""
    return 1 << 46 | (128 >> 4) << 32 | (16 * rows >> 4) << 16


def _to_shared(source: str, size: int, at: str) -> str:
    """All threads copy `size` bytes from global memory to shared memory, 16 bytes each."""
    return f"""
        {{ .reg .b32 i; .reg .b64 g; .reg .pred q; mov.u32 i, %r0;
        L: setp.ge.u32 q, i, {size // 16}; @q bra E;
        mad.wide.u32 g, i, 16, {source}; ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [g];
        mad.lo.u32 %r24, i, 16, {at}; st.shared.v4.b32 [%r24], {{%r20, %r21, %r22, %r23}};
        add.u32 i, i, 128; bra L; E: }}
        fence.proxy.async.shared::cta; barrier.cta.sync 0;"""


MMA_ARRAYS = """
    .shared .align 1024 .b8 ta[4096]; .shared .align 1024 .b8 tb[2048]; .shared .align 8 .b64 bar;
    .reg .b32 sa, sb, b; .reg .b64 da, db; mov.u32 sa, ta; mov.u32 sb, tb; mov.u32 b, bar;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra INIT; mbarrier.init.shared::cta.b64 [b], 1; INIT:
"""


def _wait() -> str:
    return """
        W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [b], 0; @!%p2 bra W;
        tcgen05.fence::after_thread_sync;"""


def _describe(register: str, address: str, word: int) -> str:
    return (
        f"shr.u32 %r25, {address}, 4; and.b32 %r25, %r25, 0x3fff; cvt.u64.u32 {register}, %r25;"
        f" or.b64 {register}, {register}, {word};"
    )


@pytest.mark.parametrize("from_tensor", [False, True])
@pytest.mark.parametrize("m", [64, 128])
def test_multiply_f16(m: int, from_tensor: bool, seed: int) -> None:
    """One 16-deep product, with A in shared or in tensor memory; accumulated twice, the second time scaled down."""
    rng = np.random.default_rng(seed)
    n = 64
    a = rng.integers(-8, 8, (m, 16)).astype(np.float16)
    b = rng.integers(-8, 8, (n, 16)).astype(np.float16)
    out = np.zeros((128, n), np.float32)
    word = (1 << 4) | (n >> 3) << 17 | (m >> 4) << 24
    if from_tensor and m == 64:
        pytest.skip("A of 64 rows in tensor memory has its own layout")
    load_a = ""
    operand = "da"
    if from_tensor:
        operand = "[%r30]"
        load_a = (
            "add.u32 %r30, tm, 96; add.u32 %r31, row, 96; mad.wide.u32 %d5, %r0, 32, %d1;"
            + "".join(f"ld.global.u32 %r{32 + k}, [%d5+{4 * k}];" for k in range(8))
            + "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r31], {"
            + ", ".join(f"%r{32 + k}" for k in range(8))
            + "}; tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; barrier.cta.sync 0;"
        )
    body = f"""{MMA_ARRAYS}
        {_to_shared("%d1", 32 * m, "sa") if not from_tensor else load_a}
        {_to_shared("%d2", 32 * n, "sb")}
        {_describe("da", "sa", _descriptor(m))} {_describe("db", "sb", _descriptor(n))}
        setp.ne.u32 %p3, wid, 1; @%p3 bra ISSUED;
        elect.sync _|%p4, -1; @!%p4 bra ISSUED;
        tcgen05.mma.cta_group::1.kind::f16 [tm], {operand}, db, {word}, 0;
        tcgen05.mma.cta_group::1.kind::f16 [tm], {operand}, db, {word}, 1, 1;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [b];
        ISSUED: bar.warp.sync -1;
        {_wait()}
        .reg .b32 v<64>;
        tcgen05.ld.sync.aligned.32x32b.x64.b32 {registers("v", 64)}, [row];
        tcgen05.wait::ld.sync.aligned;
        {"setp.ge.u32 %p5, %laneid, 16; @%p5 bra NOT;" if m == 64 else ""}
        {dump(n, "v")}
        {"NOT:" if m == 64 else ""}"""
    body = body.replace("%laneid", "%r40").replace(
        "setp.ge.u32 %p5", "mov.u32 %r40, %laneid; setp.ge.u32 %p5"
    )
    stored = a if from_tensor else _tile(a)
    for schedule in ("eager", "lazy", "random"):
        out[...] = np.nan
        run(body, out, stored, _tile(b), schedule=schedule)
        exact = 1.5 * a.astype(np.float64) @ b.astype(np.float64).T
        rows = np.arange(m)
        lanes = rows if m == 128 else rows % 16 + 32 * (rows // 16)
        assert (out[lanes] == exact).all()


def test_disabled_lanes_keep_their_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(-8, 8, (128, 16)).astype(np.float16)
    b = rng.integers(-8, 8, (64, 16)).astype(np.float16)
    out = np.zeros((128, 64), np.float32)
    word = (1 << 4) | (64 >> 3) << 17 | (128 >> 4) << 24
    body = f"""{fill_all()} {MMA_ARRAYS}
        {_to_shared("%d1", 4096, "sa")} {_to_shared("%d2", 2048, "sb")}
        {_describe("da", "sa", _descriptor(128))} {_describe("db", "sb", _descriptor(64))}
        setp.ne.u32 %p3, wid, 1; @%p3 bra ISSUED;
        elect.sync _|%p4, -1; @!%p4 bra ISSUED;
        mov.u32 %r26, 0xF0F0F0F0; mov.u32 %r27, 0;
        tcgen05.mma.cta_group::1.kind::f16 [tm], da, db, {word}, {{%r26, %r27, %r27, %r27}}, 0;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [b];
        ISSUED: bar.warp.sync -1;
        {_wait()}
        tcgen05.ld.sync.aligned.32x32b.x64.b32 {registers("v", 64)}, [row];
        tcgen05.wait::ld.sync.aligned;
        {dump(64, "v")}"""
    run(body, out, _tile(a), _tile(b))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    lane = np.arange(128)
    off = (lane < 32) & (lane % 8 >= 4)
    assert (out[~off] == exact[~off]).all()
    kept = 1000 * lane[:, None] + np.arange(64)[None, :]
    assert (out.view(np.uint32)[off] == kept[off]).all()


COPIES = {
    "128x256b": lambda s: s[:128, :32],
    "128x128b": lambda s: s[:128, :16],
    "64x128b.warpx2::02_13": lambda s: np.concatenate([s[:64, :16]] * 2),
    "64x128b.warpx2::01_23": lambda s: np.concatenate([s[:32, :16]] * 2 + [s[32:64, :16]] * 2),
    "32x128b.warpx4": lambda s: np.concatenate([s[:32, :16]] * 4),
}


@pytest.mark.parametrize("shape", COPIES)
def test_copies_into_tensor_memory(shape: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 256, (128, 32), dtype=np.uint8)
    wanted = np.ascontiguousarray(COPIES[shape](source)).view(np.uint32)
    columns = wanted.shape[1]
    out = np.zeros((128, columns), np.uint32)
    body = f"""{MMA_ARRAYS}
        {_to_shared("%d1", 4096, "sa")}
        {_describe("da", "sa", _descriptor(128))}
        setp.ne.u32 %p3, wid, 1; @%p3 bra ISSUED;
        elect.sync _|%p4, -1; @!%p4 bra ISSUED;
        tcgen05.cp.cta_group::1.{shape} [tm], da;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [b];
        ISSUED: bar.warp.sync -1;
        {_wait()} .reg .b32 v<8>;
        tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {registers("v", columns)}, [row];
        tcgen05.wait::ld.sync.aligned;
        {dump(columns, "v")}"""
    run(body, out, _tile(source))
    assert (out == wanted).all()


def test_allocation_waits_for_room() -> None:
    """Two warps allocate half of the columns each, three times over, and get different ones at a time."""
    out = np.zeros((2, 3), np.uint32)
    body = """
        .shared .align 8 .b32 slot[2]; .reg .b32 s, tm, wid; mov.u32 s, slot;
        mov.u32 %r0, %tid.x; shr.u32 wid, %r0, 5; mad.lo.u32 s, wid, 4, s;
        mad.wide.u32 %d1, wid, 12, %d0; mov.u32 %r3, 0;
    L:  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 256;
        ld.shared.b32 tm, [s]; st.global.u32 [%d1], tm; add.u64 %d1, %d1, 4;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 256;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3; @%p1 bra L;
        ret;
    """
    for schedule in ("eager", "random"):
        report = launch(body, out, block=64, schedule=schedule)
        assert not report.findings
        assert set(out.reshape(-1).tolist()) <= {0, 256}
    held = body.replace("tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 256;", "")
    report = launch(held, out, block=64)
    assert report.hang is not None
    assert any("256 free columns" in a for a in report.hang.agents)

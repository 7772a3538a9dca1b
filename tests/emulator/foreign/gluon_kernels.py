"""Gluon kernels of our own, which name the engines of sm_90 and sm_100 themselves; needs Triton, no test imports it."""

# Gluon joins lists of constants by +, and knows no star.
# ruff: noqa: RUF005

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell, hopper
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import clc
from triton.experimental.gluon.language.nvidia.blackwell import tma as tma100
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma


@gluon.jit
def copy_rows(x, out, rows, columns, BM: gl.constexpr, BN: gl.constexpr):
    """Through shared memory by cp.async, read in another layout."""
    by_row: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    by_column: gl.constexpr = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=4, per_phase=2, max_phase=4, order=[1, 0])
    r = gl.program_id(0) * BM + gl.arange(0, BM, gl.SliceLayout(1, by_row))
    c = gl.arange(0, BN, gl.SliceLayout(0, by_row))
    mask = (r < rows)[:, None] & (c < columns)[None, :]
    smem = gl.allocate_shared_memory(gl.float32, [BM, BN], shared)
    async_copy.async_load(smem, x + r[:, None] * columns + c[None, :], mask=mask)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.barrier()
    v = smem.load(by_column)
    r = gl.program_id(0) * BM + gl.arange(0, BM, gl.SliceLayout(1, by_column))
    c = gl.arange(0, BN, gl.SliceLayout(0, by_column))
    mask = (r < rows)[:, None] & (c < columns)[None, :]
    gl.store(
        out + c[None, :] * rows + r[:, None],
        v + gl.sum(gl.where(mask, v, 0.0), 1)[:, None],
        mask=mask,
    )


@gluon.jit
def wgmma_matmul(a, b, c, K, STAGES: gl.constexpr):
    """A ring of tensor copies before warpgroup multiplies of sm_90."""
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    BK: gl.constexpr = a.block_type.shape[1]
    sa = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_type.shape, a.layout)
    sb = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    bars = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    off_m = gl.program_id(0) * BM
    off_n = gl.program_id(1) * BN
    steps = gl.cdiv(K, BK)
    for i in gl.static_range(STAGES - 1):
        if i < steps:
            mbarrier.expect(bars.index(i), a.nbytes_per_cta + b.nbytes_per_cta)
            tma.async_load(a, [off_m, i * BK], bars.index(i), sa.index(i))
            tma.async_load(b, [off_n, i * BK], bars.index(i), sb.index(i))
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    acc = hopper.warpgroup_mma_init(gl.zeros((BM, BN), gl.float32, layout))
    for k in range(steps):
        stage = k % STAGES
        mbarrier.wait(bars.index(stage), (k // STAGES) & 1)
        acc = hopper.warpgroup_mma_wait(0, deps=(acc,))
        nxt = k + STAGES - 1
        if nxt < steps:
            to = nxt % STAGES
            mbarrier.expect(bars.index(to), a.nbytes_per_cta + b.nbytes_per_cta)
            tma.async_load(a, [off_m, nxt * BK], bars.index(to), sa.index(to))
            tma.async_load(b, [off_n, nxt * BK], bars.index(to), sb.index(to))
        acc = hopper.warpgroup_mma(
            sa.index(stage), sb.index(stage).permute((1, 0)), acc, is_async=True
        )
    acc = hopper.warpgroup_mma_wait(0, deps=(acc,))
    sc = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    sc.store(acc.to(c.dtype))
    hopper.fence_async_shared()
    tma.async_store(c, [off_m, off_n], sc)
    tma.store_wait(0)


@gluon.jit
def tensor_core_matmul(a, b, c, K, VARIANT: gl.constexpr):
    """One buffer, tcgen05, the accumulator read by one of the shapes of tcgen05.ld."""
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    BK: gl.constexpr = a.block_type.shape[1]
    sa = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    sb = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    bars = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    loaded = bars.index(0)
    done = bars.index(1)
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    layout: gl.constexpr = blackwell.TensorMemoryLayout([BM, BN], col_stride=1)
    acc = blackwell.allocate_tensor_memory(gl.float32, [BM, BN], layout)
    off_m = gl.program_id(0) * BM
    off_n = gl.program_id(1) * BN
    phase = 0
    use = False
    for k in range(0, K, BK):
        mbarrier.expect(loaded, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [off_m, k], loaded, sa)
        tma.async_load(b, [off_n, k], loaded, sb)
        mbarrier.wait(loaded, phase)
        blackwell.tcgen05_mma(sa, sb.permute((1, 0)), acc, use_acc=use)
        blackwell.tcgen05_commit(done)
        mbarrier.wait(done, phase)
        use = True
        phase ^= 1
    registers: gl.constexpr = acc.get_reg_layout(instr_variant=VARIANT)
    sc = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    sc.store(acc.load(registers).to(c.dtype))
    hopper.fence_async_shared()
    tma.async_store(c, [off_m, off_n], sc)
    tma.store_wait(0)


@gluon.jit
def _loader(a, b, sa, sb, loaded, free, K, STAGES: gl.constexpr):
    BM: gl.constexpr = a.block_type.shape[0]
    BN: gl.constexpr = b.block_type.shape[0]
    BK: gl.constexpr = a.block_type.shape[1]
    for k in range(gl.cdiv(K, BK)):
        stage = k % STAGES
        mbarrier.wait(free.index(stage), ((k // STAGES) & 1) ^ 1)
        mbarrier.expect(loaded.index(stage), a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [gl.program_id(0) * BM, k * BK], loaded.index(stage), sa.index(stage))
        tma.async_load(b, [gl.program_id(1) * BN, k * BK], loaded.index(stage), sb.index(stage))


@gluon.jit
def _multiplier(a, sa, sb, loaded, free, ready, acc, K, STAGES: gl.constexpr):
    BK: gl.constexpr = a.block_type.shape[1]
    use = False
    for k in range(gl.cdiv(K, BK)):
        stage = k % STAGES
        mbarrier.wait(loaded.index(stage), (k // STAGES) & 1)
        blackwell.tcgen05_mma(
            sa.index(stage),
            sb.index(stage).permute((1, 0)),
            acc,
            use_acc=use,
            mbarriers=[free.index(stage)],
        )
        use = True
    blackwell.tcgen05_commit(ready)


@gluon.jit
def _finisher(c, acc, ready):
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    mbarrier.wait(ready, 0)
    sc = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    sc.store(acc.load(acc.get_reg_layout()).to(c.dtype))
    hopper.fence_async_shared()
    tma.async_store(c, [gl.program_id(0) * BM, gl.program_id(1) * BN], sc)
    tma.store_wait(0)


@gluon.jit
def roles_matmul(a, b, c, K, STAGES: gl.constexpr):
    """Warps of their own load and multiply."""
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    sa = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_type.shape, a.layout)
    sb = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    loaded = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(loaded.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    mbarrier.init(ready, count=1)
    layout: gl.constexpr = blackwell.TensorMemoryLayout([BM, BN], col_stride=1)
    acc = blackwell.allocate_tensor_memory(gl.float32, [BM, BN], layout)
    gl.warp_specialize(
        [
            (_finisher, (c, acc, ready)),
            (_loader, (a, b, sa, sb, loaded, free, K, STAGES)),
            (_multiplier, (a, sa, sb, loaded, free, ready, acc, K, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def gather_and_add(table, index, out, COLUMN: gl.constexpr):
    """Rows that an index names by gather4, added to others by a tensor reduction."""
    ROWS: gl.constexpr = 32
    COLUMNS: gl.constexpr = table.block_type.shape[1]
    smem = gl.allocate_shared_memory(table.dtype, [ROWS, COLUMNS], out.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    blocked: gl.constexpr = gl.BlockedLayout([1, 4], [32, 1], [1, gl.num_warps()], [1, 0])
    offsets = gl.load(index + gl.arange(0, ROWS, gl.SliceLayout(0, blocked)))
    mbarrier.expect(bar, ROWS * COLUMNS * 4)
    tma100.async_gather(table, offsets, COLUMN, bar, smem)
    mbarrier.wait(bar, 0)
    tma.async_atomic_add(out, [0, 0], smem)
    tma.store_wait(0)


@gluon.jit
def take_over(x, out, n, BLOCK: gl.constexpr):
    """Persistent programs that take the work of those that have not started."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    pid = gl.program_id(0)
    phase = 0
    more = True
    while more:
        mbarrier.expect(bar, 16)
        clc.try_cancel(answer, bar)
        i = pid * BLOCK + gl.arange(0, BLOCK, layout)
        gl.store(out + i, gl.load(x + i, mask=i < n) * 2 + pid, mask=i < n)
        mbarrier.wait(bar, phase)
        phase ^= 1
        result = clc.load_result(answer)
        more = result.is_canceled()
        pid = result.program_id(0)

"""What the CUDA kernels of this folder are given and must compute; `args` are in the order of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from emulator.foreign import cuda_asynchronous as asynchronous
from emulator.foreign import cuda_engines as engines
from emulator.foreign import cuda_numbers as numbers
from emulator.foreign import cuda_simple as simple
from emulator.foreign import cuda_tiles as tiles
from emulator.foreign.problem import BF16, F16, F32, I32, U8, Problem
from emulator.foreign.references import Rng


@dataclass(frozen=True)
class CudaCase:
    """A kernel of `cuda/<file>.cu`, by name, with its block, cluster and dynamic shared memory."""

    file: str
    kernel: str
    make: Callable[[Rng], Problem]
    block: tuple[int, ...] = (128,)
    cluster: int = 1
    shared: int = 0
    targets: tuple[str, ...] = ("90a", "100a")

    def facts(self) -> dict[str, Any]:
        """The launch facts, in the form of `launches.json`."""
        return {
            "entry": self.kernel, "block": self.block, "cluster": self.cluster,
            "shared_bytes": self.shared, "args": None,
        }  # fmt: skip


CUDA: tuple[CudaCase, ...] = (
    CudaCase("simple", "reduce_sum", simple.reduce_sum),
    CudaCase("simple", "reduce_integers", simple.reduce_integers, (256,)),
    CudaCase("simple", "block_scan", simple.block_scan, shared=16),
    CudaCase("simple", "transpose", simple.transpose, (32, 8)),
    CudaCase("simple", "matmul_tiled", simple.matmul_tiled, (16, 16)),
    CudaCase("simple", "bitonic_sort", simple.bitonic_sort),
    CudaCase("simple", "collatz", simple.collatz),
    CudaCase("simple", "calls", simple.calls),
    CudaCase("simple", "shared_histogram", simple.shared_histogram, (64,)),
    CudaCase("simple", "grid_barrier", simple.grid_barrier, (32,)),
    CudaCase("simple", "online_softmax", simple.online_softmax),
    CudaCase("numbers", "math_float", numbers.math_float),
    CudaCase("numbers", "math_large", numbers.math_large, (64,)),
    CudaCase("numbers", "math_double", numbers.math_double),
    CudaCase("numbers", "rounding", numbers.rounding),
    CudaCase("numbers", "math_half", numbers.math_half),
    CudaCase("numbers", "math_bf16", numbers.math_bf16),
    CudaCase("numbers", "narrow", numbers.narrow),
    CudaCase("numbers", "conversions", numbers.conversions),
    CudaCase("numbers", "bits", numbers.bits),
    CudaCase("numbers", "atomics", numbers.atomics, (64,)),
    CudaCase("tiles", "wmma_half", tiles.wmma(F16, F32, (16, 16, 16), True, False), (64,)),
    CudaCase("tiles", "wmma_half_acc", tiles.wmma(F16, F16, (32, 8, 16), False, True), (64,)),
    CudaCase("tiles", "wmma_bf16", tiles.wmma(BF16, F32, (8, 32, 16), True, True), (64,)),
    CudaCase("tiles", "wmma_tf32", tiles.wmma(F32, F32, (16, 16, 8), True, False), (64,)),
    CudaCase("tiles", "wmma_int8", tiles.wmma(np.int8, I32, (16, 16, 16), True, False), (64,)),
    CudaCase("tiles", "wmma_uint8", tiles.wmma(U8, I32, (32, 8, 16), False, False), (64,)),
    CudaCase("tiles", "mma_bf16", tiles.mma_bf16),
    CudaCase("tiles", "mma_narrow", tiles.mma_narrow, (32,)),
    CudaCase("tiles", "mma_double", tiles.mma_double, (32,)),
    CudaCase("tiles", "matrix_moves", tiles.matrix_moves, (32,)),
    CudaCase("asynchronous", "groups", asynchronous.groups, (64,)),
    CudaCase("asynchronous", "cluster_histogram", asynchronous.cluster_histogram, (64,), 4, 96),
    CudaCase("asynchronous", "stencil", asynchronous.stencil),
    CudaCase("asynchronous", "bulk_copy", asynchronous.bulk_copy),
    CudaCase("asynchronous", "roles", asynchronous.roles, (96,)),
    CudaCase("asynchronous", "remote", asynchronous.remote, (64,), 2),
    CudaCase("asynchronous", "dependent", asynchronous.dependent),
    CudaCase("hopper", "wgmma_bf16", engines.wgmma_bf16, (160,), 2, 51200, ("90a",)),
    CudaCase("hopper", "wgmma_registers", engines.wgmma_registers, targets=("90a",)),
    CudaCase("hopper", "copy_box", engines.copy_box, (64,), targets=("90a",)),
    CudaCase("blackwell", "mma_128", engines.multiply(128, False), targets=("100a",)),
    CudaCase("blackwell", "mma_64", engines.multiply(64, False), targets=("100a",)),
    CudaCase("blackwell", "ws_128", engines.multiply(128, True), targets=("100a",)),
    CudaCase("blackwell", "ws_64", engines.multiply(64, True), targets=("100a",)),
    CudaCase("blackwell", "ws_32", engines.multiply(32, True), targets=("100a",)),
    CudaCase("blackwell", "mma_places", engines.mma_places, targets=("100a",)),
    CudaCase("blackwell", "tensor_moves", engines.tensor_moves, targets=("100a",)),
    CudaCase("blackwell", "take_over", engines.take_over, (32,), targets=("100a",)),
)
"""What is committed."""


def cuda_targets(file: str) -> list[str]:
    """What a file of `cuda/` is compiled for."""
    return sorted({target for case in CUDA if case.file == file for target in case.targets})

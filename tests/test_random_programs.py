"""Random programs that are well formed: they compile, print, read back, format, assemble, and agree with NumPy."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator.test_random_epilogues import Made, wide

import tkc
from tkc import driver
from tkc.backend import assemble as assembler
from tkc.backend.tools import find, library
from tkc.diagnostics import TkcError
from tkc.dump import ir_text
from tkc.frontend.format import bare, format_source
from tkc.frontend.parse import parse
from tkc.frontend.source import Source
from tkc.ir.locations import LocatedParser
from tkc.job import Job

Array = np.ndarray[Any, Any]
DTYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "tf32": np.float32, "s8": np.int8, "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
OPERANDS = ("bf16", "f16", "bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8")
"""What products are of, the commonest more often."""
TOO_MUCH = {"TK110", "TK115", "TK202", "TK203", "TK204", "TK206", "TK207"}
"""What a random size or dtype may ask of a target: then the program is refused, which is an answer too."""

PRODUCT = """
def scaled(x, y):
    half = y * 0.5
    return x + half

kernel k(A: global[{of}, {a}], B: global[{of}, {b}], v: global[f32, N], C: global[{out}, M, N], alpha: f32):
    param BM = {bm}, BN = {bn}, BK = {bk}, STAGES = {stages}
    launch persistent{cluster}
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN), group = {group})
    shared a: tile[{of}, {ta}] * STAGES
    shared b: tile[{of}, {tb}] * STAGES
    shared w: vector[f32, BN]
    accum d: tile[{sum}, BM, BN] * {depth}
    pipe inputs(a, b): load -> math
    pipe extra(w): load -> store
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs:
                    a <- A[{ia}]
                    b <- B[{ib}]{multicast}
            put extra: w <- v[n]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, BK):
                    get inputs: d += {left} @ {right}
    role store:
        for m, n in work:
            get result, extra:
                x = scaled(alpha * {product}, {expression})
                if BN > 64:
                    C[m, n] <- {cast}(x)
                else:
                    C[m, n] <- {cast}(x)
"""

ELEMENTS = """
kernel k(X: global[{dtype}, M, N], Y: global[f32, M, N], v: global[f32, N], C: global[{out}, M, N], S: global[f32, M],
         alpha: f32):
    param BM = 128, BN = {bn}, STAGES = {stages}
    launch persistent
    schedule work: m in blocks(M, BM)
    shared x: tile[{dtype}, BM, BN] * STAGES
    shared y: tile[f32, BM, BN] * STAGES
    shared w: vector[f32, BN] * STAGES
    pipe inputs(x, y, w): load -> math
    role load:
        for m in work:
            for n in blocks(N, BN):
                put inputs:
                    x <- X[m, n]
                    y <- Y[m, n]
                    w <- v[n]
    role math, warps 4:
        for m in work:
            total = full(0)
            for n in blocks(N, BN):
                get inputs:
                    e = {expression}
                    total = total + row_sum(e)
                    C[m, n] <- {cast}(e)
            S[m] <- total
"""
"""Rows in one work item, a value a row carried round the loop over columns."""

EXPLICIT = """
kernel k(X: global[{dtype}, M, N], Y: global[f32, M, N], C: global[{out}, M, N], alpha: f32):
    param BM = 128, BN = {bn}, STAGES = {stages}, STAGING = {staging}
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[{dtype}, BM, BN] * STAGES
    shared y: tile[f32, BM, BN] * STAGES
    shared c: tile[{out}, BM, BN] * STAGING
    barrier full * STAGES, count = 1
    barrier empty * STAGES, count = {arrivals}
    role load:
        slot = 0
        phase = 0
        for m, n in work:
            elect:
                wait empty[slot], phase ^ 1
                expect full[slot], bytes(x, y)
                load x[slot] <- X[m, n], full[slot]
                load y[slot] <- Y[m, n], full[slot]
            slot = slot + 1
            if slot == STAGES:
                slot = 0
                phase = phase ^ 1
    role math, warps 4:
        slot = 0
        phase = 0
        next = 0
        for m, n in work:
            {wait}
            elect: wait stores <= STAGING - 1, read
            sync role
            {write}
            fence proxy shared
            {arrive}
            sync role
            elect:
                store C[m, n] <- c[next]
                commit stores
            next = next + 1 if next + 1 < STAGING else 0
            slot = slot + 1
            if slot == STAGES:
                slot = 0
                phase = phase ^ 1
        elect: wait stores
"""
"""The same with its synchronisation spelled out, by register tiles or by elements."""
WAITS = (
    "wait full[slot], phase",
    "wait full[slot], phase, cluster",
    "early = try_wait(full[slot], phase)\n            if not early: wait full[slot], phase",
)
ARRIVALS = {
    4: "sync warp; arrive empty[slot], each = warp",
    128: "arrive empty[slot], each = thread",
    1: "sync role; arrive empty[slot]",
    2: "sync role; arrive empty[slot], 2",
}
BY_ELEMENTS = """j = thread
            while j < BM * BN:
                r = j // BN
                q = j % BN
                c[next][r, q] <- {expression}
                j = j + 128"""


class Program:
    """A text, its arguments, and what it should make of them."""

    def __init__(self, rng: random.Random, numbers: np.random.Generator, target: str) -> None:
        self.rng, self.numbers = rng, numbers
        self.dtype, self.out = rng.choice(["bf16", "f16"]), rng.choice(["bf16", "f32"])
        self.m, self.n = rng.randrange(1, 280), 8 * rng.randrange(1, 24)
        self.alpha = rng.choice([0.5, -1.25, 2.0])
        self.v = self.uniform(self.n, dtype="f32")
        self.wanted: list[tuple[Array, Array]] = []
        self.target, self.coarse = target, 1.0
        rng.choice([self._product, self._product, self._elements, self._explicit])()

    def uniform(self, *shape: int, dtype: str) -> Array:
        """Numbers that the dtype has, as products see them: of tf32 without the bits that it lacks."""
        if dtype in ("s8", "u8"):
            return self.numbers.integers(0 if dtype == "u8" else -9, 10, shape).astype(
                DTYPES[dtype]
            )
        made = self.numbers.uniform(-1, 1, shape).astype(DTYPES[dtype])
        return (made.view(np.uint32) & 0xFFFFE000).view(np.float32) if dtype == "tf32" else made

    def result(self, exact: Array) -> Array:
        """A poisoned output for an exact result."""
        dtype = {"bf16": ml_dtypes.bfloat16, "f32": np.float32}[self.out]
        made = np.full(exact.shape, np.nan, dtype)
        self.wanted.append((made, exact))
        return made

    def _product(self) -> None:
        rng = self.rng
        of = rng.choice(OPERANDS)
        whole = 16 // np.dtype(DTYPES[of]).itemsize  # rows are 16 bytes apart, or a multiple
        k = whole * rng.randrange(0, 20)
        across_a, across_b = rng.random() < 0.3, rng.random() < 0.3
        if across_a:
            self.m = -(-self.m // whole) * whole
        if across_b:
            self.n = -(-self.n // whole) * whole
            self.v = self.uniform(self.n, dtype="f32")
        a, b = self.uniform(self.m, k, dtype=of), self.uniform(self.n, k, dtype=of)
        integers, clustered = of in ("s8", "u8"), rng.random() < 0.2
        if of in ("e4m3", "e5m2") and self.target == "sm_90a":
            self.coarse = 50.0  # its sums of 8-bit types keep 13 bits below the largest
        product = wide(a) @ wide(b).T
        leaves = [
            ("row(read(w))", wide(self.v)[None, :]),
            ("alpha", np.array(self.alpha)),
        ]
        if not integers:
            leaves.append(("read(d)", product))
        expression, value = Made(rng, leaves).one(2)
        exact = self.alpha * product + 0.5 * value
        c = self.result(np.broadcast_to(exact, (self.m, self.n)))
        self.text = PRODUCT.format(
            of=of, sum="i32" if integers else "f32", product="f32(read(d))" if integers else "read(d)",
            cluster=", cluster(2)" if clustered else "", multicast=", multicast" if clustered else "",
            out=self.out, bm=rng.choice([64, 128]), bn=rng.choice([32, 64, 96, 128]),
            bk=rng.choice([32, 64, 128]), stages=rng.choice([1, 2, 3]), group=rng.choice([1, 2, 8]),
            depth=rng.choice([1, 2]), a="K, M" if across_a else "M, K", b="K, N" if across_b else "N, K",
            ta="BK, BM" if across_a else "BM, BK", tb="BK, BN" if across_b else "BN, BK",
            ia="k, m" if across_a else "m, k", ib="k, n" if across_b else "n, k",
            left="a.T" if across_a else "a", right="b" if across_b else "b.T", expression=expression,
            cast="" if self.out == "f32" else self.out,
        )  # fmt: skip
        stored = [
            np.ascontiguousarray(x.T) if across else x
            for x, across in ((a, across_a), (b, across_b))
        ]
        self.arguments = (*stored, self.v, c, self.alpha)

    def _elements(self) -> None:
        rng = self.rng
        x, y = (
            self.uniform(self.m, self.n, dtype=self.dtype),
            self.uniform(self.m, self.n, dtype="f32"),
        )
        leaves = [
            ("f32(read(x))", wide(x)), ("read(y)", wide(y)), ("row(read(w))", wide(self.v)[None, :]),
            ("alpha", np.array(self.alpha)),
        ]  # fmt: skip
        expression, value = Made(rng, leaves).one(3)
        expression, value = f"f32(read(x)) + ({expression})", wide(x) + value
        c = self.result(np.broadcast_to(value, x.shape))
        sums = np.full(self.m, np.nan, np.float32)
        self.wanted.append((sums, value.sum(axis=1)))
        self.text = ELEMENTS.format(
            dtype=self.dtype, out=self.out, bn=rng.choice([16, 32, 64]), stages=rng.choice([1, 2, 3]),
            expression=expression, cast="" if self.out == "f32" else self.out,
        )  # fmt: skip
        self.arguments = (x, y, self.v, c, sums, self.alpha)

    def _explicit(self) -> None:
        rng = self.rng
        elements = rng.random() < 0.4
        if elements:
            self.m, self.n = (
                min(self.m, 150),
                min(self.n, 72),
            )  # a thread at a time takes the emulator long
        x, y = (
            self.uniform(self.m, self.n, dtype=self.dtype),
            self.uniform(self.m, self.n, dtype="f32"),
        )
        read = (
            ("read(x[slot][r, q])", "read(y[slot][r, q])")
            if elements
            else ("f32(read(x[slot]))", "read(y[slot])")
        )
        leaves = [(read[0], wide(x)), (read[1], wide(y)), ("alpha", np.array(self.alpha))]
        if elements:
            value = self.alpha * wide(x) + wide(y) * wide(x)
            write = BY_ELEMENTS.format(expression=f"alpha * {read[0]} + {read[1]} * {read[0]}")
        else:
            expression, value = Made(rng, leaves).one(3)
            expression, value = f"{read[0]} + ({expression})", wide(x) + value
            write = f"c[next] <- {'' if self.out == 'f32' else self.out}({expression})"
        c = self.result(np.broadcast_to(value, x.shape))
        arrivals = rng.choice(list(ARRIVALS))
        self.text = EXPLICIT.format(
            dtype=self.dtype, out=self.out, bn=rng.choice([16, 32, 64]), stages=rng.choice([1, 2, 3]),
            staging=rng.choice([1, 2]), arrivals=arrivals, arrive=ARRIVALS[arrivals], wait=rng.choice(WAITS), write=write,
        )  # fmt: skip
        self.arguments = (x, y, c, self.alpha)

    def check(self) -> None:
        """Within what f32 sums, bf16 operands and tanh.approx leave."""
        for found, exact in self.wanted:
            if not exact.size:
                continue
            scale = np.abs(exact).max() or 1.0
            unit = (8e-3 if found.dtype != np.float32 else 2e-5 * self.coarse) + 2e-3 * (
                "tanh" in self.text
            )
            spread = max(1.0, np.sqrt(self.n)) if found.ndim == 1 else 1.0
            error = np.abs(wide(found) - exact).max()
            assert error <= unit * spread * scale, f"{error} of {scale}"


def assembled(ptx: str, target: str) -> None:
    """By nvPTXCompiler in process where it is, else by ptxas."""
    archive = library("libnvptxcompiler_static.a")
    loaded = assembler._load_nvptxcompiler(archive) if archive is not None else None
    if loaded is not None:
        run = assembler._compile_in_process(loaded, ptx, target, True)
        assert run.cubin, run.log
    elif find("ptxas") is not None:
        assembler.assemble(ptx, target, allow={"spills"})


def attempt(seed: int, target: str) -> bool:
    """Whether the program of a seed compiles; then everything else holds of it."""
    program = Program(random.Random(seed), np.random.default_rng(seed), target)
    told = f"seed {seed}, {target}\n{program.text}"
    job = Job(program.text, "k.tk", target)
    refused: TkcError | None = None
    try:
        kernel = tkc.compile(program.text, target=target)
    except TkcError as error:
        refused = error
    if refused is not None:
        assert refused.diagnostics[0].code in TOO_MUCH, f"{refused}\n{told}"
        return False
    printed = ir_text(driver.front(job))
    again = LocatedParser(driver.context(), printed, "k.mlir").parse_module()
    assert ir_text(again) == printed, told
    whole = driver.run(job, module=again).ptx
    assert whole.replace('"k.tk"', '"<source>"') == kernel.ptx, told
    formatted = format_source(program.text, "k.tk")
    assert bare(parse(Source(formatted, "k.tk"))) == bare(parse(Source(program.text, "k.tk"))), told
    assembled(kernel.ptx, target)
    report = kernel.emulate(*program.arguments, sm_count=2)
    assert not report.findings, f"{report.findings[0]}\n{told}"
    try:
        program.check()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{told}") from None
    return True


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("turn", range(4))
def test_random_programs(target: str, turn: int) -> None:
    attempt(random.randrange(2**32), target)


@pytest.mark.soak
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a", "sm_107a"])
def test_many_random_programs(target: str) -> None:
    right = sum(attempt(random.randrange(2**32), target) for _ in range(150))
    assert right > 50

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
DTYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
TOO_MUCH = {"TK110", "TK203", "TK204", "TK206", "TK207"}
"""What a random size may ask of a target: then the program is refused, which is an answer too."""

PRODUCT = """
def scaled(x, y):
    half = y * 0.5
    return x + half

kernel k(A: global[{dtype}, {a}], B: global[{dtype}, {b}], v: global[f32, N], C: global[{out}, M, N], alpha: f32):
    param BM = {bm}, BN = {bn}, BK = {bk}, STAGES = {stages}
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN), group = {group})
    shared a: tile[{dtype}, {ta}] * STAGES
    shared b: tile[{dtype}, {tb}] * STAGES
    shared w: vector[f32, BN]
    accum d: tile[f32, BM, BN] * {depth}
    pipe inputs(a, b): load -> math
    pipe extra(w): load -> store
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs:
                    a <- A[{ia}]
                    b <- B[{ib}]
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
                x = scaled(alpha * read(d), {expression})
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


class Program:
    """A text, its arguments, and what it should make of them."""

    def __init__(self, rng: random.Random, numbers: np.random.Generator) -> None:
        self.rng, self.numbers = rng, numbers
        self.dtype, self.out = rng.choice(list(DTYPES)), rng.choice(["bf16", "f32"])
        self.m, self.n = rng.randrange(1, 280), 8 * rng.randrange(1, 24)
        self.alpha = rng.choice([0.5, -1.25, 2.0])
        self.v = self.uniform(self.n, dtype=np.float32)
        self.wanted: list[tuple[Array, Array]] = []
        (self._product if rng.random() < 0.6 else self._elements)()

    def uniform(self, *shape: int, dtype: Any = None) -> Array:
        return self.numbers.uniform(-1, 1, shape).astype(dtype or DTYPES[self.dtype])

    def result(self, exact: Array) -> Array:
        """A poisoned output for an exact result."""
        dtype = {"bf16": ml_dtypes.bfloat16, "f32": np.float32}[self.out]
        made = np.full(exact.shape, np.nan, dtype)
        self.wanted.append((made, exact))
        return made

    def _product(self) -> None:
        rng = self.rng
        k = 8 * rng.randrange(0, 20)
        across_a, across_b = rng.random() < 0.3, rng.random() < 0.3
        if across_a:
            self.m = -(-self.m // 8) * 8  # rows are 16 bytes apart, or a multiple
        a, b = self.uniform(self.m, k), self.uniform(self.n, k)
        product = wide(a) @ wide(b).T
        leaves = [
            ("row(read(w))", wide(self.v)[None, :]),
            ("alpha", np.array(self.alpha)),
            ("read(d)", product),
        ]
        expression, value = Made(rng, leaves).one(2)
        exact = self.alpha * product + 0.5 * value
        c = self.result(np.broadcast_to(exact, (self.m, self.n)))
        self.text = PRODUCT.format(
            dtype=self.dtype, out=self.out, bm=rng.choice([64, 128]), bn=rng.choice([32, 64, 96, 128]),
            bk=rng.choice([32, 64]), stages=rng.choice([1, 2, 3]), group=rng.choice([1, 2, 8]),
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
        x, y = self.uniform(self.m, self.n), self.uniform(self.m, self.n, dtype=np.float32)
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

    def check(self) -> None:
        """Within what f32 sums, bf16 operands and tanh.approx leave."""
        for found, exact in self.wanted:
            if not exact.size:
                continue
            scale = np.abs(exact).max() or 1.0
            unit = (8e-3 if found.dtype != np.float32 else 2e-5) + 2e-3 * ("tanh" in self.text)
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
    program = Program(random.Random(seed), np.random.default_rng(seed))
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
@pytest.mark.parametrize("turn", range(6))
def test_random_programs(target: str, turn: int) -> None:
    attempt(random.randrange(2**32), target)


@pytest.mark.soak
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a", "sm_107a"])
def test_many_random_programs(target: str) -> None:
    right = sum(attempt(random.randrange(2**32), target) for _ in range(150))
    assert right > 50

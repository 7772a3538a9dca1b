"""Programs of the tile language for tests, ways to change them, and what the front end says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from tkc.diagnostics import Diagnostic, TkcError
from tkc.frontend import compile_source

EXAMPLES = Path(__file__).parent.parent / "examples"
GEMM = (EXAMPLES / "gemm_bf16.tk").read_text(encoding="utf-8")
SILU = (EXAMPLES / "silu_mul.tk").read_text(encoding="utf-8")


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The text with the first occurrence of each left side replaced; each must be there."""
    for old, new in changes:
        assert old in text, f"no {old!r} in the program"
        text = text.replace(old, new, 1)
    return text


def elementwise(*lines: str, arguments: str = "", before: str = "") -> str:
    """A kernel whose role `math` runs the lines inside a get of a bf16 tile `x` and an f32 tile `y`, both 128 x 64."""
    body = "\n".join(f"                {line}" for line in lines)
    ahead = "".join(f"            {line}\n" for line in before.splitlines())
    return f"""\
kernel k(X: global[bf16, M, N], Y: global[f32, M, N], Z: global[f32, M, N], W: global[bf16, M, N]{arguments}):
    param BM = 128, BN = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[bf16, BM, BN] * 2
    shared y: tile[f32, BM, BN] * 2
    pipe p(x, y): load -> math
    role load:
        for m, n in work:
            put p:
                x <- X[m, n]
                y <- Y[m, n]
    role math, warps 4:
        for m, n in work:
{ahead}            get p:
{body}
"""


def product(
    *lines: str, arguments: str, params: str = "BM = 128, BN = 128, BK = 64", a: str = "bf16, M, K"
) -> str:
    """A kernel of A[M, K] · B[N, K]ᵀ in bf16, whose role `store` runs the lines for each tile of the pipe `result(d)`."""
    body = "\n".join(f"            {line}" for line in "\n".join(lines).splitlines())
    return f"""\
kernel product(A: global[{a}], B: global[bf16, N, K], {arguments}):
    param {params}
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[bf16, BM, BK] * 2
    shared b: tile[bf16, BN, BK] * 2
    accum d: tile[f32, BM, BN]
    pipe inputs(a, b): load -> math
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs:
                    a <- A[m, k]
                    b <- B[n, k]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, BK):
                    get inputs: d += a @ b.T
    role store:
        for m, n in work:
{body}
"""


@dataclass(frozen=True)
class Said:
    """One finding, and the text that its caret underlines."""

    diagnostic: Diagnostic
    text: str

    @property
    def code(self) -> str:
        return self.diagnostic.code

    @property
    def message(self) -> str:
        return self.diagnostic.message

    @property
    def line(self) -> int:
        assert self.diagnostic.location is not None
        return self.diagnostic.location.line


def mistakes(text: str, **options: object) -> list[Said]:
    """What the front end finds wrong with a text; none where it compiles."""
    try:
        compile_source(text, "k.tk", **options)  # type: ignore[arg-type]
    except TkcError as error:
        error.render()
        return [Said(d, _underlined(d, error.sources["k.tk"])) for d in error.diagnostics]
    return []


def only(said: Sequence[Said]) -> Said:
    """The one finding."""
    told = [f"{s.code} {s.diagnostic.location}: {s.message}" for s in said]
    assert len(said) == 1, "\n".join(told) or "nothing found"
    return said[0]


def compiled(text: str, **options: object) -> ModuleOp:
    """The module, verified."""
    module = compile_source(text, "k.tk", **options)  # type: ignore[arg-type]
    module.verify()
    return module


def _underlined(d: Diagnostic, source: str) -> str:
    at = d.location
    if at is None or not at.line:
        return ""
    line = source.split("\n")[at.line - 1] if at.line <= source.count("\n") + 1 else ""
    return line[at.column - 1 : (at.end_column or at.column + 1) - 1]


SUMS = """
kernel k(X: global[f32, M, N], Y: global[f32, M], n: i32):
    launch persistent
    schedule work: m in blocks(M, 128)
    shared x: tile[f32, 128, 32] * 2
    pipe p(x): load -> math
    role load:
        for m in work:
            for j in blocks(N, 32):
                put p: x <- X[m, j]
    role math, warps 4:
        for m in work:
            total = full(0)
            for j in blocks(N, 32):
                get p: total = total + row_sum(read(x))
            Y[m] <- total
"""
"""Sums of rows, item by item."""

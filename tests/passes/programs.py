"""Tile-level programs as IR text, made to measure, and the way to run passes on them."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tkc.ir import context
from tkc.ir.locations import LocatedParser
from tkc.passes import PASSES, pipeline


def parse(text: str) -> ModuleOp:
    """A verified module; operations know their line of the text."""
    module = LocatedParser(context(), text, "program.mlir").parse_module()
    module.verify()
    return module


def run(module: ModuleOp, *names: str) -> ModuleOp:
    """The module after these passes, verified after each; `set-target{arch=x}` is the pass with its option."""
    ctx = context()
    for name in names:
        if name.startswith("set-target"):
            made = PASSES["set-target"]()(arch=name.partition("arch=")[2].rstrip("}"))  # pyright: ignore
        else:
            made = PASSES[name]()()
        made.apply(ctx, module)
        module.verify()
    return module


def lowered(text: str, target: str, after: str | None = None) -> ModuleOp:
    """The module after the whole pipeline, or after the pass called `after`."""
    names = pipeline(target).split(",")
    if after is not None:
        names = names[: names.index(after) + 1]
    return run(parse(text), *names)


def ptx(text: str, target: str) -> str:
    """The PTX text of a program."""
    from tkc.backend.ptx_text import print_ptx

    return print_ptx(lowered(text, target))


def operations(module: ModuleOp, kind: type) -> list:  # type: ignore[type-arg]
    """Every operation of one class, in order."""
    return [op for op in module.walk() if isinstance(op, kind)]


def gemm(
    bm: int = 128,
    bn: int = 256,
    bk: int = 64,
    stages: int = 4,
    depth: int = 2,
    group: int = 8,
    dtype: str = "bf16",
    out: str = "bf16",
    epilogue: str = "",
    kernel: str = "gemm",
) -> str:
    """C[M, N] = A[M, K] · B[N, K]ᵀ with roles load, math and store; `epilogue` may rewrite `%r` (f32) as `%e`."""
    a, b = (
        f"!tile.shared<{dtype}, [{bm}, {bk}], {stages}>",
        f"!tile.shared<{dtype}, [{bn}, {bk}], {stages}>",
    )
    d, c = f"!tile.accum<f32, [{bm}, {bn}], {depth}>", f"[{bm}, {bn}]"
    m, n, k = f"!tile.block<{bm}, M>", f"!tile.block<{bn}, N>", f"!tile.block<{bk}, K>"
    read = "%e" if epilogue else "%r"
    cast = (
        f"%h = tile.cast {read} : (!tile.regs<f32, {c}>) -> (!tile.regs<{out}, {c}>)"
        if out != "f32"
        else ""
    )
    return f"""builtin.module {{
tile.kernel {{
  sym_name = "{kernel}", arg_names = ["A", "B", "C"], params = {{BM = {bm} : i64}}, launch = {{persistent}}
}} do {{
^bb0(%A : !tile.tensor<{dtype}, [M, K]>, %B : !tile.tensor<{dtype}, [N, K]>, %C : !tile.tensor<{out}, [M, N]>):
  %M = stage.size {{symbol = "M"}} : () -> (i32)
  %N = stage.size {{symbol = "N"}} : () -> (i32)
  %K = stage.size {{symbol = "K"}} : () -> (i32)
  %w = tile.schedule %M, %N {{sym_name = "work", sizes = [{bm} : i32, {bn} : i32], group = {group} : i32}}
    : (i32, i32) -> (!tile.work)
  %a = tile.shared {{sym_name = "a"}} : () -> ({a})
  %b = tile.shared {{sym_name = "b"}} : () -> ({b})
  %d = tile.accum {{sym_name = "d"}} : () -> ({d})
  %p = tile.pipe %a, %b {{sym_name = "inputs", producers = ["load"], consumers = ["math"]}}
    : ({a}, {b}) -> (!tile.pipe_ring)
  %q = tile.pipe %d {{sym_name = "result", producers = ["math"], consumers = ["store"]}} : ({d}) -> (!tile.pipe_ring)
  tile.role {{sym_name = "load"}} do {{
    tile.for_tiles %w : (!tile.work) do {{
    ^bb0(%m : {m}, %n : {n}):
      tile.for_blocks %K {{size = {bk} : i32}} : (i32) do {{
      ^bb0(%k : {k}):
        tile.put %p : (!tile.pipe_ring) do {{
        ^bb0(%as : {a}, %bs : {b}):
          %sa = tile.slice %A, %m, %k
            : (!tile.tensor<{dtype}, [M, K]>, {m}, {k}) -> (!tile.slice<{dtype}, [{bm}, {bk}]>)
          tile.copy %sa, %as : (!tile.slice<{dtype}, [{bm}, {bk}]>, {a})
          %sb = tile.slice %B, %n, %k
            : (!tile.tensor<{dtype}, [N, K]>, {n}, {k}) -> (!tile.slice<{dtype}, [{bn}, {bk}]>)
          tile.copy %sb, %bs : (!tile.slice<{dtype}, [{bn}, {bk}]>, {b})
          tile.yield ()
        }}
        tile.yield ()
      }}
      tile.yield ()
    }}
  }}
  tile.role {{sym_name = "math"}} do {{
    tile.for_tiles %w : (!tile.work) do {{
    ^bb0(%m : {m}, %n : {n}):
      tile.put %q : (!tile.pipe_ring) do {{
      ^bb0(%ds : {d}):
        tile.zero %ds : ({d})
        tile.for_blocks %K {{size = {bk} : i32}} : (i32) do {{
        ^bb0(%k : {k}):
          tile.get %p : (!tile.pipe_ring) do {{
          ^bb0(%as : {a}, %bs : {b}):
            tile.mma %ds, %as, %bs {{trans_a = 0 : i32, trans_b = 1 : i32}} : ({d}, {a}, {b})
            tile.yield ()
          }}
          tile.yield ()
        }}
        tile.yield ()
      }}
      tile.yield ()
    }}
  }}
  tile.role {{sym_name = "store"}} do {{
    tile.for_tiles %w : (!tile.work) do {{
    ^bb0(%m : {m}, %n : {n}):
      tile.get %q : (!tile.pipe_ring) do {{
      ^bb0(%ds : {d}):
        %r = tile.read %ds : ({d}) -> (!tile.regs<f32, {c}>)
        {epilogue}
        {cast}
        %sc = tile.slice %C, %m, %n : (!tile.tensor<{out}, [M, N]>, {m}, {n}) -> (!tile.slice<{out}, {c}>)
        tile.copy {"%h" if cast else read}, %sc : (!tile.regs<{out}, {c}>, !tile.slice<{out}, {c}>)
        tile.yield ()
      }}
      tile.yield ()
    }}
  }}
}}
}}
"""

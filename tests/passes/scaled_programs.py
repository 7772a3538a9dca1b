"""A stage program whose role `move` copies block scales for role `math`, with parts that tests replace."""

from __future__ import annotations

TILE = '!stage.buffer<e2m1, [128, 64], @DEPTH, shared, "32B">'
ATOMS = '!stage.buffer<ue4m3, [128, 4], @DEPTH, shared, "scale_atoms">'
COLUMNS = '!stage.buffer<ue4m3, [128, 4], @SLOTS, tensor, "scale_atoms">'
SUM = "!stage.accumulator<f32, [128, 128]>"

COPY = f"stage.copy_scales %u, %s, %v, %t : ({ATOMS}, i32, {COLUMNS}, i32)"
PRODUCT = (
    f"%y = stage.scaled_mma %x, %a, %s, %a, %s, %v, %t, %v, %t : "
    f"({SUM}, {TILE}, i32, {TILE}, i32, {COLUMNS}, i32, {COLUMNS}, i32) -> ({SUM})"
)
MOVE = [
    "%s = stage.wait %inputs : (!stage.ring) -> (i32)",
    "%t = stage.acquire %factors : (!stage.ring) -> (i32)",
    COPY,
    'stage.commit %factors, %t {how = ["tcgen05"], bytes = 0 : i32} : (!stage.ring, i32)',
    'stage.release %inputs, %s {how = ["tcgen05"]} : (!stage.ring, i32)',
]
MATH = [
    "%s = stage.wait %inputs : (!stage.ring) -> (i32)",
    "%t = stage.wait %factors : (!stage.ring) -> (i32)",
    PRODUCT,
    'stage.release %inputs, %s {how = ["tcgen05"]} : (!stage.ring, i32)',
    'stage.release %factors, %t {how = ["tcgen05"]} : (!stage.ring, i32)',
]
FRAME = """\
builtin.module attributes {{tkc.target = "sm_100a"}} {{
  stage.kernel {{sym_name = "k", arg_names = [], contract = {{}}}} do {{
    %zero = stage.const {{constant = 0 : i32}} : () -> (i32)
    %one = stage.const {{constant = 1 : i32}} : () -> (i32)
    %K = stage.size {{symbol = "K"}} : () -> (i32)
    %a = stage.alloc {{sym_name = "a"}} : () -> ({tile})
    %u = stage.alloc {{sym_name = "a.scales"}} : () -> ({atoms})
    %v = stage.alloc {{sym_name = "sa"}} : () -> ({columns})
    %d = stage.alloc {{sym_name = "d"}} : () -> (!stage.buffer<f32, [128, 128], {sums}, tensor, "none">)
    %inputs = stage.pipe %a, %u {{sym_name = "inputs", kind = "full_empty", depth = {depth} : i32, producers = ["load"], consumers = [{consumers}]}} : ({tile}, {atoms}) -> (!stage.ring)
    %factors = stage.pipe %v {{sym_name = "factors", kind = "full_empty", depth = {slots} : i32, producers = ["move"], consumers = [{takers}]}} : ({columns}) -> (!stage.ring)
{before}    stage.role {{sym_name = "move", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32}} do {{
{above}      stage.for %zero, {bound}, %one : (i32, i32, i32) do {{
      ^bb0(%k: i32):
        {move}
        stage.yield ()
      }}
    }}
    stage.role {{sym_name = "math", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32}} do {{
      %o = stage.open %d, %zero : (!stage.buffer<f32, [128, 128], {sums}, tensor, "none">, i32) -> ({sum})
      %z = stage.for %zero, %K, %one, %o : (i32, i32, i32, {sum}) -> ({sum}) do {{
      ^bb1(%l: i32, %x: {sum}):
        {math}
        stage.yield %y : ({sum})
      }}
{below}    }}
{after}  }}
}}
"""


def program(
    move: list[str] = MOVE,
    math: list[str] = MATH,
    depth: int = 2,
    columns: int = 2,
    sums: int = 1,
    consumers: str = '"move", "math"',
    takers: str = '"math"',
    bound: str = "%K",
    **more: str,
) -> str:
    """The text; `before`, `above`, `below` and `after` are lines beside and in the two roles."""
    lines = dict.fromkeys(("before", "above", "below", "after"), "") | more
    text = FRAME.format(
        tile=TILE, atoms=ATOMS, columns=COLUMNS, sum=SUM, depth=depth, slots=columns, sums=sums, bound=bound,
        consumers=consumers, takers=takers, move="\n        ".join(move), math="\n        ".join(math), **lines,
    )  # fmt: skip
    return text.replace("@DEPTH", str(depth)).replace("@SLOTS", str(columns))

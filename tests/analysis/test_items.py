"""Items of rings that correspond: unique places, nests of loops that run alike, order in a block."""

from __future__ import annotations

import pytest
from passes.programs import operations, parse
from passes.scaled_programs import MOVE, program
from xdsl.ir import Block

from tkc.analysis.items import comes_before, item_of, role_of, run_alike
from tkc.ir.stage import ops as s


def role(module: object, name: str) -> s.RoleOp:
    (found,) = [r for r in operations(module, s.RoleOp) if r.sym_name.data == name]  # type: ignore[arg-type]
    return found


def ring(module: object, name: str) -> s.PipeOp:
    (found,) = [p for p in operations(module, s.PipeOp) if p.sym_name.data == name]  # type: ignore[arg-type]
    return found


def test_a_role_s_one_place_at_each_end() -> None:
    module = parse(program())
    move, math = role(module, "move"), role(module, "math")
    factors = ring(module, "factors").ring
    filled, taken = item_of(move, factors, s.CommitOp), item_of(math, factors, s.ReleaseOp)
    assert filled is not None
    assert taken is not None
    assert role_of(filled.take) is move
    assert role_of(taken.give) is math
    assert item_of(move, factors, s.ReleaseOp) is None
    assert item_of(math, factors, s.CommitOp) is None


def test_two_places_are_none() -> None:
    again = [line.replace("%s", "%s2").replace("%t", "%t2") for line in MOVE]
    module = parse(program(move=[*MOVE, *again]))
    assert item_of(role(module, "move"), ring(module, "factors").ring, s.CommitOp) is None


def blocks(module: object) -> list[Block]:
    """The bodies of the loops of both roles."""
    return [
        next(o for o in role(module, n).body.block.ops if isinstance(o, s.ForOp)).body.block
        for n in ("move", "math")
    ]


@pytest.mark.parametrize(("bound", "alike"), [("%K", True), ("%one", False), ("%zero", False)])
def test_counted_loops_are_alike_by_their_bounds(bound: str, alike: bool) -> None:
    move, math = blocks(parse(program(bound=bound)))
    assert run_alike(move, math) == alike
    assert run_alike(math, move) == alike
    assert run_alike(move, move)


NESTS = """
builtin.module {{
  stage.kernel {{sym_name = "k", arg_names = [], contract = {{}}}} do {{
    %one = stage.const {{constant = 1 : i32}} : () -> (i32)
    %M = stage.size {{symbol = "M"}} : () -> (i32)
    stage.role {{sym_name = "a", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32}} do {{
      stage.work_loop %M, %M {{schedule = "w", group = 1 : i32, operandSegmentSizes = array<i32: 2, 0>}} : (i32, i32) do {{
      ^bb0(%m: i32, %n: i32):
        %x = stage.arith %m, %one {{kind = "add"}} : (i32, i32) -> (i32)
        stage.for %m, %x, %one : (i32, i32, i32) do {{
        ^bb1(%k: i32):
          stage.yield ()
        }}
        stage.yield ()
      }}
    }}
    stage.role {{sym_name = "b", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32}} do {{
      stage.work_loop %M, %M {{schedule = "{schedule}", group = 1 : i32, operandSegmentSizes = array<i32: 2, 0>}} : (i32, i32) do {{
      ^bb2(%m2: i32, %n2: i32):
        %one2 = stage.const {{constant = 1 : i32}} : () -> (i32)
        %y = stage.arith {axis}, %one2 {{kind = "{kind}"}} : (i32, i32) -> (i32)
        stage.for {axis}, %y, %one2 : (i32, i32, i32) do {{
        ^bb3(%l: i32):
          stage.yield ()
        }}
        stage.yield ()
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("schedule", "axis", "kind", "alike"),
    [("w", "%m2", "add", True), ("v", "%m2", "add", False), ("w", "%n2", "add", False), ("w", "%m2", "mul", False)],
)  # fmt: skip
def test_loops_in_a_schedule_are_alike_where_their_bounds_come_of_the_same_axes(
    schedule: str, axis: str, kind: str, alike: bool
) -> None:
    module = parse(NESTS.format(schedule=schedule, axis=axis, kind=kind))
    one, two = (f.body.block for f in operations(module, s.ForOp))
    assert run_alike(one, two) == alike


def test_order_in_a_block_counts_what_stands_in_loops() -> None:
    module = parse(program())
    block = blocks(module)[1]
    wait, *_ = [o for o in block.ops if isinstance(o, s.WaitOp)]
    (product,) = operations(module, s.ScaledMmaOp)
    assert comes_before(wait, product, block)
    assert not comes_before(product, wait, block)
    assert not comes_before(wait, wait, block)
    outer = role(module, "math").body.block
    assert not comes_before(wait, product, outer)
    first = outer.first_op
    assert first is not None
    assert comes_before(first, product, outer)

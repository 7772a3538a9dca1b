"""Swizzles of tiles: all uses count, every slot's type changes with the tile's, what is written stays."""

from __future__ import annotations

import pytest
from passes.programs import gemm, lowered, operations, parse, run

from tkc.analysis.swizzle import Use
from tkc.diagnostics import TkcError, listening
from tkc.ir.tile import ops as t
from tkc.passes.select_swizzle import slots_of, uses_of


@pytest.mark.parametrize(
    ("bk", "dtype", "swizzle"),
    [
        (64, "bf16", "128B"),
        (32, "bf16", "64B"),
        (16, "bf16", "32B"),
        (128, "e4m3", "128B"),
        (8, "tf32", "32B"),
    ],
)
def test_a_tile_and_all_its_slots_get_one_swizzle(bk: int, dtype: str, swizzle: str) -> None:
    module = lowered(gemm(bk=bk, dtype=dtype), "sm_100a", "select-swizzle")
    module.verify()
    for tile in operations(module, t.SharedOp):
        slots = list(slots_of(tile.tile))
        assert len(slots) == 3, "the tile, its put and its get"
        assert {v.type.swizzle.data for v in slots} == {swizzle}  # type: ignore[attr-defined]


def test_uses_are_those_of_every_slot() -> None:
    a, b = operations(parse(gemm()), t.SharedOp)
    assert uses_of(a.tile) == uses_of(b.tile) == {Use.COPY, Use.OPERAND}


def test_the_second_of_two_pipes_of_a_block_has_its_own_slots() -> None:
    """Block arguments are pipe by pipe: tile b's slot in `put p, q` is the second argument."""
    tile = "!tile.shared<bf16, [128, {}], 2>"
    a, b = tile.format(64), tile.format(16)
    module = parse(f"""builtin.module {{
tile.kernel {{sym_name = "k", arg_names = [], params = {{}}, launch = {{persistent}}}} do {{
  %a = tile.shared {{sym_name = "a"}} : () -> ({a})
  %b = tile.shared {{sym_name = "b"}} : () -> ({b})
  %p = tile.pipe %a {{sym_name = "p", producers = ["r"], consumers = []}} : ({a}) -> (!tile.pipe_ring)
  %q = tile.pipe %b {{sym_name = "q", producers = ["r"], consumers = []}} : ({b}) -> (!tile.pipe_ring)
  tile.role {{sym_name = "r"}} do {{
    tile.put %p, %q : (!tile.pipe_ring, !tile.pipe_ring) do {{
    ^bb0(%s : {a}, %t : {b}):
      %x = tile.read %t : ({b}) -> (!tile.regs<bf16, [128, 16]>)
      tile.yield ()
    }}
  }}
}}
}}""")
    one, two = operations(module, t.SharedOp)
    assert uses_of(one.tile) == set()
    assert uses_of(two.tile) == {Use.THREADS}
    run(module, "set-target{arch=sm_90a}", "select-swizzle")
    (put,) = operations(module, t.PutOp)
    assert [v.type.swizzle.data for v in put.body.block.args] == ["128B", "32B"]


def test_what_is_written_stays() -> None:
    text = gemm().replace(
        "!tile.shared<bf16, [128, 64], 4>", '!tile.shared<bf16, [128, 64], 4, "64B">'
    )
    with listening() as heard:
        module = lowered(text, "sm_100a", "select-swizzle")
    found = [o.tile.type.swizzle.data for o in operations(module, t.SharedOp)]
    assert found == ["64B", "128B"]
    assert [d.code for d in heard] == ["TK218"]
    assert "tile b gets swizzle 128B" in heard[0].message


def test_a_row_without_a_layout_is_refused_in_bytes() -> None:
    with pytest.raises(TkcError, match=r"rows of tile a are 48 bytes \(24 bf16\)"):
        lowered(gemm(bk=24), "sm_100a", "select-swizzle")

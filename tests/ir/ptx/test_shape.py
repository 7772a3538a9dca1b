"""What rows say about operands: order, optional parts, lists, addresses, templates; and that little is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tkc.ir.isa.instructions import Row, texts
from tkc.ir.ptx.families import find, row_names
from tkc.ir.ptx.shape import Shape


def test_order_and_kinds_of_operands() -> None:
    shape = Shape(find("cp.async.bulk.tensor.load"))
    assert shape.arguments == ("dst", "map", "coords", "bar", "mask", "policy")
    assert shape.operands == shape.arguments
    assert shape.lists == {"coords"}
    assert shape.optional == {"mask", "policy"}
    assert shape.addresses == {"dst", "bar"}
    assert shape.offsets == {"dst_offset", "bar_offset"}
    assert shape.segmented


def test_tied_operands_come_last_and_are_not_printed() -> None:
    shape = Shape(find("wgmma.mma_async"))
    assert shape.arguments[-1] == "c"
    assert shape.operands == ("a_desc", "b_desc", "scale_d", "c")
    assert set(shape.immediates) == {"scale_a", "scale_b", "trans_a", "trans_b"}
    assert "c" not in shape.template(frozenset(shape.immediates)).names


def test_a_row_may_give_its_address_an_offset_itself() -> None:
    shape = Shape(find("st"))
    assert shape.own_offset
    assert shape.arguments == ("addr", "a", "policy")
    assert shape.offset_of("addr") == "offset"
    assert shape.template(frozenset()).text == "[%s], %s"
    assert shape.template(frozenset({"offset", "policy"})).text == "[%s+%s], %s, %s"
    assert shape.template(frozenset({"offset"})).names == ("addr", "offset", "a")


def row(syntax: str, **operands: str) -> Row:
    return Row(
        "x",
        "x<type?><more?>",
        syntax,
        operands,
        slots={"type": texts(".a", ".a.b"), "more": texts(".b", ".a")},
    )


def test_lists_inside_optional_parts() -> None:
    shape = Shape(row("[d], a{?, {mask*}}, p", d="b32", a="b32", mask="b32*", p="pred"))
    assert shape.optional == {"mask"}
    assert shape.lists == {"mask"}
    assert shape.template(frozenset()).text == "[%s], %s, %s"
    assert shape.template(frozenset({"mask"})).text == "[%s], %s, {%s}, %s"


def test_two_things_in_one_optional_part_come_together() -> None:
    shape = Shape(row("a{?, b, c}{?, d}", a="b32", b="imm", c="imm", d="imm"))
    assert shape.template(frozenset({"b", "c"})).names == ("a", "b", "c")
    assert shape.template(frozenset({"d"})).text == "%s, %s"


def test_fixed_text_stays() -> None:
    shape = Shape(row("_|p, {x, y}, 100%", p="pred", x="b32", y="b32"))
    template = shape.template(frozenset())
    assert template.text % ("P", "X", "Y") == "_|P, {X, Y}, 100%"


def test_modifiers_are_matched_with_a_view_to_the_rest() -> None:
    shape = Shape(row("a", a="b32"))
    assert shape.modifiers(".a") == {"type": ".a"}
    assert shape.modifiers(".a.b") == {"type": ".a", "more": ".b"}
    assert shape.modifiers(".a.b.a") == {"type": ".a.b", "more": ".a"}
    assert shape.modifiers(".b") == {"more": ".b"}
    assert shape.modifiers(".a", {"type"}) == {"more": ".a"}
    assert shape.modifiers("") == {}
    with pytest.raises(
        ValueError, match=r"x has no modifiers '\.c'; it takes type\?: \.a\|\.a\.b more\?"
    ):
        shape.modifiers(".c")


def test_row_names_are_all_there() -> None:
    assert {"add", "ld.vec", "elect.sync", "mbarrier.init", "tcgen05.ld"} <= set(row_names())


def test_a_kernel_loads_only_what_it_uses() -> None:
    script = """
import sys
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from tkc.backend.ptx_text import print_ptx
from tkc.ir.ptx.emit import kernel
from tkc.passes.check_target import CheckTargetPass
from tkc.passes.name_registers import NameRegistersPass
op, emit = kernel("k", reqntid=32)
emit.add(".u32", emit.special("%tid.x"), 1)
module = ModuleOp([op], {"tkc.target": StringAttr("sm_90a")})
NameRegistersPass().apply(Context(), module)
CheckTargetPass().apply(Context(), module)
print_ptx(module)
loaded = [n.rpartition(".")[2] for n in sys.modules if n.startswith("tkc.ir.isa.instructions.")]
assert "arith" in loaded and not {"tma", "wgmma", "tcgen05", "mbarrier"} & set(loaded), loaded
assert not {"xdsl.parser", "xdsl.printer", "lark", "numpy"} & sys.modules.keys()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

"""Every row through the dialect: each spelling verifies, reads back, and assembles as the operation prints it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from ir.isa.ptx_lines import (
    any_class,
    default_modifiers,
    find_ptxas,
    is_needed,
    list_length,
    spellings,
)
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.traits import Pure

from tkc.backend.ptx_text import print_ptx
from tkc.ir import context
from tkc.ir.effects import Effects
from tkc.ir.isa.instructions import FAMILIES, Row, all_rows, family
from tkc.ir.isa.targets import TARGETS
from tkc.ir.locations import LocatedParser
from tkc.ir.ptx.emit import Emit, kernel
from tkc.ir.ptx.families import family_of, find
from tkc.ir.ptx.instruction import Instruction, instruction
from tkc.ir.ptx.registers import reg
from tkc.ir.ptx.shape import Shape
from tkc.ir.target import TARGET
from tkc.passes.name_registers import NameRegistersPass

ROWS = all_rows()
WITHOUT_OPERATION = {"bra", "ret", "exit"}
"""Rows that the structured operations print, since a branch needs a label."""
COMES_WITH = {"policy": "hint", "mask": "multicast", "byte_mask": "mask"}
IMMEDIATES = {
    "fraction": "0.5",
    "table": 0x96,
    "symbol": "sm",
    "register": "%tid.x",
    "param": "P",
}
COUNTS = {"setmaxnreg": 64, "fence.proxy.tensormap.acquire": 128}


def test_every_row_has_an_operation_and_every_rule_a_row() -> None:
    made = {instruction(name).ROW.name for name in ROWS}
    assert made == set(ROWS)
    names = [instruction(name).name for name in ROWS]
    assert len(set(names)) == len(names)
    for name in FAMILIES:
        rules = family_of(next(iter(family(name))))
        assert rules.LENGTHS.keys() <= family(name).keys()
        assert family(name).keys() >= rules.WIDER


def test_an_unknown_row_names_the_nearest() -> None:
    with pytest.raises(KeyError, match=r"mbarrier\.init"):
        find("mbarrier.initt")


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_names_of_a_row_do_not_clash(row: Row) -> None:
    kind = instruction(row.name)
    assert not row.slots.keys() & row.operands.keys()
    assert not {*row.slots, *row.operands} & set(dir(Instruction)), "an attribute would hide it"
    assert row.doc in (kind.__doc__ or "")
    shape = kind.SHAPE
    assert set(row.operands) == {
        *shape.results,
        *shape.operands,
        *shape.immediates,
    }
    effects = kind.get_trait(Effects)
    assert (effects.rows if effects else ()) == row.effects
    assert kind.has_trait(Pure()) == (row.pure and not row.effects)


def argument(emit: Emit, row: Row, name: str, modifiers: dict[str, str], shape: Shape):
    """A value, list, tuple or immediate that suits an operand."""
    kind = row.operands[name].removesuffix("*")
    if kind == "imm":
        if name == "value":
            return {".f32": "0f3F800000", ".f64": "0d3FF0000000000000"}.get(modifiers["type"], 1)
        if name == "register" and modifiers["type"] in (".u64", ".b64"):
            return "%globaltimer"
        return COUNTS.get(row.name, IMMEDIATES.get(name, 1))
    if kind in ("any", "address"):
        kind = any_class(row, name, modifiers)
    elif kind == "vec":
        kind = "f32" if modifiers.get("dtype") == ".f32" else "b32"
        return emit.undef(kind, list_length(row, name, modifiers))
    else:
        kind = shape.spelling(tuple([modifiers.get(s) for s in shape.slots])).kinds[name]
    if row.operands[name].endswith("*"):
        return [emit.undef(kind) for _ in range(list_length(row, name, modifiers))]
    return emit.undef(kind)


def build(emit: Emit, row: Row, modifiers: dict[str, str], extra: bool) -> Instruction:
    """One instruction with all its operands; optional ones where their modifier is, or with `extra`."""
    shape = instruction(row.name).SHAPE
    arguments = []
    for name in shape.arguments:
        tied = COMES_WITH.get(name)
        shown = (
            name not in shape.optional
            or (tied in modifiers if tied in row.slots else extra)
            or is_needed(row, [name], modifiers)
        )
        if name == "scale_b" and row.name.startswith("wgmma"):
            shown = is_needed(row, ["scale_a"], modifiers)
        arguments.append(argument(emit, row, name, modifiers, shape) if shown else None)
    results = None
    if row.results and not row.tied:
        types = []
        for name in row.results:
            kind = row.operands[name]
            if kind == "vec":
                types.append(reg("b32", list_length(row, name, modifiers)))
            elif kind.startswith("any"):
                types += [reg(any_class(row, name, modifiers))] * list_length(row, name, modifiers)
        results = types or None
    return emit.insert_last(emit(row.name, *arguments, results=results, **modifiers))


class Keeping(Emit):
    """A builder that remembers the operation it made."""

    def insert_last(self, made: object) -> Instruction:
        op = self.block.last_op
        assert isinstance(op, Instruction)
        return op


@cache
def every_line() -> tuple[tuple[Instruction, ...], ModuleOp]:
    op, emit = kernel("k", [("P", "u64")], reqntid=128, shared_bytes=1024)
    emit = Keeping(emit.block)
    made: list[Instruction] = []
    for row in ROWS.values():
        if row.name in WITHOUT_OPERATION or not row.emitted:
            continue
        for number, modifiers in enumerate(spellings(row)):
            optional = number == 0 and "{?" in row.syntax and not row.name.startswith("wgmma")
            for extra in (False, True) if optional else (False,):
                made.append(build(emit, row, modifiers, extra))
    module = ModuleOp([op], {TARGET: StringAttr("sm_107a")})
    return tuple(made), module


def test_every_spelling_verifies_and_reads_back() -> None:
    _, module = every_line()
    module.verify()
    text = str(module)
    again = LocatedParser(context(), text).parse_module()
    again.verify()
    assert again.is_structurally_equivalent(module)
    assert str(again) == text


def fits(op: Instruction, target: str) -> bool:
    return TARGETS[target].has(op.spelling.needs)


def chunks(target: str) -> Iterator[str]:
    """The printed lines that the rows promise for a target."""
    _, module = every_line()
    named = module.clone()
    NameRegistersPass().apply(context(), named)
    named.attributes[TARGET] = StringAttr(target)
    for op in list(named.walk()):
        if isinstance(op, Instruction) and not fits(op, target):
            op.detach()
            op.erase(safe_erase=False)
    yield print_ptx(named)


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: pip install 'tkc[assemble]'")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_100f"])
def test_what_is_printed_is_what_ptxas_takes(target: str, tmp_path: Path) -> None:
    ptxas = find_ptxas()
    assert ptxas is not None
    for text in chunks(target):
        source = tmp_path / "k.ptx"
        # An unknown instruction at the end stops ptxas after checking, before it generates code.
        source.write_text(text.replace("    ret;", "    stop_here;\n    ret;"))
        run = subprocess.run(
            [ptxas, f"-arch={target}", str(source), "-o", "/dev/null"],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = source.read_text().splitlines()
        said = re.findall(r"line (\d+); error\s*: (.*)", run.stderr + run.stdout)
        refused = [(lines[int(n) - 1].strip(), e) for n, e in said]
        assert refused[-1][0] == "stop_here;", run.stderr
        assert refused[:-1] == []


def test_default_modifiers_spell_every_row() -> None:
    for row in ROWS.values():
        assert row.spell(default_modifiers(row))

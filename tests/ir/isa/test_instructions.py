"""Rows keep their own promises: slots, operands, effects and names fit together."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tkc.ir.isa.instructions import (
    COMES_WITH,
    FAMILIES,
    REGISTER_CLASS,
    Row,
    all_rows,
    family,
    register_class,
    texts,
)
from tkc.ir.isa.memory import Done, Kind, Proxy, Signal, Space, Touch
from tkc.ir.isa.targets import TARGETS, Feature

ROWS = all_rows()
CLASSES = {"pred", "b8", "b16", "b32", "b64", "b128", "f32", "f64", "imm", "vec", "address", "any"}


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_fit_together(name: str):
    for row in family(name).values():
        fits_together(row)


def fits_together(row: Row) -> None:
    words = set(re.findall(r"[A-Za-z_]\w*", row.syntax)) - {"_"}
    assert words == set(row.operands) - set(row.tied.values()), row.name
    assert set(row.results) <= set(row.operands)
    assert set(row.tied) <= set(row.results)
    assert {slot for slot, _ in row.slot_order} == set(row.slots)
    assert len(row.slot_order) == len(row.slots)
    for kind in row.operands.values():
        assert kind.removesuffix("*") in CLASSES or kind.removesuffix("*") in row.slots
    for choices in row.slots.values():
        assert choices
        assert len({c.text for c in choices}) == len(choices)
        for choice in choices:
            assert choice.along.keys() <= row.slots.keys(), choice
            for slot, text in choice.along.items():
                assert text in [c.text for c in row.slots[slot]], (choice, slot)
    assert row.section, row.name
    assert row.doc, row.name
    assert not (row.pure and row.effects)
    assert not row.form_of or row.form_of in ROWS


def test_effects_name_operands():
    for row in ROWS.values():
        for effect in row.effects:
            if isinstance(effect, Touch):
                assert effect.operand in row.operands, row.name
            if isinstance(effect, Signal):
                assert not effect.barrier or effect.barrier in row.operands, row.name
                assert effect.bytes_of is None or effect.bytes_of in row.operands, row.name


def test_what_is_not_pure_says_what_it_does():
    silent = {row.name for row in ROWS.values() if not row.pure and not row.effects}
    flow = {"bra", "brx.idx", "call", "ret", "exit", "trap", "brkpt", "pmevent", "nanosleep"}
    carry = {"add.cc", "sub.cc", "addc", "subc", "mad.cc", "madc"}
    assert silent == flow | carry | {"elect.sync", "elect.sync.lane", "setmaxnreg", "activemask"}


def test_families_share_no_name():
    assert sum(len(family(f)) for f in FAMILIES) == len(ROWS)


def test_every_feature_is_needed_and_given():
    needed = {f for row in ROWS.values() for f in row.needs}
    needed |= {f for r in ROWS.values() for cs in r.slots.values() for c in cs for f in c.needs}
    given = {f for t in TARGETS.values() for f in t.features}
    assert given == set(Feature)
    assert needed >= set(Feature) - {
        Feature.FP4_K96,
        Feature.SWIZZLE_96B,
        Feature.TMA_NARROW,
        Feature.TCGEN05_DOUBLE_K,
        Feature.TENSOR_COLUMNS_576,
        Feature.PREFERRED_CLUSTER,
        Feature.GRID_DEPENDENCY,
    }
    assert needed <= given


def test_spelling():
    row = ROWS["ld"]
    assert row.spell({"type": ".u32"}) == "ld.u32"
    assert row.spell({"type": ".f32", "space": ".global", "nc": ".nc"}) == "ld.global.nc.f32"
    with pytest.raises(ValueError, match=r"ld needs a type: one of \.b32"):
        row.spell({})
    with pytest.raises(ValueError, match=r"ld has no type \.q32"):
        row.spell({"type": ".q32"})
    with pytest.raises(ValueError, match="ld has no modifier colour; it has sem"):
        row.spell({"type": ".u32", "colour": ".red"})


def test_requirements_add_up():
    row = ROWS["tcgen05.mma.block_scale"]
    spelled = {"cta_group": ".cta_group::1", "kind": ".kind::mxf4nvf4", "block": ".block16"}
    assert row.requires(spelled) == ((8, 8), frozenset({Feature.TCGEN05}))
    assert row.requires(spelled | {"block": ".scale_vec::4X"}) == (
        (8, 7),
        frozenset({Feature.TCGEN05, Feature.SCALE_VEC}),
    )
    mixed = {"shape": ".m64n8k32", "dtype": ".s32", "atype": ".s8", "btype": ".u8"}
    assert ROWS["wgmma.mma_async"].requires(mixed)[0] == (8, 4)
    assert ROWS["wgmma.mma_async"].requires(mixed | {"btype": ".s8"})[0] == (8, 0)


def test_effects_take_the_space_that_is_spelled():
    row = ROWS["st"]
    assert row.effects == (Touch(Kind.WRITE, "addr", Space.GENERIC),)
    (effect,) = row.effects_with({"type": ".u32", "space": ".shared::cta"})
    assert effect == Touch(Kind.WRITE, "addr", Space.SHARED)
    assert row.effects_with({"type": ".u32"}) == row.effects
    load = ROWS["cp.async.bulk.tensor.load"].effects
    assert Touch(Kind.WRITE, "dst", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX) in load


def test_register_classes():
    assert register_class(".u8") == "b16"
    assert register_class(".bf16x2") == "b32"
    assert register_class(".f32x2") == "b64"
    assert register_class(".e2m1x2") == "b8"
    with pytest.raises(KeyError):
        register_class(".tensor")
    types = {c.text for r in ROWS.values() for c in r.slots.get("type", ())}
    assert types <= REGISTER_CLASS.keys() | {".u4", ".s4", ".u2", ".s2"}


def test_optional_operands_with_a_modifier_have_it_in_their_row():
    for row in ROWS.values():
        for operand, slot in COMES_WITH.items():
            if operand in row.operands and slot not in row.slots:
                assert not re.search(rf"\{{\?[^}}]*\b{operand}\b", row.syntax), row.name


def test_texts_share_what_they_need():
    choices = texts(".a", ".b", ptx=(8, 1), needs=frozenset({Feature.TMA}))
    assert [c.text for c in choices] == [".a", ".b"]
    assert all(c.ptx == (8, 1) and c.needs == {Feature.TMA} for c in choices)


def test_a_family_loads_alone_and_imports_little():
    code = (
        "import sys; import tkc.ir.isa.instructions.tma; "
        "print([m for m in sys.modules if m.startswith('tkc') or m in ('numpy', 'xdsl', 'difflib')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(eval(run.stdout))
    assert {m for m in loaded if "instructions." in m} == {
        "tkc.ir.isa.instructions.tma",
        "tkc.ir.isa.instructions.tma_rare",
    }
    assert not loaded & {"numpy", "xdsl", "difflib"}

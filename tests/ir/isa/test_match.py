"""Finding rows from PTX text: a small corpus in which every line has the row that it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkc.ir.isa.instructions import all_rows
from tkc.ir.isa.instructions.match import (
    UnknownInstruction,
    bind,
    candidates,
    match,
    split_operands,
)

CORPUS = Path(__file__).with_name("match_corpus.txt").read_text()
"""One instruction a line: the name of its row, a bar, its text."""

LINES = [line.split(" | ", 1) for line in CORPUS.strip().splitlines()]


def kind_of(text: str) -> str:
    """The class of a register by the names of this corpus."""
    return "pred" if text.startswith("%p") else "b32" if text.startswith("%") else ""


@pytest.mark.parametrize(("name", "line"), LINES, ids=[line for _, line in LINES])
def test_corpus(name: str, line: str):
    mnemonic, _, operands = line.partition(" ")
    found = match(mnemonic, operands, kind_of)
    assert found.row.name == name
    assert found.operands is not None
    spelled = found.row.spell(found.modifiers)
    assert sorted(spelled.split(".")) == sorted(mnemonic.split("."))


def test_every_row_is_found_by_its_own_spelling():
    for row in all_rows().values():
        if row.form_of:
            continue
        modifiers = {s: row.slots[s][0].text for s, optional in row.slot_order if not optional}
        for slot in list(modifiers):
            modifiers = {**row.slots[slot][0].along, **modifiers}
        assert row.name in [c.row.name for c in candidates(row.spell(modifiers))]


def test_modifiers_and_operands_by_name():
    found = match(
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes",
        "[%r1+1024], [%rd1, {%r2, 64}], [%r4]",
    )
    assert found.modifiers == {"dim": ".2d", "space": ".shared::cta", "mode": ".tile"}
    assert found.operands == {
        "dst": "%r1+1024",
        "map": "%rd1",
        "coords": ("%r2", "64"),
        "bar": "%r4",
    }
    found = match("cvt.f32.f16", "%f1, %rs1")
    assert found.modifiers == {"type": ".f32", "from": ".f16"}
    found = match("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
    assert found.modifiers["metadata"] == "::ordered_metadata"


def test_optional_operands_follow_their_modifier():
    hinted = match(
        "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint", "[%rd1], [%r1], 64, %rd2"
    )
    assert hinted.operands is not None
    assert hinted.operands["policy"] == "%rd2"
    masked = match("cp.async.bulk.global.shared::cta.bulk_group.cp_mask", "[%rd1], [%r1], 64, %rs1")
    assert masked.operands is not None
    assert "policy" not in masked.operands


@pytest.mark.parametrize(
    ("mnemonic", "operands", "says"),
    [
        ("frob.b32", "%r1", "no instruction 'frob.b32'"),
        ("mbarier.init.b64", "[%r1]", "nearest are mbarrier"),
        ("tcgen05.frob.cta_group::1", "", "tcgen05 has tcgen05.alloc"),
        ("add.s32", "%r1, %r2", "add.s32 does not take operands '%r1, %r2': expected 'd, a, b'"),
        ("mbarrier.init.shared::cta.b64", "%r1, 1", "does not take operands"),
        ("ld.global.u32", "%r1, [%rd1", "brackets do not close"),
        ("add.s32", "%r1,, %r2", "empty operand"),
        (
            "cp.async.bulk.global.shared::cta.bulk_group.cp_mask",
            "[%rd1], [%r1], 64",
            "does not take",
        ),
    ],
)
def test_what_has_no_row(mnemonic: str, operands: str, says: str):
    with pytest.raises(UnknownInstruction) as error:
        match(mnemonic, operands)
    assert says in str(error.value)


def test_bind_alone():
    row = all_rows()["elect.sync"]
    assert bind(row, {}, split_operands("_|%p1, -1")) == {"p": "%p1", "mask": "-1"}
    assert bind(row, {}, split_operands("%r1|%p1, -1")) is None

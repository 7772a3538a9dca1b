"""The stage dialect: its lit test meets every operation and type, and every operation says what it does to memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import IRDLOperation
from xdsl.traits import IsTerminator, Pure

from tkc.ir.effects import Effects
from tkc.ir.stage import STAGE
from tkc.ir.stage.ops import BulkCommitOp, By, StageOp, Tcgen05FenceOp, YieldOp
from tkc.ir.stage.scalar import ConstOp

FOLDER = Path(__file__).parents[3] / "lit_tests" / "stage"
EVERY = ("every-operation.mlir", "maps.mlir")
OPERATIONS = list(STAGE.operations)


def test_the_lit_test_meets_every_operation_and_type() -> None:
    texts = [(FOLDER / name).read_text(encoding="utf-8") for name in EVERY]
    text = "".join(t.partition("builtin.module")[2] for t in texts)
    missing = [op.name for op in OPERATIONS if f"{op.name} " not in text]
    missing += [t.name for t in STAGE.attributes if f"!{t.name}" not in text]
    assert not missing


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_an_operation_says_what_it_does_to_memory(op: type[IRDLOperation]) -> None:
    """One without rows that is not pure would be unknown to every analysis; one with regions is made of theirs."""
    definition = op.get_irdl_definition()
    assert op.has_trait(Effects) or op.has_trait(Pure) or definition.regions, (
        f"{op.name} says nothing"
    )
    assert not (op.has_trait(Effects) and op.has_trait(Pure))
    assert not op.has_trait(IsTerminator) or op.name == "stage.yield"


def test_who_executes_is_the_class_s_unless_the_property_says_otherwise() -> None:
    plain = Tcgen05FenceOp.create(properties={"side": StringAttr("x"), "id": StringAttr("y")})
    assert plain.executed_by is By.ALL
    plain.by = StringAttr("one")
    assert plain.executed_by is By.ONE
    assert BulkCommitOp.create(properties={"id": StringAttr("y")}).executed_by is By.ONE
    assert ConstOp not in {op for op in OPERATIONS if issubclass(op, StageOp)}
    assert YieldOp.create().executed_by is None

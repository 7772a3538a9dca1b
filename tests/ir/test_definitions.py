"""Definitions: what passes at a glance is what xDSL's own verifier takes, and what it refuses is refused in its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i32, i64
from xdsl.ir import Region
from xdsl.irdl import (
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    RangeOf,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import _glance, irdl_op_definition  # pyright: ignore[reportPrivateUsage]
from tkc.ir.syntax import Operation


class _Heard(OpTrait):
    """Refuses an operation that carries the attribute `trait`."""

    def verify(self, op: Any) -> None:
        if "trait" in op.attributes:
            raise VerifyException("the trait says no")


@irdl_op_definition
class Plain(Operation):
    """One operand, then any number; a property, and one that may be left out."""

    name = "t.plain"
    first = operand_def(IntegerType)
    rest = var_operand_def(IntegerType)
    number = prop_def(IntegerAttr)
    note = opt_prop_def(StringAttr)
    out = result_def(IntegerType)
    traits = traits_def(_Heard())

    def verify_(self) -> None:
        if "own" in self.attributes:
            raise VerifyException("its own check says no")


@irdl_op_definition
class Three(Operation):
    """A length that is no count of operands."""

    name = "t.three"
    values = var_operand_def(RangeOf(BaseAttr(IntegerType)).of_length(3))


@irdl_op_definition
class Either(Operation):
    """A constraint that is more than a class."""

    name = "t.either"
    value = operand_def(EqAttrConstraint(i32))


@irdl_op_definition
class Maybe(Operation):
    """An operand that may be left out."""

    name = "t.maybe"
    value = opt_operand_def(IntegerType)
    out = var_result_def(IntegerType)


class Mixed(IRDLOperation):
    """Parts that operations may share."""

    mixed = result_def(IntegerType)
    base = opt_prop_def(IntegerAttr)


def plain(count: int = 2, **changes: Any) -> Plain:
    source = Maybe.create(result_types=[i32])
    parts: dict[str, Any] = {
        "operands": [source.out[0]] * count,
        "result_types": [i32],
        "properties": {"number": IntegerAttr(1, i32)},
    }
    return Plain.create(**{**parts, **changes})


def test_what_is_plain() -> None:
    assert _glance(Plain).plain
    assert not any(_glance(kind).plain for kind in (Three, Either, Maybe))
    for count in (1, 2, 5):
        plain(count).verify()
    op = plain(3, properties={"number": IntegerAttr(1, i64), "note": StringAttr("x")})
    op.verify()
    assert op.first is op.operands[0]
    assert [*op.rest] == [*op.operands][1:]
    assert op.out is op.results[0]


WRONG: dict[str, Callable[[], Operation]] = {
    "no operand": lambda: plain(0),
    "an operand of another type": lambda: Plain.create(
        operands=[Plain.create(result_types=[StringAttr("t")]).results[0]],
        result_types=[i32],
        properties={"number": IntegerAttr(1, i32)},
    ),
    "no result": lambda: plain(result_types=[]),
    "two results": lambda: plain(result_types=[i32, i32]),
    "a result of another type": lambda: plain(result_types=[StringAttr("t")]),
    "no property": lambda: plain(properties={}),
    "a property of another class": lambda: plain(properties={"number": StringAttr("1")}),
    "an optional property of another class": lambda: plain(
        properties={"number": IntegerAttr(1, i32), "note": IntegerAttr(1, i32)}
    ),
    "a property that nobody knows": lambda: plain(
        properties={"number": IntegerAttr(1, i32), "other": StringAttr("1")}
    ),
    "a region": lambda: plain(regions=[Region()]),
    "what a trait refuses": lambda: plain(attributes={"trait": StringAttr("")}),
    "two values instead of three": lambda: Three.create(
        operands=Maybe.create(result_types=[i32, i32]).results
    ),
    "two values instead of one or none": lambda: Maybe.create(
        operands=Maybe.create(result_types=[i32, i32]).results
    ),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_in_xdsls_words(make: Callable[[], Operation]) -> None:
    op = make()
    with pytest.raises(VerifyException) as theirs:
        op.get_irdl_definition().verify(op)
    with pytest.raises(VerifyException) as ours:
        op.verify_()
    assert str(ours.value) == str(theirs.value)


def test_an_operations_own_check_is_asked() -> None:
    with pytest.raises(VerifyException, match="its own check says no"):
        plain(attributes={"own": StringAttr("")}).verify_()


def test_an_operation_is_defined_when_it_is_first_asked() -> None:
    @irdl_op_definition
    class Late(Mixed, Operation):
        """Parts of its own and of a base."""

        name = "t.late"
        first = operand_def(IntegerType)
        note = opt_prop_def(StringAttr)
        traits = traits_def(_Heard())

    source, undefined = Maybe.create(result_types=[i32]), vars(Late)["first"]
    op = Late.create(operands=[source.out[0]], result_types=[i32])
    op.note = StringAttr("x")
    assert vars(Late)["first"] is not undefined
    assert undefined.__get__(op, Late) is op.first is source.out[0]  # as another thread may read it
    assert (op.note, op.mixed, op.base) == (StringAttr("x"), op.results[0], None)
    assert Late.has_trait(_Heard)
    assert [name for name, _ in Late.get_irdl_definition().results] == ["mixed"]
    assert Late.get_irdl_definition() is op.get_irdl_definition()
    op.verify()


def test_every_operation_can_be_defined() -> None:
    from tkc.ir import DIALECTS

    kinds = [kind for load in DIALECTS.values() for kind in load().operations]
    for kind in kinds:
        if issubclass(kind, IRDLOperation):
            assert kind.get_irdl_definition().name == kind.name

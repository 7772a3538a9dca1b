"""Register types: text, identity, names and parts."""

from __future__ import annotations

import copy

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tkc.ir import context
from tkc.ir.ptx.emit import kernel
from tkc.ir.ptx.registers import PREFIXES, WIDTHS, Registers, RegisterType, reg, retype, type_of

CONTEXT = context()


def parse(text: str) -> RegisterType:
    type = Parser(CONTEXT, text).parse_type()
    assert isinstance(type, RegisterType)
    return type


@pytest.mark.parametrize(
    ("text", "type"),
    [
        *((f"!ptx.reg<{kind}>", reg(kind)) for kind in PREFIXES),
        ("!ptx.reg<f32 x 128>", reg("f32", 128)),
        ("!ptx.reg<b32 x 1>", reg("b32", 1)),
        ("!ptx.reg<b32, 12>", reg("b32", 0, 12)),
        ("!ptx.reg<f32 x 32, 0>", reg("f32", 32, 0)),
        ("!ptx.reg<f32 x 32, 1 step 2>", reg("f32", 32, 1, 2)),
    ],
)
def test_text_and_back(text: str, type: RegisterType) -> None:
    assert str(type) == text
    assert parse(text) is type


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!ptx.reg<i32>", "no register class i32: one of pred, b8"),
        ("!ptx.reg<f32 x 0>", "at least one register"),
        ("!ptx.reg<f32 x -2>", "Expected"),
        ("!ptx.reg<f32 x 4, 1 step 1>", "at least 2"),
        ("!ptx.reg<f32, 1 step 2>", "'>' expected"),
        ("!ptx.reg<>", "identifier"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(text)


def test_an_unknown_class_is_no_type() -> None:
    with pytest.raises(VerifyException, match="no register class i32"):
        reg("i32")


def test_one_object_for_each_type() -> None:
    assert reg("b32") is RegisterType(Registers("b32")) is RegisterType.new(Registers("b32"))
    assert copy.deepcopy(reg("b32", 4)) == reg("b32", 4)
    assert reg("b32") != reg("b32", 1)
    assert WIDTHS.keys() == PREFIXES.keys()


def test_names() -> None:
    assert reg("b64", 0, 3).names == ("%rd3",)
    assert reg("b64", 0, 3).text == "%rd3"
    assert reg("f32", 3, 1, 2).names == ("%f1", "%f3", "%f5")
    assert reg("f32", 3, 1, 2).text is None
    assert reg("f32", 3, 1, 2).top == 6
    assert reg("pred", 0, 0).top == 1
    assert not reg("f32", 3).named
    assert reg("f32", 3, 0).named


def test_parts() -> None:
    whole = reg("f32", 8)
    assert whole.part(3, 0, 1) is reg("f32")
    assert whole.part(0, 4, 2) is reg("f32", 4)
    named = whole.with_base(10)
    assert named is reg("f32", 8, 10)
    assert named.unnamed() is whole
    assert named.part(3, 0, 1).names == ("%f13",)
    assert named.part(1, 4, 2).names == ("%f11", "%f13", "%f15", "%f17")
    # A part of a part: every other one of every other one.
    assert named.part(1, 4, 2).part(1, 2, 2).names == ("%f13", "%f17")
    assert named.part(1, 1, 1) is reg("f32", 1, 11)


def test_retype_changes_a_value_in_place() -> None:
    _, emit = kernel("k", reqntid=32)
    value = emit.undef("b32")
    emit.add(".u32", value, value)
    retype(value, reg("b32", 0, 7))
    assert type_of(value).text == "%r7"
    assert value.uses.get_length() == 2

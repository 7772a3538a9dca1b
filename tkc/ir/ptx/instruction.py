"""The base of every PTX instruction, and the class of each, made from its row when it is first used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    OpDef,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tkc.ir.effects import Effects
from tkc.ir.isa.instructions import Row
from tkc.ir.isa.memory import Effect
from tkc.ir.ptx.families import family_of, find
from tkc.ir.ptx.registers import WIDTHS, RegisterType, type_of
from tkc.ir.ptx.shape import Shape, Spelling
from tkc.ir.ptx.values import ImmOp, is_constant
from tkc.ir.syntax import SEGMENTS, Operation, checking_traits


class Instruction(Operation):
    """One PTX instruction, or, where operands are tuples and the row computes, one for each register of the tuples.

    Slots of the mnemonic and immediates are properties under the row's names; the offset of an address is the row's
    `offset` or `<operand>_offset`. Operands and results answer to the row's names as attributes.
    """

    name: ClassVar[str] = "ptx.instruction"
    ROW: ClassVar[Row]
    SHAPE: ClassVar[Shape]

    def __post_init__(self) -> None:
        """No property has a default, so nothing is filled in."""

    @classmethod
    def get_irdl_definition(cls) -> OpDef:
        """Made on first need: compiling needs none, reading the generic form and cloning tools do."""
        found = cls.__dict__.get("DEFINITION")
        if found is None:
            found = _definition(cls)
            setattr(cls, "DEFINITION", found)  # noqa: B010
        return found

    @classmethod
    def takes_operands(cls) -> bool:
        return bool(cls.SHAPE.operands)

    def __getattr__(self, name: str) -> Any:
        shape = self.SHAPE
        if name in shape.operands:
            group = self.group(name)
            if name in shape.lists:
                return group
            return group[0] if group else None
        if name in shape.results:
            if name in shape.lists and len(self.results) != len(shape.results):
                return self.results
            return self.results[shape.results.index(name)]
        if name in shape.slots or name in shape.immediates:
            return self.properties.get(name)
        raise AttributeError(f"{self.name} has no {name}")

    @property
    def modifiers(self) -> dict[str, str]:
        """The texts of the slots that are filled."""
        get = self.properties.get
        found = ((slot, get(slot)) for slot in self.SHAPE.slots)
        return {slot: text.data for slot, text in found if isinstance(text, StringAttr)}

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What this very instruction does to memory: its row's effects, in the space that its modifiers say."""
        return self.ROW.effects_with(self.modifiers)

    @property
    def spelling(self) -> Spelling:
        """The mnemonic with what it needs; ValueError where the modifiers are not those of the row."""
        shape, get = self.SHAPE, self.properties.get
        texts = tuple([None if (p := get(s)) is None else p.data for s in shape.slots])  # pyright: ignore
        return shape.spellings.get(texts) or shape.spelling(texts)  # pyright: ignore

    def sizes(self) -> tuple[int, ...]:
        """How many operands each name of the shape has here; ValueError where they cannot be told."""
        shape = self.SHAPE
        total = len(self._operands)
        if shape.segmented:
            given = self.properties.get(SEGMENTS)
            if not isinstance(given, DenseArrayBase):
                raise ValueError(f"needs {SEGMENTS}")
            sizes = tuple(given.get_values())
            if len(sizes) != len(shape.operands) or sum(sizes) != total:
                raise ValueError(f"has {total} operands, but segments {list(sizes)}")
            return sizes  # pyright: ignore[reportReturnType]
        spare = total - len(shape.operands) + len(shape.variable)
        sizes = tuple(spare if n in shape.variable else 1 for n in shape.operands)
        if spare < 0 or sum(sizes) != total:
            raise ValueError(f"takes {', '.join(shape.operands) or 'no operands'}, but has {total}")
        return sizes

    def groups(self) -> Iterator[tuple[str, tuple[SSAValue, ...]]]:
        """Each operand name with its values."""
        start, operands = 0, self._operands
        for name, size in zip(self.SHAPE.operands, self.sizes(), strict=True):
            yield name, operands[start : start + size]
            start += size

    def group(self, name: str) -> tuple[SSAValue, ...]:
        """The values of one operand: none or one of an optional, any number of a list."""
        return next(values for found, values in self.groups() if found == name)

    def named(self) -> Iterator[tuple[str, tuple[SSAValue, ...]]]:
        """Each result name and each operand name with its values, results first."""
        shape = self.SHAPE
        if len(shape.results) == 1:
            yield shape.results[0], self.results
        else:
            yield from ((n, (v,)) for n, v in zip(shape.results, self.results, strict=True))
        yield from self.groups()

    def lines(self, spelling: Spelling) -> list[str]:
        """The instruction as text without the semicolon, one line for each register where it maps over tuples."""
        shape = self.SHAPE
        mnemonic = spelling.mnemonic
        if shape.plain is not None:
            # The common case: nothing optional, and one register each unless all are tuples.
            text, holes = shape.plain
            values = (*self.results, *self._operands)
            count = 0
            texts: list[Any] = []
            for place, offset in holes:
                type: Any = values[place].type
                name = type.text
                if name is None:
                    if type.count:
                        count, name = type.count, register_names(values[place])
                    else:
                        name = register_text(values[place])
                if offset and not type.count:
                    name += _plus(self.properties.get(offset))
                texts.append(name)
        else:
            given, count = self._texts()
            optional = shape.optional
            present = frozenset([n for n in optional if n in given]) if optional else optional
            template = shape.template(present)
            text = f" {template.text}" if template.text else ""
            texts = [given[n] for n in template.names]
        if not count:
            return [mnemonic + text % tuple(texts)]
        line = mnemonic + text
        columns = [t if t.__class__ is tuple else (t,) * count for t in texts]
        return [line % row for row in zip(*columns, strict=True)]

    def _texts(self) -> tuple[dict[str, Any], int]:
        """Each operand's text, or its names where the instruction maps over them; and how many lines that makes."""
        shape, properties = self.SHAPE, self.properties
        texts: dict[str, Any] = {}
        count = 0
        for name, values in self.named():
            if name in shape.lists:
                if values:
                    texts[name] = ", ".join([n for v in values for n in register_names(v)])
                continue
            if not values:
                continue
            value = values[0]
            if name in shape.tuples:
                texts[name] = f"{{{', '.join(register_names(value))}}}"
                continue
            if type_of(value).count:
                count = type_of(value).count
                texts[name] = register_names(value)
                continue
            text = register_text(value)
            if name in shape.addresses and not shape.own_offset:
                text += _plus(properties.get(f"{name}_offset"))
            texts[name] = text
        for name in shape.immediates:
            if name in properties:
                texts[name] = _immediate(properties[name])
        return texts, count

    def verify_(self) -> None:
        try:
            spelling = self.spelling
            if not _plainly_right(self, spelling):
                self.sizes()
                _verify(self, spelling)
        except ValueError as error:
            raise VerifyException(str(error)) from None
        for trait in checking_traits(self.__class__):
            trait.verify(self)


def register_text(value: SSAValue) -> str:
    """The name of a single register, or the constant that stands for it."""
    text = type_of(value).text
    if text is not None:
        return text
    owner = value.owner
    if type(owner) is ImmOp:
        return owner.text
    raise ValueError(f"a value of type {value.type} has no name yet")


def register_names(value: SSAValue) -> tuple[str, ...]:
    """The names of a tuple's registers, or the one of a single register."""
    type = type_of(value)
    if type.count:
        if not type.named:
            raise ValueError(f"a value of type {type} has no names yet")
        return type.names
    return (register_text(value),)


def _plus(offset: Attribute | None) -> str:
    """What an offset adds to the text of an address."""
    return f"+{offset.value.data}" if isinstance(offset, IntegerAttr) and offset.value.data else ""


def _immediate(attribute: Attribute) -> str:
    if isinstance(attribute, IntegerAttr):
        return str(attribute.value.data)
    if isinstance(attribute, StringAttr):
        return attribute.data
    raise ValueError(f"{attribute} is no immediate")


def _fits(actual: RegisterType, expected: str, type: str, wider: bool) -> bool:
    """Whether ptxas takes a register of this class: untyped `.b32` holds anything of its width (PTX 5.2.1, 9.4.1)."""
    kind = actual.kind
    if not expected or kind == expected:
        return True
    if "pred" in (kind, expected):
        return False
    same = WIDTHS[kind] == WIDTHS[expected]
    if (type.startswith(".b") and type[2:].isdigit()) or expected in ("f32", "f64"):
        return same or (wider and WIDTHS[kind] > WIDTHS[expected])
    return kind.startswith("b") and (same or (wider and WIDTHS[kind] > WIDTHS[expected]))


def _plainly_right(op: Instruction, spelling: Spelling) -> bool:
    """Whether `_verify` would find nothing, told at a glance: most take one register each, or tuples, of their type."""
    shape, results, properties = op.SHAPE, op.results, op.properties
    if not shape.fixed or len(results) != len(shape.results) or shape.tied:
        return False
    values, kinds = (*results, *op._operands), spelling.plain_kinds
    if len(values) != len(kinds) or not properties.keys() <= shape.properties:
        return False
    count = 0
    for value, kind in zip(values, kinds, strict=True):
        type: Any = value._type  # pyright: ignore[reportPrivateUsage]
        if type.__class__ is not RegisterType or (kind and type.kind != kind):
            return False
        if type.count and type.count != count:
            if count or not shape.maps:
                return False
            count = type.count
    if count and not all([type_of(result).count for result in results]):
        return False
    return all([properties[n].__class__ is IntegerAttr for n in shape.offsets if n in properties])


def _verify(op: Instruction, spelling: Spelling) -> None:
    shape, properties = op.SHAPE, op.properties
    if len(op.results) != len(shape.results) and not (
        len(shape.results) == 1 and shape.results[0] in shape.lists and op.results
    ):
        raise VerifyException(f"has {len(op.results)} results instead of {len(shape.results)}")
    wider = shape.row.name in family_of(shape.row.name).WIDER
    count = 0
    given = dict(op.named())
    for name, values in given.items():
        registers = 0
        for value in values:
            type = value.type
            if not isinstance(type, RegisterType):
                raise VerifyException(f"{name} is a {type}, not a register")
            registers += type.count or 1
            if not is_constant(value) and not _fits(
                type,
                spelling.kinds[name],
                spelling.types.get(name, ""),
                wider and name in spelling.types,
            ):
                raise VerifyException(
                    f"{name} is in {type.kind}, but {spelling.mnemonic} takes {spelling.kinds[name]}"
                )
            if name in shape.tuples:
                if not type.count:
                    raise VerifyException(f"{name} is a tuple of registers, not one")
            elif type.count and name not in shape.lists:
                if not shape.maps:
                    raise VerifyException(f"{name} is one register, not a tuple")
                if count not in (0, type.count):
                    raise VerifyException(
                        f"{name} has {type.count} registers, but another has {count}"
                    )
                count = type.count
        if not values and name in shape.lists and name not in shape.optional:
            raise VerifyException(f"{name} is an empty list")
        if not values and name not in shape.lists and name not in shape.optional:
            raise VerifyException(f"{name} is missing")
        if len(values) > 1 and name not in shape.lists:
            raise VerifyException(f"{name} is one operand, not {len(values)}")
        expected = spelling.counts.get(name, registers)
        if values and registers != expected:
            raise VerifyException(
                f"{name} has {registers} registers, but {spelling.mnemonic} takes {expected}"
            )
    if count and any(not type_of(r).count for r in op.results):
        raise VerifyException(f"the result is one register, but the operands have {count}")
    for result, operand in shape.tied.items():
        if given[result][0].type != given[operand][0].type:
            raise VerifyException(f"{result} and {operand} share registers, but not a type")
    for name, value in properties.items():
        if name not in shape.properties:
            known = ", ".join(sorted(shape.properties)) or "none"
            raise VerifyException(f"has no property {name}; it has {known}")
        if name in shape.offsets and not isinstance(value, IntegerAttr):
            raise VerifyException(f"{name} is a number of bytes, not {value}")
        if name in shape.immediates and not isinstance(value, IntegerAttr | StringAttr):
            raise VerifyException(f"{name} is an immediate, not {value}")
    for name in shape.immediates:
        if name not in properties and name not in shape.optional:
            raise VerifyException(f"{name} is missing")


def _definition(cls: type[Instruction]) -> OpDef:
    """The IRDL definition of an instruction, for the tools of xDSL that ask for one."""
    shape = cls.SHAPE
    fields: dict[str, Any] = {"name": cls.name, "__annotations__": {}}
    for name in shape.operands:
        define = (
            var_operand_def
            if name in shape.lists
            else opt_operand_def
            if name in shape.optional
            else operand_def
        )
        fields[name] = define(RegisterType)
    for name in shape.results:
        define = var_result_def if name in shape.lists else result_def
        fields[name] = define(RegisterType)
    for slot in shape.slots:
        fields[slot] = opt_prop_def(StringAttr)
    for name in sorted({*shape.immediates} - shape.offsets):
        fields[name] = opt_prop_def(Attribute)
    for name in sorted(shape.offsets):
        fields[name] = opt_prop_def(IntegerAttr)
    if shape.segmented:
        fields["irdl_options"] = (AttrSizedOperandSegments(as_property=True),)
    definition = OpDef.from_pyrdl(type(cls.__name__, (Operation,), fields))
    definition.traits = cls.traits
    return definition


_classes: dict[str, type[Instruction]] = {}


def op_name(row_name: str) -> str:
    """The operation of a row: `tcgen05.wait::ld` is `ptx.tcgen05.wait_ld`, since IR names have no colons."""
    return f"ptx.{row_name.replace('::', '_')}"


def instruction(row_name: str) -> type[Instruction]:
    """The class of the row called `row_name`, the same one every time; KeyError where there is no such row."""
    found = _classes.get(row_name)
    if found is None:
        row = find(row_name)
        traits = [Effects(*row.effects)] if row.effects else [Pure()] if row.pure else []
        found = type(
            "".join(
                part.capitalize() for part in op_name(row_name)[4:].replace("_", ".").split(".")
            ),
            (Instruction,),
            {
                "__doc__": f"{row.doc}\n\n`{row.mnemonic} {row.syntax}` (PTX {row.section}).",
                "name": op_name(row_name),
                "ROW": row,
                "SHAPE": Shape(row),
                "traits": traits_def(*traits),
            },
        )
        _classes[row_name] = found
    return found

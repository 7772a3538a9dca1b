"""The syntax tree of PTX text: operands, statements, variables, functions and modules, with their lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, variable, label or function; `offset` bytes further for a variable."""

    text: str
    offset: int = 0
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """An immediate: `kind` is "int" (value), "f32" or "f64" (value = bits), or "decimal" (text of a decimal float)."""

    kind: str
    value: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, c}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`, or `[map, {c0, c1}]`, or `[a, b]`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`p|q`."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)` of a call."""

    items: tuple[Operand, ...]


Operand = Name | Number | Vector | Address | Pair | Group


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register: `bits` is 1 for a predicate; `index` counts over the whole function."""

    name: str
    type: str
    bits: int
    index: int


@dataclass(slots=True)
class Variable:
    """A variable of a state space: `size` bytes (0 = unsized, as of dynamic shared memory), `data` its initial bytes.

    `references` are (byte offset, width, name, addend) for initial values that are addresses.
    """

    name: str
    space: str
    align: int
    size: int
    line: int
    type: str = ""
    data: bytes = b""
    extern: bool = False
    pointer: bool = False
    references: tuple[tuple[int, int, str, int], ...] = ()


@dataclass(slots=True)
class Scope:
    """What one pair of braces declares; names are looked up outwards."""

    parent: Scope | None = None
    registers: dict[str, Register] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def outwards(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def label(self, name: str) -> int | None:
        """The index of the statement after the label, None where there is no such label."""
        for scope in self.outwards():
            if name in scope.labels:
                return scope.labels[name]
        return None

    def variable(self, name: str) -> Variable | None:
        for scope in self.outwards():
            if name in scope.variables:
                return scope.variables[name]
        return None

    def table(self, name: str) -> tuple[str, ...] | None:
        """The labels of a `.branchtargets` list."""
        for scope in self.outwards():
            if name in scope.tables:
                return scope.tables[name]
        return None


@dataclass(slots=True)
class Statement:
    """One instruction: `guard` is (predicate, negated); `place` is (file, line, column) of the last `.loc`."""

    line: int
    mnemonic: str
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None
    scope: Scope
    place: tuple[int, int, int] | None = None


@dataclass(slots=True)
class Function:
    """An `.entry` or `.func`: parameters in order, directives such as `reqntid`, statements and what they declare."""

    name: str
    entry: bool
    line: int
    params: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)
    variables: list[Variable] = field(default_factory=list)
    registers: int = 0
    defined: bool = False


@dataclass(slots=True)
class Module:
    """A PTX file."""

    version: tuple[int, int] = (0, 0)
    target: str = ""
    address_size: int = 64
    scope: Scope = field(default_factory=Scope)
    variables: list[Variable] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)

    @property
    def entries(self) -> list[str]:
        return [f.name for f in self.functions.values() if f.entry and f.defined]

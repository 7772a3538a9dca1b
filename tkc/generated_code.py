"""Code that Python writes for dataclasses and named tuples, and makes of annotations and regular expressions: compiled
once and kept where bytecode is kept.

`dataclasses`, `collections`, `typing` and `re` compile such texts anew in every process: some 2,000, most of them
xDSL's, and a fifth of a compilation that starts cold. Here a text that an earlier process has compiled is not compiled
again. A text is its own key, so what is kept cannot be out of date; the file stands beside this module's bytecode and,
as bytecode, is of one version of Python, and not written where Python writes none.
"""

from __future__ import annotations

import abc
import builtins
import collections
import dataclasses
import importlib.util
import inspect
import marshal
import os
import re
import sys
import typing
from _thread import get_ident
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from types import CellType, CodeType, FunctionType, MemberDescriptorType
from typing import Any

_MOST = 8 << 20
"""Bytes beyond which the file begins anew: the texts of classes that are no more stay in it otherwise."""


class GeneratedCode:
    """The compiled texts of one file: by kind and text what `marshal` makes of them, read when it is asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: dict[tuple[object, ...], bytes] = _read(path)
        self.added = False
        self.rests = False

    def code(self, text: str, mode: str) -> CodeType:
        """A text's code, from the file where it has it."""
        kept = self.known.get((mode, text))
        if kept is not None:
            return marshal.loads(kept)
        code: CodeType = compile(text, "<string>", mode, dont_inherit=True)
        self.add((mode, text), code)
        return code

    def function(self, text: str) -> CodeType:
        """The code of the function that a text defines, and does no more."""
        kept = self.known.get(("function", text))
        if kept is not None:
            return marshal.loads(kept)
        whole: CodeType = compile(text, "<string>", "exec", dont_inherit=True)
        (code,) = (part for part in whole.co_consts if isinstance(part, CodeType))
        self.add(("function", text), code)
        return code

    @contextmanager
    def resting(self) -> Generator[None]:
        """What is compiled here is not kept: something made of it is."""
        self.rests = True
        try:
            yield
        finally:
            self.rests = False

    def add(self, key: tuple[object, ...], made: Any) -> None:
        if not self.rests:
            self.known[key] = marshal.dumps(made)
            self.added = True

    def write(self) -> None:
        """Adds what is new to the file, whole or not at all; says nothing where that cannot be."""
        if not self.added or sys.dont_write_bytecode:
            return
        data = marshal.dumps(self.known)
        if len(data) > _MOST:
            return _remove(self.path)
        part = f"{self.path}.{os.getpid()}"
        try:
            with open(part, "wb") as file:
                file.write(_head(data) + data)
            os.replace(part, self.path)
        except OSError:
            _remove(part)


def keep() -> GeneratedCode | None:
    """From here on Python's modules take code from the file; None where Python keeps no bytecode."""
    if not sys.implementation.cache_tag:  # then it names no place either
        return None
    path = importlib.util.cache_from_source(__file__)
    found = GeneratedCode(f"{path.removesuffix('.pyc')}.code")

    def define(text: str, outer: dict[str, Any], space: dict[str, Any]) -> None:
        code = found.function(text)
        space[code.co_name] = FunctionType(code, outer)

    def evaluate(text: Any, *spaces: Any) -> Any:
        return builtins.eval(found.code(text, "eval") if isinstance(text, str) else text, *spaces)

    def annotation(text: Any, file: str, mode: str, *more: Any) -> Any:
        if isinstance(text, str) and file == "<string>" and not more:
            return found.code(text, mode)
        return builtins.compile(text, file, mode, *more)

    # A module's own global stands before the builtin of its name; where a module asks for neither, nothing changes.
    vars(dataclasses)["exec"] = define
    vars(collections)["eval"] = evaluate
    vars(typing)["compile"] = annotation
    vars(dataclasses)["inspect"] = _Inspect()
    vars(dataclasses)["_is_type"] = _is_type
    if sys.version_info < (3, 13):  # later ones do more with a class
        _TYPING.NamedTupleMeta.__new__ = _named_tuple
    if sys.version_info[:2] == DATACLASSES_OF:
        vars(dataclasses)["_process_class"] = partial(_dataclass, found)
    _keep_patterns(found)
    return found


class _Inspect:
    """`inspect` as `dataclasses` asks it, which composes the signature of each class without a docstring as its own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(inspect, name)

    def signature(self, kind: type) -> str:
        return ""


_DATACLASSES: Any = dataclasses
_marked: Any = _DATACLASSES._is_type


def _may_be_mark(annotation: str) -> bool:
    """Whether an annotation may be one of the three that name no field's type: ClassVar, InitVar and KW_ONLY."""
    return "ClassVar" in annotation or "InitVar" in annotation or "KW_ONLY" in annotation


def _is_type(annotation: str, *rest: Any) -> bool:
    """`dataclasses` asks of each annotation whether it is one of three marks, and few look like one."""
    return _may_be_mark(annotation) and _marked(annotation, *rest)


DATACLASSES_OF = (3, 11)
"""The Python whose way of making a dataclass `_dataclass` follows; with others `dataclasses` makes each anew."""
_make_dataclass: Any = _DATACLASSES._process_class
_MAKE_FIELD: Any = Field
_PARAMETERS: Any = _DATACLASSES._DataclassParams
_FIELD, _CLASS_VARIABLE = _DATACLASSES._FIELD, _DATACLASSES._FIELD_CLASSVAR
_METHODS = ("__init__", "__repr__", "__eq__", "__setattr__", "__delattr__", "__hash__")


def _dataclass(found: GeneratedCode, cls: Any, *how: Any) -> Any:
    """A dataclass as `dataclasses` makes it, of the methods that it has made for fields of these names before.

    Names, which of them have defaults, and `how` are all that the methods' code is made of; defaults and annotations
    are put in here. Rarer things are left to `dataclasses` itself, and so is all that is wrong.
    """
    order, unsafe_hash, frozen, match_args, kw_only, slots, weakref_slot = how[3:]
    fields = None if order or unsafe_hash or kw_only else _fields(cls, frozen)
    if fields is None:
        return _make_dataclass(cls, *how)
    space = cls.__dict__
    told = [
        (n, f.init, f.repr, f.compare, f.hash, f.default is MISSING, f.default_factory is MISSING)
        if f._field_type is _FIELD
        else n
        for n, f in fields.items()
    ]
    written = [name in space for name in _METHODS]
    if written[-1] and space["__hash__"] is None:  # Python puts it there beside an `__eq__`
        written[-1] = not written[2]
    key = (sys.hexversion, how, (*written,), hasattr(cls, "__post_init__"), (*told,))
    kept = found.known.get(key)
    if kept is None:
        with found.resting():
            made = _make_dataclass(cls, *how)
        found.add(key, _codes(made, written))
        return made
    for name in space.get("__annotations__", ()):
        if type(space.get(name)) is Field:
            if fields[name].default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, fields[name].default)
    cls.__dataclass_params__ = _PARAMETERS(*how[:6])
    cls.__dataclass_fields__ = fields
    _add_methods(cls, marshal.loads(kept), fields)
    if not cls.__doc__:
        cls.__doc__ = cls.__name__
    if match_args and "__match_args__" not in space:
        cls.__match_args__ = tuple([f.name for f in _asked(fields)])
    if slots:
        cls = _DATACLASSES._add_slots(cls, frozen, weakref_slot)
    return abc.update_abstractmethods(cls)


def _fields(cls: Any, frozen: bool) -> dict[str, Any] | None:
    """The fields by name, those of the bases first; None where there is more to a class than plain fields."""
    fields: dict[str, Any] = {}
    field: Any
    above: list[bool] = []
    for base in cls.__mro__[-1:0:-1]:
        theirs = getattr(base, "__dataclass_fields__", None)
        if theirs is not None:
            fields.update(theirs)
            above.append(base.__dataclass_params__.frozen)
    if above and any(above) != frozen:
        return None
    space = cls.__dict__
    given = 0
    for name, kind in space.get("__annotations__", {}).items():
        if not isinstance(kind, str) or _may_be_mark(kind):
            return None
        default = getattr(cls, name, MISSING)
        if type(default) is Field:
            field, given = default, given + 1
        else:
            if isinstance(default, MemberDescriptorType):
                default = MISSING
            field = _MAKE_FIELD(default, MISSING, True, True, None, True, None, False)
        field.name, field.type, field._field_type = name, kind, _FIELD
        if field.kw_only is MISSING:
            field.kw_only = False
        if type(field.default).__hash__ is None:
            return None
        fields[name] = field
    if [*map(type, space.values())].count(Field) != given:
        return None
    others = (f for f in fields.values() if f._field_type is not _FIELD or f.kw_only)
    return fields if all(f._field_type is _CLASS_VARIABLE for f in others) else None


def _asked(fields: dict[str, Any]) -> list[Any]:
    """The fields that are arguments of the class."""
    return [f for f in fields.values() if f.init and f._field_type is _FIELD]


def _codes(made: type, written: Sequence[bool]) -> list[tuple[str, CodeType | None]]:
    """The methods that a dataclass got beside those that were written, with the code of those in which fields have
    their own places; the others are the same for all classes.
    """
    space = vars(made)
    names = [n for n, known in zip(_METHODS, written, strict=True) if n in space and not known]
    return [(n, getattr(space[n], "__code__", None) if n not in _SAME else None) for n in names]


def _add_methods(
    cls: Any, codes: list[tuple[str, CodeType | None]], fields: dict[str, Any]
) -> None:
    module, qualname = sys.modules.get(cls.__module__), cls.__qualname__
    outer = module.__dict__ if module else {}
    for name, code in codes:
        if code is None:
            same = _SAME.get(name)
            made = same(cls, fields) if same is not None else None
            if made is not None:
                made.__module__ = cls.__module__
        elif name == "__init__":
            made = _init(code, outer, fields)
        else:
            made = FunctionType(code, outer)
        if made is not None:
            made.__qualname__ = f"{qualname}.{name}"
        setattr(cls, name, made)


def _init(code: CodeType, outer: dict[str, Any], fields: dict[str, Any]) -> Any:
    cells: list[Any] = []
    for name in code.co_freevars:
        if name in _OUTER:
            cells.append(CellType(_OUTER[name]))
        else:
            field = fields[name.removeprefix("_dflt_")]
            given = field.default_factory if field.default is MISSING else field.default
            cells.append(CellType(given))
    asked = _asked(fields)
    factory = _DATACLASSES._HAS_DEFAULT_FACTORY
    defaults = [
        factory if f.default is MISSING else f.default
        for f in asked
        if f.default is not MISSING or f.default_factory is not MISSING
    ]
    made = FunctionType(code, outer, "__init__", (*defaults,) or None, (*cells,) or None)
    made.__annotations__ = {**{f.name: f.type for f in asked}, "return": None}
    return made


_OUTER = {
    "_HAS_DEFAULT_FACTORY": _DATACLASSES._HAS_DEFAULT_FACTORY,
    "__dataclass_builtins_object__": object,
}
"""What the text round an `__init__` names beside the fields' defaults."""


def _repr(_: type, fields: dict[str, Any]) -> Any:
    names = [f.name for f in fields.values() if f.repr and f._field_type is _FIELD]
    under_way: set[tuple[int, int]] = set()

    def __repr__(self: Any) -> str:
        here = id(self), get_ident()
        if here in under_way:
            return "..."
        under_way.add(here)
        try:
            said = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        finally:
            under_way.discard(here)
        return f"{self.__class__.__qualname__}({said})"

    return __repr__


_above: Any = super


def _setattr(cls: Any, fields: dict[str, Any]) -> Any:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or _is_field(fields, name):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        _above(cls, self).__setattr__(name, value)

    return __setattr__


def _delattr(cls: Any, fields: dict[str, Any]) -> Any:
    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or _is_field(fields, name):
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        _above(cls, self).__delattr__(name)

    return __delattr__


def _is_field(fields: dict[str, Any], name: str) -> bool:
    return name in fields and fields[name]._field_type is _FIELD


_SAME = {"__repr__": _repr, "__setattr__": _setattr, "__delattr__": _delattr}
"""The methods that need no code for each class."""


_TYPING: Any = typing
_make_named_tuple: Any = _TYPING.NamedTupleMeta.__new__


def _named_tuple(meta: type, name: str, bases: tuple[Any, ...], space: dict[str, Any]) -> Any:
    """A class below `NamedTuple` alone, as `typing` makes it, but with its annotations as they are written, and with
    its base set once: setting it again is most of the work, for Python then looks for all that a class may define.
    """
    fields = space.get("__annotations__", {})
    given = [field for field in fields if field in space]
    defaults_last = [*fields][len(fields) - len(given) :] == given
    if len(bases) > 1 or not defaults_last or not _TYPING._prohibited.isdisjoint(space):
        return _make_named_tuple(meta, name, bases, space)
    defaults = [space[field] for field in given]
    made: Any = collections.namedtuple(name, fields, defaults=defaults, module=space["__module__"])
    made.__annotations__ = made.__new__.__annotations__ = fields
    for key, value in space.items():
        if key not in fields and key not in _TYPING._special:
            setattr(made, key, value)
    return made


class _Engine:
    """The engine of regular expressions, which says what it was last given."""

    def __init__(self, engine: Any) -> None:
        self.engine: Any = engine
        self.given: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def compile(self, pattern: Any, flags: int, code: list[int], *groups: Any) -> Any:
        self.given = flags, [int(word) for word in code], *groups  # without the names of words
        return self.engine.compile(pattern, flags, code, *groups)


def _keep_patterns(found: GeneratedCode) -> None:
    """Patterns of text go to the engine as it got them first; where this Python's `re` is made otherwise, as ever."""
    compiler: Any = getattr(re, "_compiler", None)
    translate, engine = getattr(compiler, "compile", None), getattr(compiler, "_sre", None)
    if translate is None or engine is None or isinstance(engine, _Engine):
        return
    told = _Engine(engine)

    def pattern(text: Any, flags: int = 0) -> Any:
        if not isinstance(text, str) or flags & re.DEBUG:
            return translate(text, flags)
        key = ("re", int(flags), text)
        kept = found.known.get(key)
        if kept is not None:
            return engine.compile(text, *marshal.loads(kept))
        made = translate(text, flags)
        found.add(key, told.given)
        return made

    vars(compiler).update(_sre=told, compile=pattern)


_FORM = 2
"""Of the keys: a file of another form begins anew, for nobody would ask for what it holds."""


def _head(data: bytes) -> bytes:
    """What must stand before the data: the bytecode's version, and a hash that half a file does not have."""
    return importlib.util.MAGIC_NUMBER + bytes([_FORM]) + importlib.util.source_hash(data)


def _read(path: str) -> dict[tuple[object, ...], bytes]:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return {}
    length = len(_head(b""))
    data = content[length:]
    return marshal.loads(data) if content[:length] == _head(data) else {}


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        pass

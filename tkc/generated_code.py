"""Code that Python writes for dataclasses and named tuples, and makes of annotations and regular expressions: compiled
once and kept where bytecode is kept.

`dataclasses`, `collections`, `typing` and `re` compile such texts anew in every process: some 2,000, most of them
xDSL's, and a fifth of a compilation that starts cold. Here a text that an earlier process has compiled is not compiled
again. A text is its own key, so what is kept cannot be out of date; the file stands beside this module's bytecode and,
as bytecode, is of one version of Python, and not written where Python writes none.
"""

from __future__ import annotations

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
from types import CodeType, FunctionType
from typing import Any

_MOST = 8 << 20
"""Bytes beyond which the file begins anew: the texts of classes that are no more stay in it otherwise."""


class GeneratedCode:
    """The compiled texts of one file: by kind and text what `marshal` makes of them, read when it is asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: dict[tuple[object, ...], bytes] = _read(path)
        self.added = False

    def code(self, text: str, mode: str) -> CodeType:
        """A text's code, from the file where it has it."""
        kept = self.known.get((mode, text))
        if kept is not None:
            return marshal.loads(kept)
        code: CodeType = compile(text, "<string>", mode)
        self.add((mode, text), code)
        return code

    def function(self, text: str) -> CodeType:
        """The code of the function that a text defines, and does no more."""
        kept = self.known.get(("def", text))
        if kept is not None:
            return marshal.loads(kept)
        (code,) = (
            c for c in compile(text, "<string>", "exec").co_consts if isinstance(c, CodeType)
        )
        self.add(("def", text), code)
        return code

    def add(self, key: tuple[object, ...], made: Any) -> None:
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
    _keep_patterns(found)
    return found


class _Inspect:
    """`inspect` as `dataclasses` asks it, which composes the signature of each class without a docstring as its own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(inspect, name)

    def signature(self, kind: type) -> str:
        return ""


_MARKS = ("ClassVar", "InitVar", "KW_ONLY")
_marked: Any = vars(dataclasses)["_is_type"]


def _is_type(annotation: str, *rest: Any) -> bool:
    """`dataclasses` asks of each annotation whether it is one of three marks, and few look like one."""
    return any(mark in annotation for mark in _MARKS) and _marked(annotation, *rest)


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


def _head(data: bytes) -> bytes:
    """What must stand before the data: the bytecode's version, and a hash that half a file does not have."""
    return importlib.util.MAGIC_NUMBER + importlib.util.source_hash(data)


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

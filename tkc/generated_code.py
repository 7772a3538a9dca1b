"""Code that Python writes for dataclasses and named tuples, compiled once and kept where bytecode is kept.

`dataclasses` and `collections` compose the text of such methods and compile it anew in every process: some 1,500 texts,
most of them xDSL's, and a fifth of a compilation that starts cold. Here a text that an earlier process has compiled
is not compiled again. A text is its own key, so what is kept cannot be out of date; the file stands beside this
module's bytecode and, as bytecode, is of one version of Python, and not written where Python writes none.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import importlib.util
import marshal
import os
import sys
from types import CodeType
from typing import Any

_MOST = 8 << 20
"""Bytes beyond which the file begins anew: the texts of classes that are no more stay in it otherwise."""


class GeneratedCode:
    """The compiled texts of one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: dict[str, CodeType] = _read(path)
        self.added = False

    def code(self, text: str, mode: str) -> CodeType:
        """A text's code, from the file where it has it."""
        code = self.known.get(text)
        if code is None:
            code = self.known[text] = compile(text, "<string>", mode)
            self.added = True
        return code

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
    """From here on `dataclasses` and `collections` take code from the file; None where Python keeps no bytecode."""
    try:
        path = importlib.util.cache_from_source(__file__)
    except NotImplementedError:
        return None
    found = GeneratedCode(f"{path.removesuffix('.pyc')}.code")

    def execute(text: Any, *spaces: Any) -> None:
        builtins.exec(found.code(text, "exec") if isinstance(text, str) else text, *spaces)

    def evaluate(text: Any, *spaces: Any) -> Any:
        return builtins.eval(found.code(text, "eval") if isinstance(text, str) else text, *spaces)

    # A module's own global stands before the builtin of its name; where a module asks for neither, nothing changes.
    vars(dataclasses)["exec"] = execute
    vars(collections)["eval"] = evaluate
    return found


def _head(data: bytes) -> bytes:
    """What must stand before the data: the bytecode's version, and a hash that half a file does not have."""
    return importlib.util.MAGIC_NUMBER + importlib.util.source_hash(data)


def _read(path: str) -> dict[str, CodeType]:
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

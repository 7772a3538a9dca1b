"""Modules of packages that are plain folders of Python, found and read with fewer questions than Python asks.

For each module Python asks every finder, looks for five suffixes, and twice works out where the bytecode is: a tenth of
a compilation that starts cold. Here the module is the file of its name in its package's folder, with bytecode that is
of this very file; whatever is otherwise (a folder, no bytecode or an old one, an error) is left to Python.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from os import stat
from stat import S_ISREG
from types import CodeType, ModuleType
from typing import Any

PACKAGES = ("tkc.", "xdsl.")
"""Packages without extensions and without a file and a folder of one name, both of which Python would prefer."""


class _Loader(SourceFileLoader):
    """Python's loader, but quick where the bytecode is as it should be."""

    def __init__(self, name: str, path: str, bytecode: str, head: bytes) -> None:
        super().__init__(name, path)
        self.bytecode, self.head = bytecode, head

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            with open(self.bytecode, "rb", 0) as file:
                data = file.read()
        except OSError:
            data = b""
        if data.startswith(self.head):
            code: Any = marshal.loads(memoryview(data)[16:])
            if code.co_filename == self.path:
                return code
        return super().get_code(fullname)


class QuickFinder:
    """Finds modules of `PACKAGES`; the packages themselves are Python's to find."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not name.startswith(PACKAGES):
            return None
        folder, *others = path
        tail = name.rpartition(".")[2]
        place = f"{folder}/{tail}.py"
        try:
            status = stat(place)
        except OSError:
            return None
        if others or not folder.startswith("/") or not S_ISREG(status.st_mode):
            return None
        before, after = _bytecode(folder)
        bytecode = f"{before}{tail}{after}"
        head = MAGIC_NUMBER + bytes(4) + _word(status.st_mtime) + _word(status.st_size)
        spec = ModuleSpec(name, _Loader(name, place, bytecode, head), origin=place)
        spec.has_location, spec.cached = True, bytecode
        return spec


@cache
def _bytecode(folder: str) -> tuple[str, str]:
    """What stands before and after a module's name in the path of its bytecode."""
    before, _, after = cache_from_source(f"{folder}/*.py").rpartition("*")
    return before, after


def _word(number: float) -> bytes:
    return (int(number) & 0xFFFFFFFF).to_bytes(4, "little")


def find_quickly() -> None:
    """From here on these modules are found so; where Python names no bytecode, as ever."""
    if sys.implementation.cache_tag:
        finder: Any = QuickFinder
        sys.meta_path.insert(0, finder)

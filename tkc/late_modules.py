"""Modules that libraries import and a compilation seldom asks for: they load when something of theirs is asked for."""

from __future__ import annotations

import sys
from _thread import RLock
from collections.abc import Sequence
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

SELDOM = (
    "ctypes", "difflib", "getpass", "hashlib", "ipaddress", "pickle", "pkgutil", "tempfile", "tokenize", "unicodedata",
)  # fmt: skip
"""What click, lark, xDSL and the standard library import for functions that a compilation does not call."""

_loading = RLock()


class _Late(ModuleType):
    """A module that is loaded by the first question for a name that it does not have yet.

    `importlib.util.LazyLoader` does not do: to it the import statement's own look at `__spec__` is such a question.
    """

    def __getattr__(self, name: str) -> Any:
        with _loading:
            if not self.__dict__.pop(
                "_late", False
            ):  # it is here by now, or asks itself while it loads
                if name in self.__dict__:
                    return self.__dict__[name]
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            assert self.__spec__ is not None
            assert self.__spec__.loader is not None
            try:
                self.__spec__.loader.exec_module(self)
            except BaseException:
                self.__dict__["_late"] = True  # the next question tries again
                raise
        self.__class__ = ModuleType
        return getattr(self, name)


def put_off(names: Sequence[str] = SELDOM) -> None:
    """Lets these modules load late, where they are not loaded already."""
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is None or spec.loader is None:
            continue
        module = module_from_spec(spec)
        module.__dict__["_late"] = True
        module.__class__ = _Late
        sys.modules[name] = module

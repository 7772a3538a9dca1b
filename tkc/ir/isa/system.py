"""Functions that the CUDA system provides to every module, which declares those that it calls without a body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SystemFunction:
    """Its name, and the PTX types of what it returns and takes."""

    name: str
    results: tuple[str, ...]
    params: tuple[str, ...]
    notices: tuple[str, ...] = ()
    """What the assembler remarks where a kernel calls it: the price of the call."""

    @property
    def declaration(self) -> str:
        """`.extern .func (.param .b32 …) vprintf (.param .b64 …, …);` (PTX 7.1)."""
        results = ", ".join(f".param {t} {self.name}_r{n}" for n, t in enumerate(self.results))
        params = ", ".join(f".param {t} {self.name}_p{n}" for n, t in enumerate(self.params))
        return f".extern .func ({results}) {self.name} ({params});"


VPRINTF = SystemFunction("vprintf", (".b32",), (".b64", ".b64"), ("C7510", "spills"))
"""Prints: the generic addresses of a format, which ends in a zero byte, and of the arguments, which lie in local memory
as C passes them to a function of any number of arguments, each aligned to its size (CUDA Programming Guide, formatted
output; Writer's Guide to PTX Interoperability, system calls). wgmma waits for each product where a call stands between
them (C7510, seen with ptxas 13.5), and what lives across a call may not fit the registers that are left."""

MOST_ARGUMENTS = 32
"""More than that `vprintf` does not print (CUDA Programming Guide, formatted output)."""


def escaped(text: str) -> str:
    """A text that a format prints as it stands."""
    return text.replace("%", "%%")


FUNCTIONS = (VPRINTF,)


def called(ptx: str) -> Iterator[SystemFunction]:
    """The functions of the system that a PTX text of ours declares."""
    return (function for function in FUNCTIONS if function.declaration in ptx)

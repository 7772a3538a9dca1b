"""`vprintf`: what a kernel prints, formatted as C does, one thread after the other."""

from __future__ import annotations

import re
import struct
from typing import Any

from tkc.emulator.addresses import local_region
from tkc.emulator.instruction import Instruction, Semantic
from tkc.emulator.lanes import SELECT
from tkc.emulator.report import Stop
from tkc.emulator.spaces import LOCAL_WINDOW
from tkc.emulator.syntax import Name

_CONVERSION = re.compile(
    rb"%(?P<flags>[-+ #0]*(?:\d+)?(?:\.\d+)?)(?P<length>hh|h|ll|l|z|t|j|)(?P<kind>[%a-zA-Z])"
)
_WIDE = frozenset({b"l", b"ll", b"z", b"t", b"j"})
MOST_TEXT = 1 << 20
"""Bytes of a kernel's output that are kept, as in the buffer of a GPU (cudaLimitPrintfFifoSize)."""


class _Reader:
    """The memory of one thread at generic addresses."""

    def __init__(self, i: Instruction, w: Any, lane: int) -> None:
        self.i, self.w, self.lane = i, w, lane

    def bytes(self, address: int, count: int) -> bytes:
        data, at, _, end = self._place(address)
        if at + count > end:
            raise self._outside(address)
        return data[at : at + count].tobytes()

    def text(self, address: int) -> bytes:
        data, at, _, end = self._place(address)
        found, zero, _ = data[at:end].tobytes().partition(b"\0")
        if not zero:
            raise self._outside(address)
        return found

    def _place(self, address: int) -> tuple[Any, int, int, int]:
        """The bytes of the region, and the address, the beginning and the end in it."""
        if address >> 32 == LOCAL_WINDOW >> 32:
            size = self.w.machine.local_size
            begin = self.lane * size
            return local_region(self.w).data, begin + (address & 0xFFFFFFFF), begin, begin + size
        region = self.w.machine.memory.find(address)
        if region is None:
            raise self._outside(address)
        return region.data, address - region.base, 0, region.size

    def _outside(self, address: int) -> Stop:
        return Stop(
            "TK321", f"vprintf reads at {address:#x}, outside of memory", ins=self.i, warp=self.w
        )


def _formatted(reader: _Reader, format: bytes, address: int) -> bytes:
    at = address

    def take(size: int, form: str) -> Any:
        nonlocal at
        at = -(-at // size) * size
        value = struct.unpack(form, reader.bytes(at, size))[0]
        at += size
        return value

    def one(match: re.Match[bytes]) -> bytes:
        flags, length, kind = match["flags"], match["length"], match["kind"]
        if kind == b"%":
            return b"%"
        if kind in b"aA":
            return float(take(8, "<d")).hex().encode()
        if kind in b"eEfFgG":
            return (b"%" + flags + kind) % take(8, "<d")
        if kind == b"s":
            return (b"%" + flags + b"s") % reader.text(take(8, "<Q"))
        if kind == b"p":
            return b"%#x" % take(8, "<Q")
        if kind == b"c":
            return bytes([take(4, "<I") & 0xFF])
        if kind in b"di":
            value = take(8, "<q") if length in _WIDE else take(4, "<i")
        elif kind in b"uoxX":
            value = take(8, "<Q") if length in _WIDE else take(4, "<I")
        else:
            return match[0]
        return (b"%" + flags + kind.replace(b"u", b"d")) % value

    return _CONVERSION.sub(one, format)


def vprintf(i: Instruction) -> Semantic:
    """Appends what each active thread prints to the report; the number of arguments it returns is not given."""
    operands = i.many("arguments")
    variables = [
        i.program.variable(i.statement.scope, o.text) if isinstance(o, Name) else None
        for o in operands
    ]
    if len(variables) != 2 or any(v is None or v.space != "param" for v in variables):
        raise ValueError("vprintf takes the addresses of a format and of its arguments as .param")

    def run(w: Any) -> None:
        report = w.machine.report
        for lane in SELECT[w.mask].tolist():
            reader = _Reader(i, w, lane)
            format, arguments = (
                int.from_bytes(reader.bytes(LOCAL_WINDOW | w.machine.variables[id(v)], 8), "little")
                for v in variables
            )
            text = _formatted(reader, reader.text(format), arguments)
            if len(report.printed) < MOST_TEXT:
                report.printed += text.decode("utf-8", "replace")

    return run

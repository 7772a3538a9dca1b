"""Calls of a module's own functions (PTX 7.1, 9.7.12.5): parameters, frames, and where lanes meet again.

A function is decoded once; its registers have slots of their own, its parameters and local variables lie in the
thread's local memory. A call makes a place where the lanes that called meet again, and jumps. A function that may be
active twice is recursive: its call saves what the outer activation holds, and gives local variables a fresh frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.addresses import local_region
from tkc.emulator.instruction import Call, Ending, Instruction
from tkc.emulator.lanes import SELECT, U8, UNSIGNED, Vec, constant
from tkc.emulator.report import Stop
from tkc.emulator.syntax import Function, Module, Variable
from tkc.emulator.warp import Join, Path

if TYPE_CHECKING:
    from tkc.emulator.warp import Warp

FUNCTIONS = 0x7C00_0000_0000
"""Where the addresses of functions begin; they hold nothing."""
STACK = 1 << 14
"""Bytes of a thread's local memory for the frames of recursive functions."""


@dataclass(slots=True)
class Code:
    """A decoded function: the segment it starts at, its register slots, and which functions it calls.

    `symbols` are the slots (with variable, offset and dtype) that hold addresses of its local variables.
    """

    function: Function
    start: int
    slots: list[int] = field(default_factory=list)
    symbols: list[tuple[int, Variable, int, np.dtype[Any]]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    recursive: bool = False
    frame: int = 0
    params: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Frame:
    """One activation: what the lanes that called have to get back, and where the frames above it begin."""

    parent: Frame | None
    top: int
    mask: int = 0
    registers: list[tuple[int, Any, int]] | None = None
    memory: tuple[Vec, Vec] | None = None


def address_of(module: Module, name: str) -> int | None:
    """The address of a function of the module; None where there is none of that name."""
    for number, known in enumerate(module.functions):
        if known == name:
            return FUNCTIONS + 16 * number
    return None


def candidates(module: Module, call: Call) -> list[str]:
    """The functions that an indirect call may mean: those that take and give as many bytes."""

    def sizes(places: Sequence[Variable | tuple[int, int]]) -> list[int]:
        return [p.size if isinstance(p, Variable) else p[1] // 8 for p in places]

    return [
        f.name
        for f in module.functions.values()
        if f.defined
        and not f.entry
        and sizes(f.params) == sizes(call.arguments)
        and sizes(f.results) == sizes(call.values)
    ]


def lay_out(codes: Mapping[str, Code]) -> tuple[dict[int, int], int]:
    """(offset of each parameter and variable in a thread's local memory, bytes in all).

    Local variables of recursive functions count from the start of their frame.
    """
    offsets: dict[int, int] = {}
    at = 0

    def place(variable: Variable, at: int) -> int:
        at = -(-at // variable.align) * variable.align
        offsets[id(variable)] = at
        return at + variable.size

    _mark_recursive(codes)
    for code in codes.values():
        function = code.function
        formals = [] if function.entry else [*function.params, *function.results]
        at = -(-at // 16) * 16
        start = at
        for variable in (*formals, *function.variables):
            if variable.space == "param":
                at = place(variable, at)
        code.params = (start, at)
        inner = 0
        for variable in function.variables:
            if variable.space == "local":
                if code.recursive:
                    inner = place(variable, inner)
                else:
                    at = place(variable, at)
        code.frame = -(-inner // 16) * 16
    stack = STACK if any(code.recursive for code in codes.values()) else 0
    return offsets, -(-at // 16) * 16 + stack


def _mark_recursive(codes: Mapping[str, Code]) -> None:
    for name, code in codes.items():
        seen: set[str] = set()
        work = list(code.calls)
        while work:
            one = work.pop()
            if one not in seen:
                seen.add(one)
                work += codes[one].calls
        code.recursive = name in seen


def _rows(w: Warp) -> tuple[Vec, Vec, Vec]:
    """(local memory and its shadow with a row for each lane, the active lanes)."""
    region = local_region(w)
    assert region.shadow is not None
    size = w.machine.local_size
    return region.data.reshape(32, size), region.shadow.reshape(32, size), SELECT[w.mask]


def _put_memory(w: Warp, at: int, values: Vec, unwritten: Vec) -> None:
    data, shadow, lanes = _rows(w)
    where = slice(at, at + values.shape[1])
    data[lanes, where] = values
    shadow[lanes, where] = unwritten


def _get(w: Warp, place: Variable | tuple[int, int], size: int) -> tuple[Vec, Vec]:
    """(bytes, which are unwritten) of an argument or result in the active lanes."""
    data, shadow, lanes = _rows(w)
    if isinstance(place, Variable):
        at = w.machine.variables[id(place)]
        return np.array(data[lanes, at : at + size]), np.array(shadow[lanes, at : at + size])
    slot, bits = place
    raw = np.ascontiguousarray(w.R[slot].view(UNSIGNED[bits])[lanes]).view(U8)
    bad = w.tainted(slot)
    marks = np.array([[bad >> int(lane) & 1] for lane in lanes], U8)
    values = raw.reshape(len(lanes), -1)[:, :size]
    return values, np.repeat(marks, values.shape[1], axis=1)


def _put(w: Warp, place: Variable | tuple[int, int], values: Vec, unwritten: Vec) -> None:
    if isinstance(place, Variable):
        _put_memory(w, w.machine.variables[id(place)], values, unwritten)
        return
    slot, bits = place
    wide = np.zeros((len(values), bits // 8), U8)
    wide[:, : values.shape[1]] = values[:, : bits // 8]
    w.put(slot, w.spread(wide.view(UNSIGNED[bits])[:, 0]))
    lanes = SELECT[w.mask].tolist()
    bad = unwritten.any(axis=1).tolist()
    w.taint_result(slot, sum(1 << lane for lane, is_bad in zip(lanes, bad, strict=True) if is_bad))


def call(
    codes: Mapping[str, Code], name: str, what: Call, landing: int, ins: Instruction
) -> Ending:
    """Enters a function; its lanes meet again at the segment `landing`."""

    def run(w: Warp, path: Path) -> int:
        code = codes[name]
        outer = path.frame
        top = outer.top if outer is not None else w.machine.local_size - STACK
        frame = Frame(outer, top)
        given = [
            _get(w, actual, formal.size)
            for actual, formal in zip(what.arguments, code.function.params, strict=True)
        ]
        if code.recursive:
            _save(w, code, frame, ins)
        for (values, unwritten), formal in zip(given, code.function.params, strict=True):
            _put_memory(w, w.machine.variables[id(formal)], values, unwritten)
        path.frame = frame
        join = Join(landing, path.join, True)
        join.frame = frame
        w.joins[join] = None
        join.count = 1
        path.join = join
        path.rejoin = landing
        return code.start

    return run


def _save(w: Warp, code: Code, frame: Frame, ins: Instruction) -> None:
    """Keeps what the outer activation of a recursive function holds, and gives it a frame of its own."""
    slots = [*code.slots, *(slot for slot, *_ in code.symbols)]
    frame.mask = w.mask
    frame.registers = [(slot, w.R[slot], w.tainted(slot)) for slot in slots]
    data, shadow, lanes = _rows(w)
    start, end = code.params
    frame.memory = np.array(data[lanes, start:end]), np.array(shadow[lanes, start:end])
    if frame.top + code.frame > w.machine.local_size:
        raise Stop("TK321", f"calls have used {STACK} bytes of stack", ins=ins, warp=w)
    for slot, variable, offset, dtype in code.symbols:
        place = frame.top + w.machine.variables[id(variable)] + offset
        w.put(slot, constant(place, dtype))
    shadow[lanes, frame.top : frame.top + code.frame] = 1
    frame.top += code.frame


def land(codes: Mapping[str, Code], name: str, what: Call, following: int) -> Ending:
    """Goes on after a call, with what it gave."""

    def run(w: Warp, path: Path) -> int:
        code, frame = codes[name], path.frame
        assert frame is not None
        given = [_get(w, formal, formal.size) for formal in code.function.results]
        if frame.registers is not None and frame.memory is not None:
            for slot, value, bad in frame.registers:
                if isinstance(value, int):
                    w.put_predicate(slot, value)
                elif value is not None:
                    w.put(slot, value)
                w.taint_result(slot, bad)
            _put_memory(w, code.params[0], *_of_lanes(w, frame))
        path.frame = frame.parent
        for (values, unwritten), actual in zip(given, what.values, strict=True):
            _put(w, actual, values, unwritten)
        return following

    return run


def _of_lanes(w: Warp, frame: Frame) -> tuple[Vec, Vec]:
    """The saved memory of the active lanes: some that called may have ended."""
    assert frame.memory is not None
    rows = np.searchsorted(SELECT[frame.mask], SELECT[w.mask])
    return frame.memory[0][rows], frame.memory[1][rows]


def leave(w: Warp, path: Path) -> int:
    """`ret` in a function: the lanes go to where their call meets again."""
    join = path.join
    while join is not None and not join.call:
        # They will not come to where they would have met others.
        join.count -= 1
        outer = join.parent
        if outer is not None and (join.count or join.mask):
            outer.count += 1
        if not join.count and join.mask:
            w.machine.wake(Path(w, join.mask, join.segment, outer, path.frame))
        join = outer
    assert join is not None
    path.join = join
    path.rejoin = join.segment
    return join.segment

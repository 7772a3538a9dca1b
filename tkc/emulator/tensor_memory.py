"""Tensor memory of a CTA: 128 lanes of 32-bit columns, its allocations, and the one place of access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.lanes import U32, Vec
from tkc.emulator.report import Stop
from tkc.emulator.spaces import Origin
from tkc.ir.isa.fragments import TENSOR_LANES
from tkc.ir.isa.memory import Kind

if TYPE_CHECKING:
    from tkc.emulator.cta import Cta
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.machine import Machine


class TensorMemory:
    """`data` is (lane, column); `unwritten` says which cells hold nothing yet, `owned` which columns are allocated."""

    space = "tensor"

    def __init__(self, cta: Cta, columns: int) -> None:
        self.cta = cta
        self.cells: Any = None
        """What the happens-before record keeps of it."""
        self.name = f"tensor memory of {cta.name}"
        self.columns = columns
        self.data = np.zeros((TENSOR_LANES, columns), U32)
        self.unwritten = np.ones((TENSOR_LANES, columns), bool)
        self.owned = np.zeros(columns, bool)
        self.allocations: dict[int, tuple[int, int]] = {}
        self.group = 0
        self.permitted = True
        self.waiting: list[Any] = []

    def allocate(
        self, columns: int, group: int, ins: Instruction, agent: Any, exclusive: bool
    ) -> int | None:
        """The first column of a new allocation; None where there is no room now."""
        if not self.permitted:
            raise Stop("TK310", "tcgen05.alloc after relinquish_alloc_permit", ins=ins, warp=agent)
        size = columns if exclusive else 1 << max(columns - 1, 0).bit_length()
        if columns < 32 or size != columns or columns % 32 or columns > self.columns:
            raise Stop(
                "TK310",
                f"tcgen05.alloc of {columns} columns, expected a power of two from 32 to {self.columns}",
                ins=ins,
                warp=agent,
            )
        for start in range(0, self.columns - columns + 1, min(columns, 512)):
            if not self.owned[start : start + columns].any():
                self.owned[start : start + columns] = True
                self.unwritten[:, start : start + columns] = True
                self.allocations[start] = (columns, ins.line)
                self.group = group
                return start
        return None

    def free(self, start: int, columns: int, ins: Instruction, agent: Any) -> None:
        """Gives columns back, as many as were allocated there."""
        found = self.allocations.get(start)
        if found is None:
            raise Stop(
                "TK310",
                f"tcgen05.dealloc at column {start}, which no allocation starts at",
                ins=ins,
                warp=agent,
            )
        if found[0] != columns:
            raise Stop(
                "TK310",
                f"tcgen05.dealloc of {columns} columns, {found[0]} were allocated",
                ins=ins,
                warp=agent,
            )
        del self.allocations[start]
        self.owned[start : start + columns] = False

    def check_exit(self, machine: Machine) -> None:
        """A CTA that ends must have given everything back."""
        for start, (columns, line) in self.allocations.items():
            ins = machine.instruction_at(line)
            machine.found(
                "TK311",
                f"{self.cta.name} ends and holds columns {start} .. {start + columns - 1}",
                ins,
            )

    # The one place of access

    def _check(
        self, agent: Any, origin: Origin, kind: Kind, lanes: Any, start: int, stop: int
    ) -> None:
        if start < 0 or stop > self.columns or not self.owned[start:stop].all():
            raise Stop(
                "TK310",
                f"{origin.ins.statement.mnemonic} touches columns {start} .. {stop - 1},"
                f" of which some are not allocated",
                ins=origin.ins,
                warp=agent,
            )
        observer = self.cta.machine.memory.observer
        if observer is not None:
            observer.tensor_access(agent, origin, kind, self, lanes, start, stop)

    def read(self, agent: Any, origin: Origin, lanes: Any, start: int, stop: int) -> Vec:
        """Cells of `lanes` (a slice or an index vector) in columns start .. stop - 1; a copy."""
        self._check(agent, origin, Kind.READ, lanes, start, stop)
        return np.array(self.data[lanes, start:stop])

    def write(self, agent: Any, origin: Origin, lanes: Any, start: int, values: Vec) -> None:
        """Writes cells from column `start` on."""
        stop = start + values.shape[1]
        self._check(agent, origin, Kind.WRITE, lanes, start, stop)
        self.data[lanes, start:stop] = values
        self.unwritten[lanes, start:stop] = False
        self.cta.machine.memory.writes += 1

    def poisoned(self, lanes: Any, start: int, stop: int) -> Vec | None:
        """Which cells hold nothing yet; None where all hold something."""
        found = self.unwritten[lanes, start:stop]
        return np.array(found) if found.any() else None


def tensor_of(cta: Cta) -> TensorMemory:
    """The tensor memory of a CTA, made when it is first asked for."""
    if cta.tensor is None:
        columns = cta.machine.target.tensor_columns
        cta.tensor = TensorMemory(cta, columns or 512)
    return cta.tensor


def split_address(address: int) -> tuple[int, int]:
    """(lane, column)."""
    return address >> 16, address & 0xFFFF

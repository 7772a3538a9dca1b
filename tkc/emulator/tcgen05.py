"""The fifth-generation tensor core: tcgen05.mma, cp, shift and commit (PTX 9.7.16).

Accumulation: the K products of one instruction are summed by the host's matrix product, in float32 for unscaled kinds
and in float64 for block-scaled ones, and then added to the accumulator in float32. Integers are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from tkc.emulator.bulk import mask_reader, receivers, shared_place
from tkc.emulator.formats import FORMATS
from tkc.emulator.instruction import Builder, Instruction, Semantic, Step
from tkc.emulator.lanes import F16, F32, F64, S32, U8, U16, U32, U64, Vec, view
from tkc.emulator.mbarrier import MBarrier, find
from tkc.emulator.report import Stop
from tkc.emulator.spaces import Origin
from tkc.emulator.tensor_memory import split_address, tensor_of
from tkc.emulator.tensor_moves import group_size, pair_of, use_group
from tkc.emulator.tiles import CHUNK, decode_values, fetch, matrix
from tkc.ir.isa.fragments import AccumulatorLayout, accumulator_layout
from tkc.ir.isa.layouts import DescriptorFormat, Major, descriptor_format
from tkc.ir.isa.memory import Done, Proxy
from tkc.ir.isa.mma import Instruction as Descriptor
from tkc.ir.isa.mma import decode_instruction

_SLOT_BITS = {
    "f16": 16,
    "tf32": 32,
    "f8f6f4": 8,
    "i8": 8,
    "mxf8f6f4": 8,
    "mxf4": 4,
    "mxf4nvf4": 4,
}
"""Bits that an element takes in shared memory, by kind."""


def pipe_of(w: Any, ctas: list[Any]) -> Any:
    """Operations of one CTA, or of one pair, keep their order."""
    return ("tcgen05", id(ctas[0].cluster), ctas[0].rank)


def ctas_of(w: Any, i: Instruction, size: int) -> list[Any]:
    if w.cta.tensor is not None:
        use_group(w.cta.tensor, size, i, w)
    return [w.cta] if size == 1 else pair_of(w, i)


@lru_cache(maxsize=4096)
def _instruction(kind: str, word: int) -> Descriptor:
    return decode_instruction(kind, word)


@lru_cache(maxsize=64)
def _rows(layout: AccumulatorLayout) -> Vec:
    """The lane of each row of one CTA, for the first part of the columns."""
    rows = np.arange(layout.m // layout.cta_group)
    return rows % layout.run + layout.stride * (rows // layout.run)


class Multiply:
    """One tcgen05.mma, decoded; `stationary` for tcgen05.mma.ws, whose accumulators lie in other places."""

    stationary = False

    def __init__(self, i: Instruction) -> None:
        self.i = i
        self.kind = i.mod("kind").removeprefix("kind::")
        if self.kind not in _SLOT_BITS:
            raise ValueError(f"kind::{self.kind} is not covered")
        self.size = group_size(i)
        self.d, _, self.d_offset, _ = i.address("d")
        self.from_tensor = i.given("a")
        if self.from_tensor:
            self.a, _, self.a_offset, _ = i.address("a")
        else:
            self.a, self.a_offset = i.src("a_desc", U64), 0
        self.b = i.src("b_desc", U64)
        self.idesc = i.src("idesc", U32)
        self.enable, self.negated = i.predicate("enable")
        self.scale_d = i.immediate("scale_d") if i.given("scale_d") else 0
        self.disabled = [s for s, _ in i.srcs("disable", U32)] if i.given("disable") else []
        self.scaled = i.given("scale_a")
        if self.scaled:
            self.scale_a, _, self.scale_a_offset, _ = i.address("scale_a")
            self.scale_b, _, self.scale_b_offset, _ = i.address("scale_b")
        self.block_text = i.mod("block")
        if i.has("ashift"):
            raise ValueError("modifier .ashift is not covered")
        self.origin = Origin(i, Proxy.ASYNC, Done.TCGEN05_COMMIT)
        self.origin_of_a = Origin(i, Proxy.ASYNC, Done.TCGEN05_COMMIT, first=True)
        self.tensor_origin = Origin(i, Proxy.TENSOR, Done.TCGEN05_COMMIT)

    def issue(self, w: Any) -> None:
        i = self.i
        for lane in w.lanes():
            R = w.R
            if w.taint and w.tainted(self.a, self.b, self.idesc, self.d):
                w.machine.found("TK320", "a descriptor depends on an uninitialised value", i, w)
            word = int(view(R[self.idesc], U32)[lane])
            try:
                what = _instruction(self.kind, word)
            except ValueError as error:
                raise Stop("TK323", str(error), ins=i, warp=w) from None
            ctas = ctas_of(w, i, self.size)
            enabled = bool(R[self.enable] >> lane & 1) != self.negated
            values = (
                int(view(R[self.d], U32)[lane]) + self.d_offset,
                int(R[self.a][lane]) + self.a_offset,
                int(view(R[self.b], U64)[lane]),
            )
            scales = (0, 0)
            if self.scaled:
                scales = (
                    int(view(R[self.scale_a], U32)[lane]) + self.scale_a_offset,
                    int(view(R[self.scale_b], U32)[lane]) + self.scale_b_offset,
                )
            masks = [int(view(R[s], U32)[lane]) for s in self.disabled]
            w.machine.report.count("mma.tcgen05")
            steps = self._steps(w, ctas, what, enabled, values, scales, masks)
            done = Done.TCGEN05_COMMIT
            w.machine.issue("tcgen05.mma", steps, i, w, lane, done, pipe_of(w, ctas))

    def _steps(
        self,
        w: Any,
        ctas: list[Any],
        what: Descriptor,
        enabled: bool,
        values: tuple[int, int, int],
        scales: tuple[int, int],
        masks: list[int],
    ) -> Iterator[None]:
        yield
        self._compute(w, ctas, what, enabled, values, scales, masks)

    def _layout(self, what: Descriptor, w: Any) -> AccumulatorLayout:
        try:
            return accumulator_layout(what.m, self.size, self.stationary, what.sparse)
        except KeyError as error:
            raise Stop("TK323", str(error.args[0]), ins=self.i, warp=w) from None

    def _compute(
        self,
        w: Any,
        ctas: list[Any],
        what: Descriptor,
        enabled: bool,
        values: tuple[int, int, int],
        scales: tuple[int, int],
        masks: list[int],
    ) -> None:
        i = self.i
        agent = f"tensor core of {ctas[0].name}"
        if what.sparse:
            raise Stop(
                "TK323", "a sparse instruction descriptor on a dense instruction", ins=i, warp=w
            )
        layout = self._layout(what, w)
        form = descriptor_format(w.machine.target.features)
        slot = _SLOT_BITS[self.kind]
        d, a_word, b_word = values
        a_parts: list[Vec] = []
        b_parts: list[Vec] = []
        bad_rows: list[Vec | None] = []
        bad_columns: list[Vec | None] = []
        rows, columns = what.m // self.size, what.n // self.size
        for cta in ctas:
            if self.from_tensor:
                a, bad = self._a_tensor(cta, agent, what, a_word, rows)
            else:
                a, bad = self._operand(
                    cta,
                    agent,
                    form,
                    a_word,
                    what.a,
                    what.a_mn_major,
                    rows,
                    what.k,
                    slot,
                    first=True,
                )
            a_parts.append(a)
            bad_rows.append(bad)
            b, bad = self._operand(
                cta, agent, form, b_word, what.b, what.b_mn_major, columns, what.k, slot
            )
            b_parts.append(b)
            bad_columns.append(bad)
        b = np.concatenate(b_parts) if len(b_parts) > 1 else b_parts[0]
        bad_b = _join(bad_columns, columns)
        if what.negate_b:
            b = -b
        for part, (cta, a) in enumerate(zip(ctas, a_parts, strict=True)):
            if what.negate_a:
                a = -a
            if self.scaled:
                a = a * self._scales(cta, agent, what, scales[0], what.scale_a_id, rows)
                full = b * self._scales(cta, agent, what, scales[1], what.scale_b_id, what.n)
                product = (a @ full.T).astype(F32)
            else:
                product = a @ b.T
            lanes_off = masks[4 * part : 4 * part + 4]
            self._accumulate(
                cta, agent, what, layout, d, product, enabled, lanes_off, bad_rows[part], bad_b
            )

    def _operand(
        self,
        cta: Any,
        agent: str,
        form: DescriptorFormat,
        word: int,
        kind: str,
        mn_major: bool,
        rows: int,
        k: int,
        slot: int,
        first: bool = False,
    ) -> tuple[Vec, Vec | None]:
        return matrix(
            cta,
            agent,
            self.origin_of_a if first else self.origin,
            form,
            word,
            kind=kind,
            slot_bits=slot,
            major=Major.MN if mn_major else Major.K,
            rows=rows,
            k=k,
        )

    def _a_tensor(
        self, cta: Any, agent: str, what: Descriptor, address: int, rows: int
    ) -> tuple[Vec, Vec | None]:
        """A from tensor memory: a row in each lane, K packed in 32-bit columns."""
        lane, column = split_address(address)
        width = what.k * _SLOT_BITS[self.kind] // 32
        tensor = tensor_of(cta)
        if rows == 64:
            lanes = lane + np.arange(64) % 16 + 32 * (np.arange(64) // 16)
        else:
            lanes = lane + np.arange(rows)
        raw = tensor.read(agent, self.tensor_origin, lanes, column, column + width)
        poisoned = tensor.poisoned(lanes, column, column + width)
        bad = poisoned.any(axis=1) if poisoned is not None else None
        return decode_values(np.ascontiguousarray(raw).view(U8), what.a), bad

    def _scales(
        self, cta: Any, agent: str, what: Descriptor, address: int, number: int, rows: int
    ) -> Vec:
        """The factor of each element (rows, K): one scale for each block of K."""
        per_row = _scales_per_row(self.kind, self.block_text, what.k)
        # CUTLASS keeps the number of the scale in the top two bits of the address too; they reach no lane.
        lane, column = split_address(address & 0x3FFFFFFF)
        groups = -(-(number + per_row) // 4)
        # Four columns hold four scales of 128 rows; a further group of scales follows those of all rows.
        step = 4 * -(-rows // 128)
        width = step * groups
        tensor = tensor_of(cta)
        raw = tensor.read(agent, self.tensor_origin, slice(lane, lane + 32), column, column + width)
        poisoned = tensor.poisoned(slice(lane, lane + 32), column, column + width)
        if poisoned is not None:
            used = min(width, -(-rows // 32))
            if poisoned[:, :used].any():
                cta.machine.found(
                    "TK320", "block scales in tensor memory are uninitialised", self.i, agent
                )
        codes = np.ascontiguousarray(raw).view(U8).reshape(32, width, 4)
        row = np.arange(rows)[:, None]
        index = number + np.arange(per_row)[None, :]
        picked = codes[row % 32, row // 32 + step * (index // 4), index % 4]
        factors = FORMATS[what.scale].decode(picked).astype(F64)
        return np.repeat(factors, what.k // per_row, axis=1)

    def _accumulate(
        self,
        cta: Any,
        agent: str,
        what: Descriptor,
        layout: AccumulatorLayout,
        address: int,
        product: Vec,
        enabled: bool,
        masks: list[int],
        bad_rows: Vec | None,
        bad_columns: Vec | None,
    ) -> None:
        i = self.i
        tensor = tensor_of(cta)
        lane, column = split_address(address)
        width = layout.width(what.n)
        rows = _rows(layout) + lane
        if rows[-1] + (layout.fold - 1) * layout.fold_lanes >= 128:
            raise Stop(
                "TK321", f"the accumulator at lane {lane} does not fit the lanes", ins=i, warp=agent
            )
        bad: Vec | None = None
        if bad_rows is not None or bad_columns is not None:
            bad = np.zeros(product.shape, bool)
            if bad_rows is not None:
                bad |= bad_rows[:, None]
            if bad_columns is not None:
                bad |= bad_columns[None, :]
        for part in range(layout.fold):
            lanes: Any = rows + part * layout.fold_lanes
            cells = product[:, part * width : (part + 1) * width]
            if len(lanes) == 128:
                lanes = slice(0, 128)
            keep: Vec | None = None
            if masks:
                bits = np.array([masks[k // 32] >> (k % 32) & 1 for k in range(128)], bool)
                keep = bits[lanes]
            old = tensor.read(agent, self.tensor_origin, lanes, column, column + width)
            poisoned = tensor.poisoned(lanes, column, column + width)
            if what.d == "f16":
                if enabled:
                    cells = (
                        cells
                        + (old & np.uint32(0xFFFF)).astype(U16).view(F16).astype(F32)
                        * 2.0**-self.scale_d
                    )
                new = cells.astype(F16).view(U16).astype(U32)
            elif what.d == "s32":
                whole = cells.astype(S32)
                new = ((whole + old.view(S32)) if enabled else whole).view(U32)
            else:
                if enabled:
                    before = old.view(F32)
                    cells = cells + (
                        before * F32.type(2.0**-self.scale_d) if self.scale_d else before
                    )
                new = np.ascontiguousarray(cells).view(U32)
            if keep is not None:
                new = np.where(keep[:, None], old, new)
            tensor.write(agent, self.tensor_origin, lanes, column, new)
            if (enabled and poisoned is not None) or bad is not None:
                mark = np.zeros(new.shape, bool)
                if enabled and poisoned is not None:
                    mark |= poisoned
                if bad is not None:
                    mark |= bad[:, part * width : (part + 1) * width]
                if keep is not None and poisoned is not None:
                    mark = np.where(keep[:, None], poisoned, mark)
                tensor.unwritten[lanes, column : column + width] = mark


def _join(parts: list[Vec | None], size: int) -> Vec | None:
    if all(p is None for p in parts):
        return None
    return np.concatenate([p if p is not None else np.zeros(size, bool) for p in parts])


def _scales_per_row(kind: str, block: str, k: int) -> int:
    """Scales of one row for one instruction."""
    if block in ("block16", "scale_vec::4X"):
        return k // 16
    if block in ("block32", "scale_vec::1X", "scale_vec::2X") or kind in ("mxf8f6f4", "mxf4"):
        return k // 32
    raise ValueError(f"kind::{kind} needs a block size")


def _mma(i: Instruction) -> Semantic:
    operation = Multiply(i)
    if operation.scaled:
        _scales_per_row(operation.kind, operation.block_text, 64)
    return operation.issue


def _commit(i: Instruction) -> Step:
    slot, _, offset, _ = i.address("bar")
    mask_of_lane = mask_reader(i)
    size = group_size(i)
    reads = i.has("restrict")

    def steps(w: Any, bars: list[MBarrier]) -> Iterator[None]:
        yield
        for bar in bars:
            if w.machine.record is not None:
                w.machine.record.commit(bar, i, reads)
            bar.arrive(1, i, f"tensor core of {w.cta.name}")

    def run(w: Any) -> None:
        for lane in w.lanes():
            mask = mask_of_lane(w, lane)
            to, place = shared_place(w, int(w.R[slot][lane]) + offset, i)
            bars = [find(cta, place, i, w) for cta in receivers(w, mask, to, i)]
            ctas = ctas_of(w, i, size)
            done = Done.TCGEN05_COMMIT
            w.machine.issue("tcgen05.commit", steps(w, bars), i, w, lane, done, pipe_of(w, ctas))

    return run


# tcgen05.cp: rows of the source, 32-bit columns that they take, and the lanes that each block of rows goes to

_COPIES: dict[str, tuple[int, int, tuple[tuple[int, int, int], ...]]] = {
    "128x256b": (128, 32, ((0, 128, 0),)),
    "128x128b": (128, 16, ((0, 128, 0),)),
    "64x128b.warpx2::02_13": (64, 16, ((0, 64, 0), (0, 64, 64))),
    "64x128b.warpx2::01_23": (64, 16, ((0, 32, 0), (0, 32, 32), (32, 64, 64), (32, 64, 96))),
    "32x128b.warpx4": (32, 16, ((0, 32, 0), (0, 32, 32), (0, 32, 64), (0, 32, 96))),
}
"""Shape to (rows, bytes of a row, (first row, end, first lane) of each block)."""


def _unpack_slots(raw: Vec, bits: int) -> Vec:
    """Slots of 16 bytes with packed elements to one byte for each element, its bits at the top of the low ones."""
    slots = raw.reshape(raw.shape[0], -1, CHUNK)[..., : 2 * bits]
    single = np.unpackbits(slots, axis=-1, bitorder="little")
    weights = (1 << np.arange(bits)).astype(U8)
    return (
        (single.reshape(*single.shape[:-1], 16, bits) * weights)
        .sum(axis=-1, dtype=U8)
        .reshape(raw.shape[0], -1)
    )


def _cp(i: Instruction) -> Step:
    shape = i.mod("shape")
    taddr, _, t_offset, _ = i.address("taddr")
    desc = i.src("desc", U64)
    size = group_size(i)
    decompress = i.mod("decompress")
    origin = Origin(i, Proxy.ASYNC, Done.TCGEN05_COMMIT)
    tensor_origin = Origin(i, Proxy.TENSOR, Done.TCGEN05_COMMIT)
    four = shape == "4x256b"
    if four:
        rows, row_bytes = 4, 32
        blocks: tuple[tuple[int, int, int], ...] = tuple((r, r + 1, 32 * r) for r in range(4))
    else:
        rows, row_bytes, blocks = _COPIES[shape]

    def steps(w: Any, ctas: list[Any], word: int, address: int) -> Iterator[None]:
        yield
        form = descriptor_format(w.machine.target.features)
        lane, column = split_address(address)
        for cta in ctas:
            agent = f"tensor core of {cta.name}"
            raw, bad = fetch(
                cta,
                agent,
                origin,
                form,
                word,
                major=Major.K,
                slot_bits=8,
                rows=rows,
                row_bytes=row_bytes,
            )
            if decompress:
                raw = _unpack_slots(raw, 4 if "b4x16" in decompress else 6)
            cells = np.ascontiguousarray(raw).view(U32)
            tensor = tensor_of(cta)
            for first, last, to in blocks:
                lanes = slice(lane + to, lane + to + last - first)
                tensor.write(agent, tensor_origin, lanes, column, cells[first:last])
                if bad is not None:
                    tensor.unwritten[lanes, column : column + cells.shape[1]] |= bad[
                        first:last, None
                    ]

    def run(w: Any) -> None:
        for lane in w.lanes():
            word = int(view(w.R[desc], U64)[lane])
            address = int(view(w.R[taddr], U32)[lane]) + t_offset
            ctas = ctas_of(w, i, size)
            taken, done = steps(w, ctas, word, address), Done.TCGEN05_COMMIT
            w.machine.issue("tcgen05.cp", taken, i, w, lane, done, pipe_of(w, ctas))

    return run


def _shift(i: Instruction) -> Step:
    """Rows 1.. of each 32-lane block move up by one lane: lane l takes what lane l + 1 held; 8 columns wide."""
    taddr, _, t_offset, _ = i.address("taddr")
    size = group_size(i)
    origin = Origin(i, Proxy.TENSOR, Done.TCGEN05_COMMIT)

    def steps(w: Any, ctas: list[Any], address: int) -> Iterator[None]:
        yield
        lane, column = split_address(address)
        for cta in ctas:
            agent = f"tensor core of {cta.name}"
            tensor = tensor_of(cta)
            block = tensor.read(agent, origin, slice(lane, 128), column, column + 8)
            bad = tensor.poisoned(slice(lane, 128), column, column + 8)
            tensor.write(agent, origin, slice(lane, 127), column, block[1:])
            if bad is not None:
                tensor.unwritten[lane:127, column : column + 8] = bad[1:]

    def run(w: Any) -> None:
        for lane in w.lanes():
            address = int(view(w.R[taddr], U32)[lane]) + t_offset
            ctas = ctas_of(w, i, size)
            taken, done = steps(w, ctas, address), Done.TCGEN05_COMMIT
            w.machine.issue("tcgen05.shift", taken, i, w, lane, done, pipe_of(w, ctas))

    return run


def _fence(before: bool) -> Step:
    def run(w: Any) -> None:
        if w.machine.record is not None:
            w.machine.record.fence_tensor(w, before)

    return run


SEMANTICS: dict[str, Builder] = {
    "tcgen05.mma": _mma,
    "tcgen05.mma.ts": _mma,
    "tcgen05.mma.block_scale": _mma,
    "tcgen05.mma.block_scale.ts": _mma,
    "tcgen05.cp": _cp,
    "tcgen05.shift": _shift,
    "tcgen05.commit": _commit,
    "tcgen05.commit.wide": _commit,
    "tcgen05.fence::before_thread_sync": lambda i: _fence(True),
    "tcgen05.fence::after_thread_sync": lambda i: _fence(False),
}

"""Operands of wgmma and tcgen05.mma in shared memory: matrix descriptors to matrices of numbers.

Shared memory is read 16 bytes at a time, at the places that the canonical layouts say, with the swizzle applied to the
absolute address. Numbers are decoded exactly, to float32 (integers to float32 as well: 8 bits fit).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tkc.emulator.formats import FORMATS
from tkc.emulator.lanes import F16, F32, U8, U16, U32, Vec
from tkc.emulator.report import Stop
from tkc.emulator.rounding import bf16_to_f32
from tkc.emulator.spaces import Origin
from tkc.ir.isa.layouts import SWIZZLES, DescriptorFormat, Major, MatrixDescriptor, operand_offset

CHUNK = 16
"""Bytes that are read together: the smallest unit that no layout divides."""

_TF32_MASK = np.array([0xFFFFE000], U32)


def decode_values(raw: Vec, kind: str) -> Vec:
    """Bytes (…, n) to float32 values along the last axis; 4-bit types hold two to a byte, the lower first."""
    if kind == "bf16":
        return bf16_to_f32(raw.view(U16))
    if kind == "f16":
        return raw.view(F16).astype(F32)
    if kind == "tf32":
        return (raw.view(U32) & _TF32_MASK).view(F32)
    if kind == "s8":
        return raw.view(np.int8).astype(F32)
    if kind == "u8":
        return raw.astype(F32)
    if kind == "b1":
        return np.unpackbits(raw, axis=-1, bitorder="little").astype(F32)
    if kind == "e2m1":
        codes = np.empty((*raw.shape[:-1], 2 * raw.shape[-1]), U8)
        codes[..., 0::2] = raw & 0xF
        codes[..., 1::2] = raw >> 4
        return FORMATS[kind].decode(codes)
    return FORMATS[kind].decode(raw)


def decode_padded(raw: Vec, kind: str) -> Vec:
    """Slots of 16 bytes with 16 elements of 4 or 6 bits, packed from the first bit, to float32 values."""
    bits = FORMATS[kind].form.bits
    if bits == 8:
        return FORMATS[kind].decode(raw)
    slots = raw.reshape(*raw.shape[:-1], -1, CHUNK)[..., : 2 * bits]
    single = np.unpackbits(slots, axis=-1, bitorder="little")
    weights = (1 << np.arange(bits)).astype(U8)
    codes = (single.reshape(*single.shape[:-1], 16, bits) * weights).sum(axis=-1, dtype=U8)
    return FORMATS[kind].decode(codes.reshape(*raw.shape[:-1], -1))


@lru_cache(maxsize=1024)
def _offsets(
    leading: int,
    stride: int,
    swizzle: str,
    major: Major,
    low: int,
    rows: int,
    row_bytes: int,
    slot_bits: int,
    pattern: int,
) -> Vec:
    """Shared offsets of the 16-byte chunks of an operand, relative to the last multiple of 1024 before its start.

    K-major: (rows, chunks along K); MN-major: (K, chunks along MN). `rows` counts M or N, `row_bytes` bytes along K;
    the swizzle's pattern starts at `pattern`.
    """
    descriptor = MatrixDescriptor(low, leading, stride, swizzle)
    per = CHUNK * 8 // slot_bits
    if major is Major.K:
        mn = np.arange(rows)[:, None]
        k = np.arange(row_bytes // CHUNK)[None, :] * per
    else:
        k = np.arange(row_bytes * 8 // slot_bits)[:, None]
        mn = np.arange(rows // per)[None, :] * per
    logical = low + operand_offset(descriptor, major, slot_bits, mn, k)  # pyright: ignore
    made = np.asarray(SWIZZLES[swizzle].physical(logical, pattern))
    made.flags.writeable = False
    return made


def fetch(
    cta: Any,
    agent: Any,
    origin: Origin,
    form: DescriptorFormat,
    word: int,
    *,
    major: Major,
    slot_bits: int,
    rows: int,
    row_bytes: int,
    used: int = CHUNK,
) -> tuple[Vec, Vec | None]:
    """(bytes of an operand, which of its rows have uninitialised bytes or None where none has).

    `used` bytes of each 16 count. K-major: (rows, row_bytes). MN-major: (K, rows * slot_bits / 8), to be transposed
    once it is decoded.
    """
    try:
        d = form.decode(word)
    except ValueError as error:
        raise Stop("TK323", str(error), ins=origin.ins, warp=agent) from None
    if d.leading_absolute:
        raise Stop("TK323", "an absolute leading offset is not covered", ins=origin.ins, warp=agent)
    low = d.start % 1024
    relative = _offsets(
        d.leading, d.stride, d.swizzle, major, low, rows, row_bytes, slot_bits, d.base_offset << 7
    )
    offsets = (relative + (d.start - low)).reshape(-1)
    memory = cta.machine.memory
    raw = memory.read(agent, origin, cta.shared, offsets, 64, 2)
    unwritten = memory.unwritten(cta.shared, offsets, CHUNK)
    if unwritten is not None and used < CHUNK:
        # Padding may hold nothing.
        unwritten = memory.unwritten_bytes(cta.shared, offsets, CHUNK)[:, :used].any(axis=1)
    bad: Vec | None = None
    if unwritten is not None:
        chunks = unwritten.reshape(relative.shape)
        if major is Major.K:
            bad = chunks.any(axis=1)
        else:
            bad = np.repeat(chunks.any(axis=0), rows // relative.shape[1])
    return raw.view(U8).reshape(relative.shape[0], -1), bad


def matrix(
    cta: Any,
    agent: Any,
    origin: Origin,
    form: DescriptorFormat,
    word: int,
    *,
    kind: str,
    slot_bits: int,
    major: Major,
    rows: int,
    k: int,
) -> tuple[Vec, Vec | None]:
    """(an operand as float32, (rows, k); which rows have uninitialised bytes, None where none has).

    `slot_bits` is what an element takes in shared memory, which is more than its type has for padded 4- and 6-bit ones.
    """
    row_bytes = k * slot_bits // 8
    padded = slot_bits == 8 and kind in FORMATS and FORMATS[kind].form.bits < 8
    used = 2 * FORMATS[kind].form.bits if padded else CHUNK
    raw, bad = fetch(
        cta,
        agent,
        origin,
        form,
        word,
        major=major,
        slot_bits=slot_bits,
        rows=rows,
        row_bytes=row_bytes,
        used=used,
    )
    values = decode_padded(raw, kind) if padded else decode_values(raw, kind)
    return (values if major is Major.K else values.T), bad

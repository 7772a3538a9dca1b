"""Block-scaled data: MXFP8, MXFP6, MXFP4 and NVFP4, their scales in the layout that the tensor core reads, and back.

A block-scaled matrix is its elements, in rows of K, and one scale for each `block` consecutive elements of a row.
`quantise` makes both from real numbers and `dequantise` real numbers from both, as the OCP Microscaling Formats
specification 1.0 (section 6.3) and NVFP4 define them. `interleave` puts row-major scales into the order that cuBLAS,
cuDNN, PyTorch and CUTLASS share (cuBLAS documentation, "1D block scaling factors layout"), `row_major` takes them out.

Every function takes and gives arrays of one library and stays on their device: NumPy, and CuPy or PyTorch where
`array-api-compat` is installed. Matrices may have leading batch dimensions. Elements and scales are their bits, uint8;
elements of 4 and 6 bits are packed along K, low element first, as everywhere in tkc.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

Array = Any
"""An array of NumPy, CuPy or PyTorch."""

ATOM_ROWS, ATOM_SCALES = 128, 4
"""One atom of the interleaved layout: so many rows, so many consecutive scales of each; 512 bytes."""


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point format of at most 8 bits; `largest` is the code of its largest finite magnitude.

    `nan` is the code of NaN, None where the format has none: NaN then becomes the largest magnitude, as in
    `cvt.satfinite` (PTX, cvt). `signed` formats carry a sign bit above the exponent.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    nan: int | None
    signed: bool = True

    @property
    def bits(self) -> int:
        return self.exponent_bits + self.mantissa_bits + self.signed

    @property
    def lowest_exponent(self) -> int:
        """The exponent of the smallest normal number, which subnormal numbers share."""
        return 1 - self.bias

    @property
    def maximum(self) -> float:
        return self.magnitude(self.largest)

    @property
    def highest_exponent(self) -> int:
        return (self.largest >> self.mantissa_bits) - self.bias

    def magnitude(self, code: int) -> float:
        """The value of a code without its sign."""
        if code == self.nan:
            return float("nan")
        exponent, mantissa = divmod(code, 1 << self.mantissa_bits)
        hidden = (1 << self.mantissa_bits) if exponent else 0
        return (mantissa + hidden) * 2.0 ** (max(exponent, 1) - self.bias - self.mantissa_bits)


ELEMENTS = {
    "e4m3": Format(4, 3, 7, 0x7E, 0x7F),
    "e5m2": Format(5, 2, 15, 0x7B, 0x7F),
    "e3m2": Format(3, 2, 3, 0x1F, None),
    "e2m3": Format(2, 3, 1, 0x1F, None),
    "e2m1": Format(2, 1, 1, 0x7, None),
}
"""The elements of block-scaled matrices (PTX, "Alternate floating-point data formats")."""

_FRACTIONS = {
    "ue4m3": Format(4, 3, 7, 0x7E, 0x7F, signed=False),
    "ue5m3": Format(5, 3, 15, 0xFE, 0xFF, signed=False),
}

SCALES = ("ue8m0", *_FRACTIONS)
"""Scales: ue8m0 is 2^(code - 127), NaN at 0xFF; ue4m3 is e4m3 without its sign, whose place ue5m3 gives to the exponent
(sm_107)."""

NEUTRAL = {"ue8m0": 0x7F, "ue4m3": 0x38, "ue5m3": 0x78}
"""The code of 1, which fills what `interleave` pads: never NaN, so that zero data stay zero."""


class Quantised(NamedTuple):
    """`data` (…, M, K·bits/8) and `scales` (…, M, ceil(K/block)) row-major, uint8; `global_scale` multiplies all."""

    data: Array
    scales: Array
    global_scale: float


def quantise(
    values: Array,
    dtype: str,
    *,
    scale: str = "ue8m0",
    block: int = 32,
    global_scale: float | None = None,
    scale_rounding: str | None = None,
) -> Quantised:
    """Quantises (…, M, K) real numbers by blocks of `block` along K; elements round to nearest even and saturate.

    A ue8m0 scale is 2^(floor(log2 amax) - emax), emax the largest exponent of the elements, as OCP MX says
    (`scale_rounding="down"`, the default), or the smallest power of two at or above amax over the largest
    element (`"up"`, which never saturates: cuDNN and Transformer Engine). Other scales are amax over the
    largest element and over `global_scale`, rounded to nearest even (`"nearest"`, the default) or up;
    `global_scale` None takes amax of the whole over the largest element and scale (6 · 448 for NVFP4), so that the
    largest block has the largest scale. A block of zeros has scale 0 (ue8m0, which has none: 1), one that holds Inf
    or NaN a NaN scale. Raises ValueError for formats and shapes that do not go together.
    """
    element = _element(dtype)
    if scale not in SCALES:
        raise ValueError(f"scale {scale}, expected {' or '.join(SCALES)}")
    rounding = scale_rounding or ("down" if scale == "ue8m0" else "nearest")
    if rounding not in (("down", "up") if scale == "ue8m0" else ("nearest", "up")):
        raise ValueError(f"a {scale} scale is not rounded {rounding}")
    _check_block(block)
    xp = _namespace(values)
    _whole_bytes(values.shape[-1], element, dtype)
    real = xp.astype(values, xp.float64)
    blocks = _blocks(xp, real, block)
    amax = xp.max(xp.abs(blocks), axis=-1)
    if scale == "ue8m0":
        if global_scale not in (None, 1, 1.0):
            raise ValueError(f"a global scale goes with {' and '.join(_FRACTIONS)} scales only")
        factor, codes = 1.0, _power_codes(xp, amax, element, rounding)
        steps = _table(xp, scale, real)[xp.astype(codes, xp.int64)]
    else:
        form = _FRACTIONS[scale]
        most = element.maximum * form.maximum
        factor = _global_scale(xp, amax, most) if global_scale is None else float(global_scale)
        codes = _scale_codes(xp, amax / (element.maximum * factor), scale, rounding)
        steps = _table(xp, scale, real)[xp.astype(codes, xp.int64)] * factor
    usable = steps > 0
    scaled = (
        xp.where(usable[..., None], blocks, xp.zeros_like(blocks))
        / xp.where(usable, steps, xp.ones_like(steps))[..., None]
    )
    elements = _encode(xp, scaled, element)
    flat = _flat(xp, elements)[..., : values.shape[-1]]
    return Quantised(_pack(xp, flat, element.bits), codes, factor)


def dequantise(
    data: Array,
    scales: Array,
    dtype: str,
    *,
    scale: str = "ue8m0",
    block: int = 32,
    global_scale: float = 1.0,
) -> Array:
    """The real numbers, float64 (…, M, K), of packed elements (…, M, K·bits/8) and their scales.

    Scales are row-major, (…, M, ceil(K/block)). Raises ValueError where the shapes do not match.
    """
    element = _element(dtype)
    if scale not in SCALES:
        raise ValueError(f"scale {scale}, expected {' or '.join(SCALES)}")
    _check_block(block)
    xp = _namespace(data)
    codes = _unpack(xp, _bits(xp, data), element.bits)
    k = codes.shape[-1]
    expected = (*codes.shape[:-1], -(-k // block))
    if tuple(scales.shape) != expected:
        raise ValueError(
            f"scales of shape {tuple(scales.shape)}, expected {expected}: K = {k}, block {block}"
        )
    table = _table(xp, dtype, data)
    blocks = _blocks(xp, table[xp.astype(codes, xp.int64)], block)
    steps = _table(xp, scale, data)[xp.astype(_bits(xp, scales), xp.int64)]
    real = blocks * steps[..., None] * global_scale
    return _flat(xp, real)[..., :k]


def interleaved_shape(rows: int, columns: int) -> tuple[int, int]:
    """Rows and scales of each row once padded: (ceil(rows / 128) · 128, ceil(columns / 4) · 4)."""
    return _up(rows, ATOM_ROWS), _up(columns, ATOM_SCALES)


def interleave(scales: Array, scale: str = "ue8m0") -> Array:
    """Row-major scales (…, M, S) as (…, padded M · padded S) bytes in the order that the tensor core reads.

    Atoms of 128 rows × 4 scales follow each other along S first; in an atom, scale k of row m is byte
    (m mod 32)·16 + (m div 32)·4 + k. Padding is the code of 1.
    """
    if scale not in SCALES:
        raise ValueError(f"scale {scale}, expected {' or '.join(SCALES)}")
    xp = _namespace(scales)
    *batch, rows, columns = scales.shape
    high, wide = interleaved_shape(rows, columns)
    padded = xp.full((*batch, high, wide), NEUTRAL[scale], dtype=xp.uint8, **_on(scales))
    padded[..., :rows, :columns] = scales
    atoms = xp.reshape(padded, (*batch, high // ATOM_ROWS, 4, 32, wide // ATOM_SCALES, ATOM_SCALES))
    n = len(batch)
    order = (*range(n), n, n + 3, n + 2, n + 1, n + 4)
    return xp.reshape(xp.permute_dims(atoms, order), (*batch, high * wide))


def row_major(interleaved: Array, rows: int, columns: int) -> Array:
    """The (…, rows, columns) scales in an interleaved array.

    Raises ValueError where its size is not that of the padded shape.
    """
    xp = _namespace(interleaved)
    high, wide = interleaved_shape(rows, columns)
    *batch, size = interleaved.shape
    if size != high * wide:
        raise ValueError(
            f"{size} interleaved scales, expected {high} x {wide} = {high * wide} for {rows} rows of {columns}"
        )
    atoms = xp.reshape(
        interleaved, (*batch, high // ATOM_ROWS, wide // ATOM_SCALES, 32, 4, ATOM_SCALES)
    )
    n = len(batch)
    order = (*range(n), n, n + 3, n + 2, n + 1, n + 4)
    return xp.reshape(xp.permute_dims(atoms, order), (*batch, high, wide))[..., :rows, :columns]


def _power_codes(xp: Any, amax: Array, element: Format, rounding: str) -> Array:
    """ue8m0 codes of blocks; the specification's scale is a power of two, clamped to 2^-127 … 2^127."""
    finite = xp.isfinite(amax)
    safe = xp.where(finite & (amax > 0), amax, xp.ones_like(amax) * element.maximum)
    if rounding == "down":
        exponent = _exponent(xp, safe) - element.highest_exponent
    else:
        ratio = safe / element.maximum
        exponent = _exponent(xp, ratio)
        exponent = exponent + xp.astype(ratio > _power(xp, exponent), xp.int64)
    code = xp.clip(exponent, -127, 127) + 127
    code = xp.where(amax > 0, code, xp.ones_like(code) * NEUTRAL["ue8m0"])
    return xp.astype(xp.where(finite, code, xp.ones_like(code) * 0xFF), xp.uint8)


def _scale_codes(xp: Any, ratio: Array, scale: str, rounding: str) -> Array:
    """Codes of blocks, saturating; a block of zeros has 0, one too small for a scale the smallest there is."""
    form = _FRACTIONS[scale]
    code = xp.astype(_encode(xp, ratio, form), xp.int64)
    if rounding == "up":
        table = _table(xp, scale, ratio)
        below = (table[code] < ratio) & (code < form.largest)
        code = code + xp.astype(below, xp.int64)
    code = xp.where((code == 0) & (ratio > 0), xp.ones_like(code), code)
    code = xp.where(xp.isfinite(ratio), code, xp.ones_like(code) * form.nan)
    return xp.astype(code, xp.uint8)


def _global_scale(xp: Any, amax: Array, most: float) -> float:
    finite = xp.where(xp.isfinite(amax), amax, xp.zeros_like(amax))
    largest = float(xp.max(finite)) if 0 not in amax.shape else 0.0
    # The scale is kept as float32, the type in which kernels take it.
    return float(np.float32(largest / most)) or 1.0


def _encode(xp: Any, values: Array, form: Format) -> Array:
    """Codes of values, to nearest even, saturating.

    With e the exponent, not below that of subnormals, and q the value in units of its last place,
    ((e - lowest) << mantissa bits) + q is the code: q's hidden bit, and its carry, count the exponent up.
    """
    magnitude = xp.abs(values)
    nan = xp.isnan(values)
    ceiling = xp.ones_like(magnitude) * form.maximum
    magnitude = xp.where(nan | (magnitude > ceiling), ceiling, magnitude)
    exponent = xp.clip(_exponent(xp, magnitude), form.lowest_exponent, form.highest_exponent)
    units = xp.round(magnitude / _power(xp, exponent - form.mantissa_bits))
    code = ((exponent - form.lowest_exponent) << form.mantissa_bits) + xp.astype(units, xp.int64)
    code = xp.clip(code, 0, form.largest)
    if form.nan is not None:
        code = xp.where(nan, xp.ones_like(code) * form.nan, code)
    if form.signed:
        code = code + (xp.astype(xp.signbit(values) & ~nan, xp.int64) << (form.bits - 1))
    return xp.astype(code, xp.uint8)


def _exponent(xp: Any, values: Array) -> Array:
    """floor(log2 |x|) of finite float64 values, int64; -1023 of zero and of float64's subnormal numbers."""
    return ((values.view(xp.int64) >> 52) & 0x7FF) - 1023


def _power(xp: Any, exponent: Array) -> Array:
    """2^exponent, float64."""
    return ((exponent + 1023) << 52).view(xp.float64)


def _blocks(xp: Any, real: Array, block: int) -> Array:
    """(…, K) as (…, ceil(K / block), block), padded with zeros."""
    k = real.shape[-1]
    count = -(-k // block)
    if k % block:
        padded = xp.zeros((*real.shape[:-1], count * block), dtype=xp.float64, **_on(real))
        padded[..., :k] = real
        real = padded
    return xp.reshape(real, (*real.shape[:-1], count, block))


_GROUPS = {4: (2, 1), 6: (4, 3)}
"""Bits of an element → the elements that fill whole bytes, and these bytes."""


def _pack(xp: Any, codes: Array, bits: int) -> Array:
    """Codes of 4 or 6 bits as bytes along the last axis, low element first."""
    if bits == 8:
        return codes
    group, taken = _GROUPS[bits]
    split = xp.astype(_apart(xp, codes, group), xp.int64)
    word = sum(split[..., i] << (bits * i) for i in range(group))
    parts = xp.stack([(word >> (8 * i)) & 0xFF for i in range(taken)], axis=-1)
    return xp.astype(_flat(xp, parts), xp.uint8)


def _unpack(xp: Any, data: Array, bits: int) -> Array:
    if bits == 8:
        return data
    group, taken = _GROUPS[bits]
    if data.shape[-1] % taken:
        raise ValueError(f"{data.shape[-1]} bytes are no whole number of {bits}-bit elements")
    split = xp.astype(_apart(xp, data, taken), xp.int64)
    word = sum(split[..., i] << (8 * i) for i in range(taken))
    parts = xp.stack([(word >> (bits * i)) & ((1 << bits) - 1) for i in range(group)], axis=-1)
    return xp.astype(_flat(xp, parts), xp.uint8)


def values_of_codes(codes: Array, dtype: str) -> Array:
    """The real numbers, float64, of codes (uint8, a byte each) of a dtype of elements or of scales."""
    xp = _namespace(codes)
    return _table(xp, dtype, codes)[xp.astype(_bits(xp, codes), xp.int64)]


@cache
def _values(dtype: str) -> tuple[float, ...]:
    """The value of each code of a dtype."""
    if dtype == "ue8m0":
        return (*(2.0 ** (code - 127) for code in range(255)), float("nan"))
    if dtype in _FRACTIONS:
        form = _FRACTIONS[dtype]
        # cuBLAS ignores the sign bit of a scale.
        return tuple(form.magnitude(code & ((1 << form.bits) - 1)) for code in range(256))
    form = ELEMENTS[dtype]
    sign = 1 << (form.bits - 1)
    return tuple(
        (-1.0 if code & sign else 1.0) * _magnitude(form, code & (sign - 1))
        for code in range(2 * sign)
    )


def _magnitude(form: Format, code: int) -> float:
    if form.nan is None or code <= form.largest:
        return form.magnitude(code)
    # e5m2 has an infinity between its largest number and its NaNs.
    return float("inf") if code == form.largest + 1 and code < form.nan else float("nan")


def _table(xp: Any, dtype: str, like: Array) -> Array:
    """The values of a dtype's codes, on the device of an array."""
    return xp.asarray(np.array(_values(dtype)), **_on(like))


def _element(dtype: str) -> Format:
    if dtype not in ELEMENTS:
        raise ValueError(f"elements of {dtype}, expected one of {', '.join(ELEMENTS)}")
    return ELEMENTS[dtype]


def _check_block(block: int) -> None:
    if block < 1:
        raise ValueError(f"a block of {block} elements")


def _whole_bytes(k: int, element: Format, dtype: str) -> None:
    if k * element.bits % 8:
        raise ValueError(f"{dtype} is packed, and K = {k} is no whole number of bytes")


def _bits(xp: Any, array: Array) -> Array:
    """An array of an 8-bit type, float8 among them, as uint8."""
    return array if array.dtype == xp.uint8 else array.view(xp.uint8)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _on(like: Array) -> dict[str, Any]:
    """Where a new array belongs: beside `like`."""
    return {} if isinstance(like, np.ndarray) else {"device": like.device}


class _NumPy:
    """NumPy before 2.1 lacks some names of the array API; these are the ones used here."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def astype(array: Array, dtype: Any) -> Array:
        return array.astype(dtype)

    @staticmethod
    def permute_dims(array: Array, order: tuple[int, ...]) -> Array:
        return np.transpose(array, order)


_numpy = _NumPy()


def _namespace(array: Array) -> Any:
    if isinstance(array, np.ndarray):
        return _numpy
    try:
        import array_api_compat
    except ImportError:
        raise TypeError(
            f"arrays of {type(array).__module__} need the package array-api-compat; NumPy arrays need nothing"
        ) from None
    return array_api_compat.array_namespace(array)


def _apart(xp: Any, x: Array, each: int) -> Array:
    """The last axis in groups of `each`; also of no rows, where no size follows from the others."""
    return xp.reshape(x, (*x.shape[:-1], x.shape[-1] // each, each))


def _flat(xp: Any, x: Array) -> Array:
    """The last two axes as one."""
    return xp.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))

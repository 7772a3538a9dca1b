"""Tensor-core shapes and kinds, one row each, and the instruction descriptors of tcgen05.mma."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tkc.ir.isa.bitfields import BitField, Word
from tkc.ir.isa.targets import Feature

BITS: Mapping[str, int] = {
    "f32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "ti16": 16,
    "e4m3": 8,
    "e5m2": 8,
    "e3m2": 6,
    "e2m3": 6,
    "e2m1": 4,
    "s8": 8,
    "u8": 8,
    "s32": 32,
    "b1": 1,
}
"""Bits of the element types that rows name."""

_STEP8 = tuple(range(8, 257, 8))
_STEP16 = tuple(range(16, 257, 16))
_STEP32 = tuple(range(32, 257, 32))
_INTEGER = (8, 16, 24, *range(32, 257, 16))

F8F6F4 = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")


@dataclass(frozen=True, eq=False)
class Mma:
    """One kind of tensor-core instruction: which types, which M, N and K, and what it needs.

    `instruction` is the name of its instruction row, `kind` its modifier (`.kind::f16`; empty for wgmma). `mixed` says
    that A and B may differ. `slot` is the bits that one element of A or B takes in shared memory per K index, and `k`
    counts elements (of the dense matrix: a sparse row has twice the K of its dense one). `block` is the elements of K
    that share a scale, 0 where there is none; `scales` the scale types. `mn_major` names the types whose operands may
    be M- or N-major. `m128_step`: libraries keep N a multiple of this where M is 128, though the manual allows less.
    """

    name: str
    instruction: str
    kind: str
    a: tuple[str, ...]
    d: tuple[str, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: int
    slot: int
    needs: frozenset[Feature]
    mixed: bool = False
    cta_group: int = 1
    ws: bool = False
    sparse: bool = False
    block: int = 0
    scales: tuple[str, ...] = ()
    mn_major: tuple[str, ...] = ()
    m128_step: int = 8

    def __post_init__(self) -> None:
        dense = self.k // 2 if self.sparse else self.k
        row_bytes = dense * self.slot // 8
        if row_bytes not in (32, 48, 64):
            raise ValueError(f"{self.name}: K {self.k} takes {row_bytes} bytes a row")
        if any(BITS[t] > self.slot for t in self.a):
            raise ValueError(f"{self.name}: an element does not fit its {self.slot}-bit slot")
        if self.block and self.k % self.block:
            raise ValueError(f"{self.name}: blocks of {self.block} do not divide K {self.k}")
        if bool(self.block) != bool(self.scales):
            raise ValueError(f"{self.name}: a block without scale types, or the other way round")
        if not set(self.mn_major) <= set(self.a):
            raise ValueError(f"{self.name}: M/N-major type that is no operand type")
        if any(n % 8 or n > 256 for n in self.n) or any(m % 32 for m in self.m):
            raise ValueError(f"{self.name}: M or N out of range")

    @property
    def b(self) -> tuple[str, ...]:
        return self.a

    @property
    def k_bytes(self) -> int:
        """Bytes of shared memory that one row of B's operand slice takes along K."""
        return self.k * self.slot // 8

    @property
    def scales_per_row(self) -> int:
        """Scales of one row of A, or one column of B, per instruction."""
        return self.k // self.block if self.block else 0

    def takes(self, a: str, b: str, d: str) -> bool:
        """Whether these element types go together here."""
        if a not in self.a or b not in self.b or d not in self.d or (a != b and not self.mixed):
            return False
        return d != "f16" or (a not in ("bf16", "tf32") and b not in ("bf16", "tf32"))

    def fits(self, m: int, n: int) -> bool:
        """Whether libraries issue this M and N (the manual's lists, narrowed by `m128_step`)."""
        return (
            m in self.m
            and n in self.n
            and (m != 128 or self.cta_group != 1 or n % self.m128_step == 0)
        )


_WGMMA = frozenset({Feature.WGMMA})


def _wgmma(name: str, a: tuple[str, ...], d: tuple[str, ...], k: int, mixed: bool = False) -> Mma:
    integer = d == ("s32",)
    return Mma(
        name=f"wgmma.{name}",
        instruction="wgmma.mma_async",
        kind="",
        a=a,
        d=d,
        m=(64,),
        n=_INTEGER if integer else _STEP8,
        k=k,
        slot=BITS[a[0]],
        needs=_WGMMA,
        mixed=mixed,
        mn_major=tuple(t for t in a if BITS[t] == 16),
    )


_TCGEN05 = frozenset({Feature.TCGEN05})

_F8 = ("e4m3", "e5m2")


def _tcgen05(
    kind: str,
    a: tuple[str, ...],
    d: tuple[str, ...],
    k: int,
    slot: int,
    extra: frozenset[Feature] = frozenset(),
    mixed: bool = False,
    mn_major: tuple[str, ...] = (),
    tag: str = "",
) -> tuple[Mma, ...]:
    """The eight rows of one unscaled kind: 1 and 2 CTAs and `.ws`, dense and sparse."""
    needs = _TCGEN05 | extra
    integer = d == ("s32",)
    n = {1: _INTEGER if integer else _STEP8, 2: _STEP32 if integer else _STEP16}
    m = {1: (64, 128), 2: (128, 256)}
    if tag:
        n, m = {1: _STEP16, 2: _STEP32}, {1: (128,), 2: (256,)}
    rows: list[Mma] = []
    for sparse in (False, True):
        depth, suffix = (2 * k, ".sp") if sparse else (k, "")
        for cta_group in (1, 2):
            rows.append(
                Mma(
                    name=f"tcgen05.{kind}{tag}{suffix}.cta{cta_group}",
                    instruction=f"tcgen05.mma{suffix}",
                    kind=f".kind::{kind}",
                    a=a,
                    d=d,
                    m=m[cta_group],
                    n=n[cta_group],
                    k=depth,
                    slot=slot,
                    needs=needs,
                    mixed=mixed,
                    cta_group=cta_group,
                    sparse=sparse,
                    mn_major=mn_major,
                    m128_step=16,
                )
            )
        if not tag:
            rows.append(
                Mma(
                    name=f"tcgen05.{kind}.ws{suffix}",
                    instruction=f"tcgen05.mma.ws{suffix}",
                    kind=f".kind::{kind}",
                    a=a,
                    d=d,
                    m=(32, 64, 128),
                    n=(64, 128) if sparse else (64, 128, 256),
                    k=depth,
                    slot=slot,
                    needs=needs,
                    mixed=mixed,
                    ws=True,
                    sparse=sparse,
                    mn_major=mn_major,
                )
            )
    return tuple(rows)


def _scaled(
    kind: str,
    a: tuple[str, ...],
    k: int,
    slot: int,
    block: int,
    scales: tuple[str, ...],
    extra: frozenset[Feature] = frozenset(),
    mixed: bool = False,
    mn_major: tuple[str, ...] = (),
) -> tuple[Mma, ...]:
    """The rows of one block-scaled kind: 1 and 2 CTAs, dense and sparse."""
    rows: list[Mma] = []
    for sparse in (False, True):
        if sparse and k not in (32, 64):
            continue
        depth, suffix = (2 * k, ".sp") if sparse else (k, "")
        needs = _TCGEN05 | extra
        if sparse and slot == 4:
            needs |= {Feature.TCGEN05_SPARSE_FP4}
        for cta_group, m, n in (
            (1, (128,), _STEP8),
            (2, (256,) if sparse else (128, 256), _STEP16),
        ):
            rows.append(
                Mma(
                    name=f"tcgen05.{kind}.block{block}.k{depth}{suffix}.cta{cta_group}",
                    instruction=f"tcgen05.mma{suffix}.block_scale",
                    kind=f".kind::{kind}",
                    a=a,
                    d=("f32",),
                    m=m,
                    n=n,
                    k=depth,
                    slot=slot,
                    needs=needs,
                    mixed=mixed,
                    cta_group=cta_group,
                    sparse=sparse,
                    block=2 * block if sparse else block,
                    scales=scales,
                    mn_major=mn_major,
                    m128_step=16,
                )
            )
    return tuple(rows)


_K96 = frozenset({Feature.FP4_K96})
_DOUBLE = frozenset({Feature.TCGEN05_DOUBLE_K})

MMAS: tuple[Mma, ...] = (
    _wgmma("f16", ("f16",), ("f16", "f32"), 16),
    _wgmma("bf16", ("bf16",), ("f32",), 16),
    _wgmma("tf32", ("tf32",), ("f32",), 8),
    _wgmma("f8", _F8, ("f16", "f32"), 32, mixed=True),
    _wgmma("i8", ("s8", "u8"), ("s32",), 32, mixed=True),
    _wgmma("b1", ("b1",), ("s32",), 256),
    *_tcgen05("f16", ("f16", "bf16"), ("f16", "f32"), 16, 16, mixed=True, mn_major=("f16", "bf16")),
    *_tcgen05("tf32", ("tf32",), ("f32",), 8, 32, mn_major=("tf32",)),
    *_tcgen05("f8f6f4", F8F6F4, ("f16", "f32"), 32, 8, mixed=True, mn_major=F8F6F4),
    *_tcgen05(
        "i8",
        ("s8", "u8"),
        ("s32",),
        32,
        8,
        frozenset({Feature.TCGEN05_I8}),
        mixed=True,
        mn_major=("s8", "u8"),
    ),
    *_tcgen05("ti16", ("ti16",), ("f32",), 16, 16, frozenset({Feature.TCGEN05_TI16})),
    *_tcgen05(
        "f8f6f4", F8F6F4, ("f16", "f32"), 64, 8, _DOUBLE, mixed=True, mn_major=F8F6F4, tag=".k64"
    ),
    *_scaled("mxf8f6f4", F8F6F4, 32, 8, 32, ("ue8m0",), mixed=True, mn_major=F8F6F4),
    *_scaled("mxf8f6f4", F8F6F4, 64, 8, 32, ("ue8m0",), _DOUBLE, mixed=True, mn_major=F8F6F4),
    *_scaled("mxf4", ("e2m1",), 64, 4, 32, ("ue8m0",)),
    *_scaled("mxf4", ("e2m1",), 96, 4, 32, ("ue8m0",), _K96),
    *_scaled("mxf4", ("e2m1",), 128, 4, 32, ("ue8m0",), _DOUBLE),
    *_scaled("mxf4nvf4", ("e2m1",), 64, 4, 16, ("ue4m3", "ue8m0")),
    *_scaled("mxf4nvf4", ("e2m1",), 64, 4, 32, ("ue8m0",)),
    *_scaled("mxf4nvf4", ("e2m1",), 96, 4, 16, ("ue4m3", "ue8m0"), _K96),
    *_scaled("mxf4nvf4", ("e2m1",), 96, 4, 32, ("ue8m0",), _K96),
    *_scaled("mxf4nvf4", ("e2m1",), 128, 4, 16, ("ue4m3", "ue8m0", "ue5m3"), _DOUBLE),
    *_scaled("mxf4nvf4", ("e2m1",), 128, 4, 32, ("ue8m0", "ue4m3"), _DOUBLE),
)
"""Every row, in the order in which `select` prefers them."""


def select(
    features: Collection[Feature],
    a: str,
    b: str,
    d: str,
    cta_group: int = 1,
    block: int = 0,
    scale: str = "",
    ws: bool = False,
    sparse: bool = False,
) -> tuple[Mma, ...]:
    """The rows that a target with these features has for the given types; empty where none fits."""
    return tuple(
        row
        for row in MMAS
        if row.needs.issubset(features)
        and row.takes(a, b, d)
        and (row.cta_group, row.block, row.ws, row.sparse) == (cta_group, block, ws, sparse)
        and (not scale or scale in row.scales)
    )


FORMAT_CODES: Mapping[str, Mapping[str, int]] = {
    "d": {"f16": 0, "f32": 1, "s32": 2},
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5},
    "i8": {"u8": 0, "s8": 1},
    "ti16": {"ti16": 1},
    "mxf8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5},
    "mxf4": {"e2m1": 1},
    "mxf4nvf4": {"e2m1": 1},
    "scale": {"ue4m3": 0, "ue8m0": 1, "ue5m3": 2},
}
"""Numbers of types in the instruction descriptor: of D, of A and B by kind, and of scales."""

_MAJORS = (
    BitField("negate_a", 13, 1),
    BitField("negate_b", 14, 1),
    BitField("a_mn_major", 15, 1),
    BitField("b_mn_major", 16, 1),
)

PLAIN = Word(
    "instruction descriptor",
    32,
    (
        BitField("sparse_selector", 0, 2),
        BitField("sparse", 2, 1),
        BitField("saturate", 3, 1, doc="kind::i8"),
        BitField("d", 4, 2),
        BitField("a", 7, 3),
        BitField("b", 10, 3),
        *_MAJORS,
        BitField("n", 17, 6, 8),
        BitField("m", 24, 5, 16),
        BitField("double_k", 29, 1, doc="K = 64 of kind::f8f6f4 (sm_107)"),
        BitField("max_shift", 30, 2, doc=".ws: 0, 8, 16 or 32 columns"),
    ),
)
"""kind::f16, tf32, f8f6f4, i8 and ti16 (PTX: instruction descriptor tables)."""

MXF8F6F4 = Word(
    "block-scaled instruction descriptor",
    32,
    (
        BitField("sparse", 2, 1),
        BitField("scale_b_id", 4, 2),
        BitField("a", 7, 3),
        BitField("b", 10, 3),
        *_MAJORS,
        BitField("n", 17, 6, 8),
        BitField("scale", 23, 1),
        BitField("scale_a_lanes", 26, 1, doc="A's scales in 128 lanes (sm_107)"),
        BitField("m", 27, 2, 128),
        BitField("scale_a_id", 29, 2),
        BitField("k_low", 31, 1, doc="K = 64 (sm_107)"),
    ),
)

MXF4 = Word(
    "fp4 instruction descriptor",
    32,
    (
        BitField("sparse", 2, 1),
        BitField("k_high", 3, 1),
        BitField("scale_b_id", 4, 2),
        BitField("a", 7, 3),
        BitField("b", 10, 2),
        BitField("sparse_version", 12, 1),
        BitField("negate_a", 13, 1),
        BitField("negate_b", 14, 1),
        BitField("n", 17, 6, 8),
        BitField("scale", 23, 2),
        BitField("scale_a_lanes", 26, 1, doc="A's scales in 128 lanes (sm_107)"),
        BitField("m", 27, 2, 128),
        BitField("scale_a_id", 29, 2),
        BitField("k_low", 31, 1),
    ),
)
"""kind::mxf4 and mxf4nvf4; {k_high, k_low} 0 is K = 64, 1 is 96, 2 is 128."""


def descriptor_word(kind: str) -> Word:
    """The fields of the instruction descriptor of `.kind::f16` or "f16"; raises KeyError for no kind of tcgen05.mma."""
    name = kind.removeprefix(".kind::")
    if name not in FORMAT_CODES or name in ("d", "scale"):
        raise KeyError(f"no tcgen05 kind {name}")
    return {"mxf8f6f4": MXF8F6F4, "mxf4": MXF4, "mxf4nvf4": MXF4}.get(name, PLAIN)


class Instruction(NamedTuple):
    """What an instruction descriptor says, with types by name; `k` is that of the dense matrix."""

    kind: str
    a: str
    b: str
    d: str
    m: int
    n: int
    k: int
    a_mn_major: bool = False
    b_mn_major: bool = False
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    sparse: bool = False
    sparse_selector: int = 0
    max_shift: int = 0
    scale: str = ""
    scale_a_id: int = 0
    scale_b_id: int = 0
    scale_a_lanes: bool = False


_DENSE_K = {"f16": 16, "ti16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32}
_FP4_K = {64: 0, 96: 1, 128: 2}
_SHIFTS = (0, 8, 16, 32)


def encode_instruction(i: Instruction) -> int:
    """The 32-bit instruction descriptor; raises ValueError naming what cannot be said in this kind."""
    kind = i.kind.removeprefix(".kind::")
    word = descriptor_word(kind)
    codes = FORMAT_CODES[kind]
    for operand, name in (("A", i.a), ("B", i.b)):
        if name not in codes:
            raise ValueError(
                f"kind::{kind} takes no {operand} of {name}: one of {', '.join(codes)}"
            )
    values = {
        "a": codes[i.a],
        "b": codes[i.b],
        "m": i.m,
        "n": i.n,
        "negate_a": i.negate_a,
        "negate_b": i.negate_b,
        "sparse": i.sparse,
    }
    if word is MXF4:
        if i.a_mn_major or i.b_mn_major:
            raise ValueError(f"kind::{kind} takes K-major operands only")
        if i.k not in _FP4_K:
            raise ValueError(f"kind::{kind} has no K {i.k}: one of 64, 96, 128")
        values["k_high"], values["k_low"] = divmod(_FP4_K[i.k], 2)
    else:
        values |= {"a_mn_major": i.a_mn_major, "b_mn_major": i.b_mn_major}
        double = i.k == 2 * _DENSE_K[kind]
        if i.k != _DENSE_K[kind] and not (double and kind in ("f8f6f4", "mxf8f6f4")):
            raise ValueError(f"kind::{kind} has no K {i.k}, expected {_DENSE_K[kind]}")
        if double:
            values["k_low" if word is MXF8F6F4 else "double_k"] = 1
    if word is PLAIN:
        if i.d not in FORMAT_CODES["d"]:
            raise ValueError(f"no accumulator type {i.d}: one of {', '.join(FORMAT_CODES['d'])}")
        if i.max_shift not in _SHIFTS:
            raise ValueError(f"maximum shift is {i.max_shift}, expected one of {_SHIFTS}")
        values |= {
            "d": FORMAT_CODES["d"][i.d],
            "saturate": i.saturate,
            "sparse_selector": i.sparse_selector,
            "max_shift": _SHIFTS.index(i.max_shift),
        }
    else:
        if i.scale not in FORMAT_CODES["scale"]:
            raise ValueError(
                f"no scale type {i.scale!r}: one of {', '.join(FORMAT_CODES['scale'])}"
            )
        values |= {
            "scale": FORMAT_CODES["scale"][i.scale],
            "scale_a_id": i.scale_a_id,
            "scale_b_id": i.scale_b_id,
            "scale_a_lanes": i.scale_a_lanes,
        }
        if word is MXF8F6F4 and i.scale != "ue8m0":
            raise ValueError(f"kind::mxf8f6f4 takes scales of ue8m0, not {i.scale}")
    return word.encode({k: int(v) for k, v in values.items()})


def decode_instruction(kind: str, word: int) -> Instruction:
    """What a descriptor says under a kind; raises ValueError for bits or codes without meaning."""
    kind = kind.removeprefix(".kind::")
    fields = descriptor_word(kind)
    v = fields.decode(word)
    names = {code: name for name, code in FORMAT_CODES[kind].items()}
    scale = ""
    if fields is PLAIN:
        k = _DENSE_K[kind] * (2 if v["double_k"] else 1)
        d = _named("accumulator type", FORMAT_CODES["d"], v["d"])
    else:
        d, scale = "f32", _named("scale type", FORMAT_CODES["scale"], v["scale"])
        if fields is MXF4:
            selector = 2 * v["k_high"] + v["k_low"]
            if selector == 3:
                raise ValueError("K selector is 3, expected 0, 1 or 2")
            k = (64, 96, 128)[selector]
        else:
            k = 64 if v["k_low"] else 32
    for operand in ("a", "b"):
        if v[operand] not in names:
            raise ValueError(f"kind::{kind} gives {operand.upper()} format {v[operand]} no meaning")
    return Instruction(
        kind,
        names[v["a"]],
        names[v["b"]],
        d,
        v["m"],
        v["n"],
        k,
        bool(v.get("a_mn_major", 0)),
        bool(v.get("b_mn_major", 0)),
        bool(v["negate_a"]),
        bool(v["negate_b"]),
        bool(v.get("saturate", 0)),
        bool(v["sparse"]),
        v.get("sparse_selector", 0),
        _SHIFTS[v.get("max_shift", 0)],
        scale,
        v.get("scale_a_id", 0),
        v.get("scale_b_id", 0),
        bool(v.get("scale_a_lanes", 0)),
    )


def _named(what: str, codes: Mapping[str, int], code: int) -> str:
    for name, number in codes.items():
        if number == code:
            return name
    raise ValueError(f"{what} {code} has no meaning")

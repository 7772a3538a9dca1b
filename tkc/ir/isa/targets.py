"""What each GPU target has: its features, its limits, and the PTX version that first names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

Version = tuple[int, int]
"""A PTX ISA version: `(8, 6)` is `.version 8.6`."""

NAMED_BARRIERS = 16
"""Barriers of a CTA that `barrier.cta` names, of every target (PTX 9.7.15.1)."""

WARPGROUP = 128
"""Threads."""


class Feature(StrEnum):
    """Something that one target has and another lacks; instruction rows name what they need."""

    # sm_90 and up
    CLUSTER = "clusters and distributed shared memory"
    TMA = "asynchronous bulk and tensor copies"
    GRID_DEPENDENCY = "programmatic dependent launch"
    # single chips or families
    WGMMA = "wgmma"
    SETMAXNREG = "setmaxnreg"
    TENSORMAP_REPLACE = "tensormap.replace"
    PACKED_F32 = "packed f32x2 arithmetic"
    MIXED_FMA = "f32 arithmetic with 16-bit operands"
    MINMAX3 = "three-input minimum and maximum"
    LAUNCH_CONTROL = "cluster launch control"
    LAUNCH_CONTROL_MULTICAST = "multicast cluster launch control"
    PREFERRED_CLUSTER = "preferred cluster sizes"
    WIDE_GLOBAL = "256-bit global loads and stores"
    BULK_MASK = "byte masks on bulk copies"
    BULK_STORE = "st.bulk"
    TMA_GATHER_CTA = "gather4 into the own CTA's shared memory"
    TMA_GATHER = "gather4 and scatter4"
    TMA_PAIR = "tensor copies for a CTA pair"
    TMA_NARROW = "tensor maps of 4- and 6-bit types, and swizzles of larger atoms"
    TCGEN05 = "tcgen05 and tensor memory"
    NARROW_CVT = "conversions of 4-bit, 6-bit and power-of-two formats"
    MATRIX_B8 = "8-bit matrix loads and stores"
    REDUX_F32 = "redux.sync on f32"
    SCALE_VEC = "scale_vec spelling of block scales"
    TCGEN05_SHIFT = "tcgen05.shift"
    TCGEN05_SPARSE_FP4 = "sparse tcgen05.mma on fp4"
    TCGEN05_I8 = "tcgen05.mma on 8-bit integers"
    TCGEN05_LD_RED = "tcgen05.ld with reduction"
    CVT_STOCHASTIC = "conversions with stochastic rounding"
    CVT_S2F6 = "conversions of s2f6"
    FP4_K96 = "tcgen05.mma on fp4 with K = 96"
    SWIZZLE_96B = "96-byte swizzle"
    TCGEN05_DOUBLE_K = "tcgen05.mma with doubled K"
    TCGEN05_TI16 = "tcgen05.mma on 16-bit fixed point"
    TCGEN05_LUT = "look-up decompression of tcgen05.mma operands"
    TCGEN05_COLLECTOR_B = "collector buffers of B"
    TCGEN05_COMMIT_READ = "tcgen05.commit of operand reads alone"
    TENSOR_COLUMNS_576 = "576 columns of tensor memory"
    UE5M3 = "ue5m3 scales"
    MULTICAST_32 = "32-bit multicast masks"
    TMA_OVERRIDE = "tensor copies that override parts of the map"
    L2_PRIORITY = "bulk changes of L2 priority"
    CVT_SCALED = "scaled conversions to narrow formats"
    BYTE_LANES = "packed 8-bit arithmetic"
    MIXED_PACKED = "packed f32x2 arithmetic with 16-bit operands"
    TCGEN05_LD_COMPRESS = "tcgen05.ld with 2:4 compression"


class Residency(NamedTuple):
    """How many multiprocessors of a GPU have work where every cluster has a fixed size: the others lie in parts of the
    chip that are too small for one more."""

    gpu: str
    multiprocessors: int
    active: Mapping[int, int]
    """By CTAs of a cluster, one CTA on a multiprocessor; sizes that are not here leave none idle, or are not known."""


B200 = Residency("B200", 148, {4: 132, 8: 120, 16: 112})
"""Of a whole B200, as the authors of ThunderKittens 2.0 published it; nobody here has asked one."""


class Target(NamedTuple):
    """One `.target`. `suffix` "a" binds text to exactly this chip, "f" to its family, "" to any later chip."""

    name: str
    capability: tuple[int, int]
    suffix: str
    ptx: Version
    features: frozenset[Feature]
    shared_per_cta: int = 232448
    """Bytes of shared memory that one CTA may have (static and dynamic together)."""
    tensor_columns: int = 0
    """32-bit columns of tensor memory, 128 lanes each."""
    registers_per_sm: int = 65536
    max_threads: int = 1024
    max_regs_per_thread: int = 255
    portable_cluster: int = 8
    """CTAs of a cluster that every GPU of the target can hold."""
    max_cluster: int = 16
    residency: Residency | None = None
    """Of the largest GPU of the target, where it is known."""

    def registers_at_entry(self, threads: int) -> int:
        """Registers with which each of `threads` threads that share an SM begins, where they begin with all: in steps
        of 8 (65,536 / 640 threads are 102, hence 96). ptxas counts whole warpgroups: 288 threads are 384, hence 168."""
        whole = -(-threads // WARPGROUP) * WARPGROUP
        return min(-(-self.max_regs_per_thread // 8) * 8, self.registers_per_sm // whole // 8 * 8)

    def has(self, needs: Iterable[Feature]) -> bool:
        """Whether every feature of `needs` is here."""
        return self.features.issuperset(needs)

    def lacks(self, needs: Iterable[Feature]) -> tuple[Feature, ...]:
        """The features of `needs` that are not here, in the order of `Feature`."""
        missing = frozenset(needs) - self.features
        return tuple(f for f in Feature if f in missing) if missing else ()


_F = Feature

_HOPPER = frozenset({_F.CLUSTER, _F.TMA, _F.GRID_DEPENDENCY})
_HOPPER_A = _HOPPER | {_F.WGMMA, _F.SETMAXNREG, _F.TENSORMAP_REPLACE}

_BLACKWELL = _HOPPER | {
    _F.PACKED_F32,
    _F.MIXED_FMA,
    _F.MINMAX3,
    _F.LAUNCH_CONTROL,
    _F.PREFERRED_CLUSTER,
    _F.WIDE_GLOBAL,
    _F.BULK_MASK,
    _F.BULK_STORE,
    _F.TMA_GATHER_CTA,
    _F.TMA_NARROW,
}
"""What plain sm_100 text has, and every later chip."""

_NARROW = frozenset({_F.NARROW_CVT, _F.MATRIX_B8})

_TENSOR = (
    _BLACKWELL
    | _NARROW
    | {
        _F.SETMAXNREG,
        _F.TENSORMAP_REPLACE,
        _F.LAUNCH_CONTROL_MULTICAST,
        _F.TMA_GATHER,
        _F.TMA_PAIR,
        _F.TCGEN05,
        _F.REDUX_F32,
    }
)
"""The sm_100 family: sm_100f text, and every family and exact target of 100, 103 and 107."""

_EXACT = frozenset(
    {_F.SCALE_VEC, _F.TCGEN05_SHIFT, _F.TCGEN05_SPARSE_FP4, _F.CVT_STOCHASTIC, _F.CVT_S2F6}
)
"""What only the exact targets of that family have."""

_ULTRA = _TENSOR | {_F.TCGEN05_LD_RED}
_ULTRA_A = _ULTRA | _EXACT | {_F.FP4_K96, _F.SWIZZLE_96B}

_RUBIN = _ULTRA | {
    _F.TCGEN05_DOUBLE_K,
    _F.TCGEN05_TI16,
    _F.TCGEN05_LUT,
    _F.TCGEN05_COLLECTOR_B,
    _F.TCGEN05_COMMIT_READ,
    _F.TENSOR_COLUMNS_576,
    _F.UE5M3,
    _F.MULTICAST_32,
    _F.TMA_OVERRIDE,
    _F.L2_PRIORITY,
    _F.CVT_SCALED,
    _F.BYTE_LANES,
    _F.MIXED_PACKED,
}
_RUBIN_A = _RUBIN | _EXACT | {_F.FP4_K96, _F.SWIZZLE_96B, _F.TCGEN05_LD_COMPRESS}

_CONSUMER = (
    _BLACKWELL
    | _NARROW
    | {
        _F.SETMAXNREG,
        _F.TENSORMAP_REPLACE,
        _F.LAUNCH_CONTROL_MULTICAST,
        _F.CVT_S2F6,
        _F.BYTE_LANES,
    }
)

_RUBIN_SHARED = 334848
_CONSUMER_SHARED = 101376

TARGETS: Mapping[str, Target] = {
    t.name: t
    for t in (
        Target("sm_90", (9, 0), "", (7, 8), _HOPPER),
        Target("sm_90a", (9, 0), "a", (8, 0), _HOPPER_A),
        Target("sm_100", (10, 0), "", (8, 6), _BLACKWELL, tensor_columns=0),
        Target("sm_100f", (10, 0), "f", (8, 8), _TENSOR, tensor_columns=512, residency=B200),
        Target(
            "sm_100a",
            (10, 0),
            "a",
            (8, 6),
            _TENSOR | _EXACT | {_F.TCGEN05_I8},
            tensor_columns=512,
            residency=B200,
        ),
        Target("sm_103f", (10, 3), "f", (8, 8), _ULTRA, tensor_columns=512),
        Target("sm_103a", (10, 3), "a", (8, 8), _ULTRA_A, tensor_columns=512),
        Target("sm_107f", (10, 7), "f", (9, 4), _RUBIN, _RUBIN_SHARED, tensor_columns=576),
        Target("sm_107a", (10, 7), "a", (9, 4), _RUBIN_A, _RUBIN_SHARED, tensor_columns=576),
        Target(
            "sm_120a",
            (12, 0),
            "a",
            (8, 7),
            _CONSUMER,
            _CONSUMER_SHARED,
        ),
    )
}
"""Every target by its `.target` name."""


def targets_with(*ways: Iterable[Feature]) -> str:
    """`--target sm_90a (wgmma) or sm_100f, sm_100a (tcgen05)`: what has every feature of one of the ways."""
    named = ((way, ", ".join(t.name for t in TARGETS.values() if t.has(way))) for way in ways)
    some = [f"{names} ({', '.join(sorted(way))})" for way, names in named if names]
    return f"--target {' or '.join(some)}" if some else "no target has it"


def target(name: str) -> Target:
    """The target called `name`; raises KeyError whose text names the nearest ones."""
    found = TARGETS.get(name)
    if found is None:
        raise KeyError(f"no target {name!r}: nearest are {', '.join(nearest(name))}")
    return found


def nearest(name: str, count: int = 3) -> tuple[str, ...]:
    """Names of targets that look most like `name`, best first; never empty."""
    from difflib import SequenceMatcher

    wanted = name.lower().replace("-", "_")
    ranked = sorted(
        TARGETS,
        key=lambda t: (-round(SequenceMatcher(None, wanted, t).ratio(), 3), list(TARGETS).index(t)),
    )
    return tuple(ranked[:count])


def runs_on(text: Target, capability: tuple[int, int]) -> bool:
    """Whether PTX written for `text` can be loaded on a GPU of `capability`.

    Exact text runs on its own chip alone, family text on later chips of the same family (major number), plain text on
    every later chip (PTX 11.1.2).
    """
    if text.suffix == "a":
        return capability == text.capability
    if text.suffix == "f":
        return capability[0] == text.capability[0] and capability[1] >= text.capability[1]
    return capability >= text.capability

"""Rows of loads, stores, address conversions and warp-level matrix moves."""

from __future__ import annotations

from tkc.ir.isa.instructions import Choice, Row, Together, texts
from tkc.ir.isa.instructions.atomics import ASYNC, ATOMICS
from tkc.ir.isa.instructions.caches import ADDRESSES as MORE_ADDRESSES
from tkc.ir.isa.instructions.caches import CACHES, COPIES
from tkc.ir.isa.memory import Kind, Space, Touch
from tkc.ir.isa.targets import Feature

_WIDE = frozenset({Feature.WIDE_GLOBAL})
_B8 = frozenset({Feature.MATRIX_B8})

_LD = "data-movement-and-conversion-instructions-ld"
_ST = "data-movement-and-conversion-instructions-st"

_TYPES = (
    *texts(".b32", ".u32", ".s32", ".f32", ".b64", ".u64", ".s64", ".f64"),
    *texts(".b16", ".u16", ".s16", ".b8", ".u8", ".s8"),
)
_B128 = texts(".b128", ptx=(8, 3))
_SHARED = texts(".shared::cta", ".shared::cluster", ptx=(7, 8))
_SPACES = (*texts(".global", ".shared", ".local"), *_SHARED)
_SCOPES = (
    *texts(".cta", ".gpu", ".sys", along={"sem": ".relaxed"}),
    Choice(".cluster", (7, 8), along={"sem": ".relaxed"}),
)
_HINT = texts(".L2::cache_hint", ptx=(7, 4), along={"space": ".global"})
_EVICT = texts(
    ".L1::evict_normal",
    ".L1::evict_unchanged",
    ".L1::evict_first",
    ".L1::evict_last",
    ".L1::no_allocate",
    ptx=(7, 4),
    along={"space": ".global"},
)
_L2_EVICT = texts(
    ".L2::evict_normal",
    ".L2::evict_last",
    ".L2::evict_first",
    ptx=(8, 8),
    needs=_WIDE,
    along={"space": ".global", "vec": ".v8", "type": ".b32"},
)
_SIZE = texts(".L2::64B", ".L2::128B", ".L2::256B", ptx=(7, 4), along={"space": ".global"})

_LD_SLOTS = {
    "sem": (
        *texts(".weak", ".volatile"),
        *texts(".relaxed", ".acquire", along={"scope": ".gpu"}),
    ),
    "scope": _SCOPES,
    "space": (*_SPACES, *texts(".const")),
    "nc": texts(".nc", along={"space": ".global"}),
    "cop": texts(".ca", ".cg", ".cs", ".lu", ".cv", along={"space": ".global"}),
    "evict": _EVICT,
    "hint": _HINT,
    "prefetch": _SIZE,
}
_ST_SLOTS = {
    "sem": (
        *texts(".weak", ".volatile"),
        *texts(".relaxed", ".release", along={"scope": ".gpu"}),
    ),
    "scope": _SCOPES,
    "space": _SPACES,
    "cop": texts(".wb", ".cg", ".cs", ".wt", along={"space": ".global"}),
    "evict": _EVICT,
    "hint": _HINT,
}

_VEC = (
    *texts(".v2", ".v4"),
    Choice(".v8", (8, 8), _WIDE, {"space": ".global", "type": ".b32"}),
)

_WIDE_PAIRS = tuple(
    Together({"space": ".global", "vec": ".v4", "type": t}, (8, 8), _WIDE)
    for t in (".b64", ".u64", ".s64", ".f64")
)

_READ = (Touch(Kind.READ, "addr", Space.GENERIC),)
_WRITE = (Touch(Kind.WRITE, "addr", Space.GENERIC),)

LOADS_STORES = (
    Row(
        "ld",
        "ld<sem?><scope?><space?><nc?><cop?><evict?><hint?><prefetch?><type>",
        "d, [addr{?+offset}]{?, policy}",
        {"d": "type", "addr": "address", "offset": "imm", "policy": "b64"},
        ("d",),
        {**_LD_SLOTS, "type": (*_TYPES, *_B128)},
        _READ,
        section=_LD,
        doc="loads one value",
    ),
    Row(
        "ld.vec",
        "ld<sem?><scope?><space?><nc?><cop?><evict?><l2?><hint?><prefetch?><vec><type>",
        "{d*}, [addr{?+offset}]{?, policy}",
        {"d": "type*", "addr": "address", "offset": "imm", "policy": "b64"},
        ("d",),
        {**_LD_SLOTS, "l2": _L2_EVICT, "vec": _VEC, "type": _TYPES},
        _READ,
        section=_LD,
        doc="loads 2, 4 or 8 values that lie side by side, 16 bytes or (global memory) 32",
        together=_WIDE_PAIRS,
    ),
    Row(
        "ld.param",
        "ld.param<type>",
        "d, [param{?+offset}]",
        {"d": "type", "param": "imm", "offset": "imm"},
        ("d",),
        {"type": _TYPES},
        section=_LD,
        doc="reads a kernel parameter",
        pure=True,
    ),
    Row(
        "ld.param.vec",
        "ld.param<vec><type>",
        "{d*}, [param{?+offset}]",
        {"d": "type*", "param": "imm", "offset": "imm"},
        ("d",),
        {"vec": texts(".v2", ".v4"), "type": _TYPES},
        section=_LD,
        doc="reads 2 or 4 values of a kernel parameter",
        pure=True,
    ),
    Row(
        "st",
        "st<sem?><scope?><space?><cop?><evict?><hint?><type>",
        "[addr{?+offset}], a{?, policy}",
        {"addr": "address", "offset": "imm", "a": "type", "policy": "b64"},
        (),
        {**_ST_SLOTS, "type": (*_TYPES, *_B128)},
        _WRITE,
        section=_ST,
        doc="stores one value",
    ),
    Row(
        "st.param",
        "st.param<type>",
        "[param{?+offset}], a",
        {"param": "imm", "offset": "imm", "a": "type"},
        (),
        {"type": _TYPES},
        (Touch(Kind.WRITE, "param", Space.PARAM),),
        section=_ST,
        doc="writes an argument of a call",
        emitted=False,
    ),
    Row(
        "st.param.vec",
        "st.param<vec><type>",
        "[param{?+offset}], {a*}",
        {"param": "imm", "offset": "imm", "a": "type*"},
        (),
        {"vec": texts(".v2", ".v4"), "type": _TYPES},
        (Touch(Kind.WRITE, "param", Space.PARAM),),
        section=_ST,
        doc="writes 2 or 4 values of an argument of a call",
        emitted=False,
    ),
    Row(
        "st.vec",
        "st<sem?><scope?><space?><cop?><evict?><l2?><hint?><vec><type>",
        "[addr{?+offset}], {a*}{?, policy}",
        {"addr": "address", "offset": "imm", "a": "type*", "policy": "b64"},
        (),
        {**_ST_SLOTS, "l2": _L2_EVICT, "vec": _VEC, "type": _TYPES},
        _WRITE,
        section=_ST,
        doc="stores 2, 4 or 8 values side by side, 16 bytes or (global memory) 32",
        together=_WIDE_PAIRS,
    ),
)

_CVTA = "data-movement-and-conversion-instructions-cvta"

ADDRESSES = (
    Row(
        "cvta",
        "cvta<space>.u64",
        "d, a",
        {"d": "b64", "a": "b64"},
        ("d",),
        {
            "space": (
                *texts(".global", ".shared", ".local", ".const"),
                Choice(".param", (7, 7)),
                *_SHARED,
            )
        },
        ptx=(2, 0),
        section=_CVTA,
        doc="address in a state space to generic address",
        pure=True,
    ),
    Row(
        "cvta.param",
        "cvta.param.u64",
        "d, a",
        {"d": "b64", "a": "b64"},
        ("d",),
        ptx=(7, 7),
        section=_CVTA,
        doc="address of a parameter to generic address",
        pure=True,
        form_of="cvta",
    ),
    Row(
        "cvta.to",
        "cvta.to<space>.u64",
        "d, a",
        {"d": "b64", "a": "b64"},
        ("d",),
        {"space": (*texts(".global", ".shared", ".local", ".const"), Choice(".param", (7, 7)), *_SHARED)},
        ptx=(2, 0),
        section=_CVTA,
        doc="generic address to address in a state space",
        pure=True,
    ),
    Row(
        "mapa",
        "mapa.shared::cluster.u32",
        "d, a, rank",
        {"d": "b32", "a": "b32", "rank": "b32"},
        ("d",),
        ptx=(7, 8),
        needs=frozenset({Feature.CLUSTER}),
        section="data-movement-and-conversion-instructions-mapa",
        doc="address of the same variable in the CTA of the given rank",
        pure=True,
    ),
)

_LDMATRIX = "warp-level-matrix-instructions-ldmatrix"
_STMATRIX = "warp-level-matrix-instructions-stmatrix"
_LDM = (Touch(Kind.READ, "addr", Space.SHARED),)
_STM = (Touch(Kind.WRITE, "addr", Space.SHARED),)

MATRICES = (
    Row(
        "ldmatrix",
        "ldmatrix.sync.aligned.m8n8<num><trans?><space>.b16",
        "{d*}, [addr]",
        {"d": "b32*", "addr": "b32"},
        ("d",),
        {
            "num": texts(".x4", ".x2", ".x1"),
            "trans": texts(".trans"),
            "space": (*texts(".shared"), *texts(".shared::cta", ptx=(7, 8))),
        },
        _LDM,
        ptx=(6, 5),
        section=_LDMATRIX,
        doc="loads 8x8 matrices of 16-bit elements, row addresses from lanes",
        convergent=True,
    ),
    Row(
        "stmatrix",
        "stmatrix.sync.aligned.m8n8<num><trans?><space>.b16",
        "[addr], {a*}",
        {"addr": "b32", "a": "b32*"},
        (),
        {
            "num": texts(".x4", ".x2", ".x1"),
            "trans": texts(".trans"),
            "space": texts(".shared", ".shared::cta"),
        },
        _STM,
        ptx=(7, 8),
        section=_STMATRIX,
        doc="stores 8x8 matrices of 16-bit elements, row addresses from lanes",
        convergent=True,
    ),
)

_LDM_B8 = {"d": "b32*", "addr": "b32"}
_ANY_SHARED = texts(".shared", ".shared::cta")
_UNPACK = (Choice(".b8x16.b4x16_p64", needs=_B8), Choice(".b8x16.b6x16_p32", needs=_B8))

MATRICES_B8 = (
    Row(
        "ldmatrix.b8",
        "ldmatrix.sync.aligned.m16n16<num>.trans<space><format>",
        "{d*}, [addr]",
        _LDM_B8,
        ("d",),
        {
            "num": texts(".x1", ".x2"),
            "space": _ANY_SHARED,
            "format": (Choice(".b8"), *_UNPACK),
        },
        _LDM,
        (8, 6),
        _B8,
        _LDMATRIX,
        "loads 16x16 matrices of bytes transposed, or of 4- and 6-bit elements",
        convergent=True,
    ),
    Row(
        "ldmatrix.narrow",
        "ldmatrix.sync.aligned.m8n16<num><space><format>",
        "{d*}, [addr]",
        _LDM_B8,
        ("d",),
        {
            "num": texts(".x1", ".x2", ".x4"),
            "space": _ANY_SHARED,
            "format": _UNPACK,
        },
        _LDM,
        (8, 6),
        section=_LDMATRIX,
        doc="loads 8x16 matrices of 4- or 6-bit elements, one to a byte",
        emitted=False,
        convergent=True,
    ),
    Row(
        "stmatrix.b8",
        "stmatrix.sync.aligned.m16n8<num>.trans<space>.b8",
        "[addr], {a*}",
        {"addr": "b32", "a": "b32*"},
        (),
        {"num": texts(".x1", ".x2", ".x4"), "space": _ANY_SHARED},
        _STM,
        (8, 6),
        _B8,
        _STMATRIX,
        "stores 16x8 matrices of bytes transposed",
        convergent=True,
    ),
    Row(
        "movmatrix",
        "movmatrix.sync.aligned.m8n8.trans.b16",
        "d, a",
        {"d": "b32", "a": "b32"},
        ("d",),
        ptx=(7, 8),
        section="warp-level-matrix-instructions-movmatrix",
        doc="transposes an 8x8 matrix of 16-bit elements across the warp",
        emitted=False,
        convergent=True,
        pure=True,
    ),
)

_MULTIMEM = "data-movement-and-conversion-instructions-multimem"
_MULTI_TYPES = (
    *texts(".u32", ".s32", ".u64", ".f32"),
    *texts(".b32", ".b64", along={"op": ".and"}),
    Choice(".s64", along={"op": ".min"}),
    *texts(".f16x2", ".bf16x2"),
)
_MULTI_SLOTS = {
    "scope": (*texts(".sys", ".gpu", ".cta", along={"sem": ".relaxed"}),
              Choice(".cluster", (7, 8), along={"sem": ".relaxed"})),
    "space": texts(".global"),
}
_MULTI_OP = (*texts(".add", ".min", ".max"), *texts(".and", ".or", ".xor", along={"type": ".b32"}))

MULTICAST = (
    Row(
        "multimem.ld_reduce",
        "multimem.ld_reduce<sem?><scope?><space?><op><acc?><type>",
        "d, [addr]",
        {"d": "type", "addr": "b64"},
        ("d",),
        {"sem": texts(".weak") + texts(".relaxed", ".acquire", along={"scope": ".sys"}),
         **_MULTI_SLOTS, "op": _MULTI_OP,
         "acc": texts(".acc::f32", ptx=(8, 2), along={"type": ".bf16x2"}), "type": _MULTI_TYPES},
        (Touch(Kind.READ, "addr", Space.GLOBAL),),
        (8, 1),
        section=_MULTIMEM,
        doc="loads from every GPU of a multicast address and reduces",
        emitted=False,
    ),
    Row(
        "multimem.ld_reduce.vec",
        "multimem.ld_reduce<sem?><scope?><space?>.add<acc?><vec><type>",
        "{d*}, [addr]",
        {"d": "type*", "addr": "b64"},
        ("d",),
        {"sem": texts(".weak") + texts(".relaxed", ".acquire", along={"scope": ".sys"}),
         **_MULTI_SLOTS,
         "acc": texts(".acc::f32", ptx=(8, 2), along={"type": ".bf16x2"}),
         "vec": texts(".v4", ".v2"), "type": texts(".f32", ".f16x2", ".bf16x2")},
        (Touch(Kind.READ, "addr", Space.GLOBAL),),
        (8, 1),
        section=_MULTIMEM,
        doc="loads neighbouring values from every GPU of a multicast address and reduces",
        emitted=False,
    ),
    Row(
        "multimem.st.vec",
        "multimem.st<sem?><scope?><space?><vec><type>",
        "[addr], {a*}",
        {"addr": "b64", "a": "type*"},
        (),
        {"sem": texts(".weak") + texts(".relaxed", ".release", along={"scope": ".sys"}),
         **_MULTI_SLOTS, "vec": texts(".v4", ".v2"), "type": texts(".f32", ".f16x2", ".bf16x2")},
        (Touch(Kind.WRITE, "addr", Space.GLOBAL),),
        (8, 1),
        section=_MULTIMEM,
        doc="stores neighbouring values to every GPU of a multicast address",
        emitted=False,
    ),
    Row(
        "multimem.red",
        "multimem.red<sem?><scope?><space?><op><type>",
        "[addr], a",
        {"addr": "b64", "a": "type"},
        (),
        {"sem": texts(".relaxed", ".release", along={"scope": ".sys"}),
         **_MULTI_SLOTS, "op": _MULTI_OP, "type": _MULTI_TYPES},
        (Touch(Kind.READ, "addr", Space.GLOBAL), Touch(Kind.WRITE, "addr", Space.GLOBAL)),
        (8, 1),
        section=_MULTIMEM,
        doc="updates every GPU of a multicast address",
        emitted=False,
    ),
)

ROWS = (
    *LOADS_STORES,
    *ADDRESSES,
    *MATRICES,
    *MATRICES_B8,
    *MULTICAST,
    *ATOMICS,
    *ASYNC,
    *COPIES,
    *CACHES,
    *MORE_ADDRESSES,
)

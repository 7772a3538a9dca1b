"""The launch contract beside the PTX: what a kernel takes, and how grid, tensor maps and scalars follow from it.

A contract file is JSON, `{"schema": "tkc-launch/1", "ptx": "k.ptx", "ptx_sha256": "…", "kernels": [KERNEL, …]}`.
`ptx` and `cubin` name files beside it, at least one of them. `ptx_sha256` (of the UTF-8 text, optional) tells a torn
pair; delete the line to launch an edited text. The form of a KERNEL, all keys in this order, `?` marks an optional one:

    entry            "gemm"                    the PTX entry name, and the kernel's name
    target           "sm_100a"
    ptx_version      "8.6"
    params           {"BM": 128, …}            compile-time values: integers, booleans, texts
    symbols          {"M": [PLACE, …], …}      where each size is read, the first place first; [] = given by the caller.
                                               PLACE: {"argument": "A", "dimension": 0} (an element count), or
                                               {"argument": "n"} (the value of an integer scalar); one PLACE may
                                               stand without its list. All places must agree (TK407).
    arguments        [ARGUMENT, …]             what the user passes, in order
    args             [ARG, …]                  the kernel's parameters, in order
    grid             [EXPR, EXPR, EXPR]        in CTAs, x first
    cluster          {"size": [1, 1, 1], "preferred": null, "minimum": null}
                                               CTAs; `size` is what the launch asks for; with `preferred` (a larger
                                               one, a multiple of `size`) the driver may use it where it fits;
                                               `minimum`: the smallest that the code is right for, null = `size`
    block            [384, 1, 1]               threads
    shared_bytes     197632                    dynamic shared memory, without the static part
    tensor_columns   512                       tensor memory that a CTA allocates; 0 = none
    registers        168                       per thread at entry, as assembled; null = not known
    attributes       {}                        "dependent": true    programmatic dependent launch; only where every
                                                                    global access follows griddepcontrol.wait
                                               "cooperative": true  all CTAs resident at once
    requires         [{"test": EXPR, "message": "K = {K} is not a multiple of 128"}, …]
                                               each test must be nonzero at launch (TK414); `{name}` is a symbol's value
    outputs          ["C"]                     arguments that the kernel writes
    empty            [{"when": ["M", "N"], "do": "nothing"}, …]
                                               first rule one of whose symbols is 0 decides: "nothing" = no launch,
                                               "zero" = no launch, outputs zero-filled. No rule: launched (K = 0)
    versions         {"tkc": "0.1.0", "assembler": "ptxas 13.5.37"}      who made it; texts or null

ARGUMENT, an array:
    {"name": "A", "dtype": "bf16", "dims": ["M", "K"], "access": "read" | "write" | "readwrite",
     "major": 1?, "contiguous": "major"?, "align": 16?}
    dims: outermost first; a symbol, an integer, or an EXPR that is checked and not solved. Sub-byte dtypes count elements.
    major: the axis that must have element stride 1; the last when absent.
    contiguous: "major" (that axis only; the default), "all" (row-major without gaps), "none" (any strides).
    align: bytes, of the base address; when absent 16 if a tensor map reads it (32 for padded types), else one element.
ARGUMENT, a scalar: {"name": "alpha", "dtype": "f32", "scalar": true}. Python numbers; checked against the dtype.

ARG, one of
    {"kind": "tensormap", "argument": "A", "dtype": "bf16", "sizes": [EXPR, …], "strides": [EXPR, …], "box": [64, 128],
     "element_strides": [1, 1]?, "interleave": "none"?, "swizzle": "128B"?, "l2_promotion": "256B"?, "fill": "zero"?,
     "type": "16U4_ALIGN16B"?, "offset": EXPR?, "name": "A_map"?}
        The operands of cuTensorMapEncodeTiled, innermost axis first (PTX tensors count the same way). sizes: elements,
        one for each of 1..5 axes; strides: bytes, for axes 1..rank-1; offset: bytes on the base address.
        interleave: none 16B 32B; swizzle: none 32B 64B 128B 128B_atom_32B 128B_atom_32B_flip_8B 128B_atom_64B;
        l2_promotion: none 64B 128B 256B; fill: zero nan; type: the driver's name, when it is not the dtype's own.
        Absent: element_strides all 1, "none", "none", "none", "zero".
        A 128-byte parameter, `.param .align 64 .b8 x[128]`.
    {"kind": "pointer", "argument": "X", "dtype": "f32", "offset": EXPR?, "name": "x"?}     a 64-bit global address
    {"kind": "scalar", "dtype": "i32", "value": EXPR, "name": "m"?}                         an integer made of sizes
    {"kind": "scalar", "dtype": "f32", "argument": "alpha", "name": "alpha"?}               a scalar passed on

EXPR, evaluated with exact integers (`tkc.backend.expressions`):
    128 | {"sym": "M"} | {"stride": ["A", 0]} | {"op": "ceildiv", "of": [EXPR, …]}
    sym: a key of `symbols`, an integer scalar argument, "sm_count", or "max_clusters" (clusters of `cluster.size` that
    are resident at once on the device, by the driver's occupancy call; in `grid` only).
    stride: bytes between neighbours on that axis (0 = outermost) of the array passed; where the array has at most one
    element on the axis, or none at all, any number is right and one that is a multiple of 16 is given.
    op: add mul min max (two or more), sub floordiv ceildiv mod eq lt (two), select (condition, then, else; only the
    chosen one is evaluated). floordiv and mod round down, as in Python; eq and lt give 1 or 0.

The GEMM of the README for sm_100a:

    {"entry": "gemm", "target": "sm_100a", "ptx_version": "8.6",
     "params": {"BM": 128, "BN": 256, "BK": 64, "STAGES": 4},
     "symbols": {"M": [{"argument": "A", "dimension": 0}, {"argument": "C", "dimension": 0}],
                 "K": [{"argument": "A", "dimension": 1}, {"argument": "B", "dimension": 1}],
                 "N": [{"argument": "B", "dimension": 0}, {"argument": "C", "dimension": 1}]},
     "arguments": [{"name": "A", "dtype": "bf16", "dims": ["M", "K"], "access": "read"},
                   {"name": "B", "dtype": "bf16", "dims": ["N", "K"], "access": "read"},
                   {"name": "C", "dtype": "bf16", "dims": ["M", "N"], "access": "write"}],
     "args": [{"kind": "tensormap", "argument": "A", "dtype": "bf16", "sizes": [{"sym": "K"}, {"sym": "M"}],
               "strides": [{"stride": ["A", 0]}], "box": [64, 128], "swizzle": "128B", "l2_promotion": "256B"},
              {"kind": "tensormap", "argument": "B", "dtype": "bf16", "sizes": [{"sym": "K"}, {"sym": "N"}],
               "strides": [{"stride": ["B", 0]}], "box": [64, 256], "swizzle": "128B", "l2_promotion": "256B"},
              {"kind": "tensormap", "argument": "C", "dtype": "bf16", "sizes": [{"sym": "N"}, {"sym": "M"}],
               "strides": [{"stride": ["C", 0]}], "box": [64, 32], "swizzle": "128B"},
              {"kind": "scalar", "dtype": "i32", "value": {"sym": "M"}, "name": "M"},
              {"kind": "scalar", "dtype": "i32", "value": {"sym": "N"}, "name": "N"},
              {"kind": "scalar", "dtype": "i32", "value": {"sym": "K"}, "name": "K"}],
     "grid": [{"op": "min", "of": [{"sym": "sm_count"},
                                   {"op": "mul", "of": [{"op": "ceildiv", "of": [{"sym": "M"}, 128]},
                                                        {"op": "ceildiv", "of": [{"sym": "N"}, 256]}]}]}, 1, 1],
     "cluster": {"size": [1, 1, 1], "preferred": null, "minimum": null},
     "block": [192, 1, 1], "shared_bytes": 230400, "tensor_columns": 512, "registers": null, "attributes": {},
     "requires": [], "outputs": ["C"], "empty": [{"when": ["M", "N"], "do": "nothing"}],
     "versions": {"tkc": "0.1.0", "assembler": null}}

The passes leave everything but entry, target, ptx_version, registers and versions as the attribute `contract` on the
kernel op (`tkc.ir.contract`); `complete` adds the rest.
"""

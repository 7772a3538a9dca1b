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
                                               `minimum`: the smallest that the code is right for, null = `size`,
                                               asked for where `size` does not divide the grid
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
     "major": 1?, "contiguous": "major" | "all" | "none"?, "align": 16?, "list": true?, "scales": {…}?}
    dims: outermost first; a symbol, an integer, or an EXPR (checked, not solved). Sub-byte dtypes count elements.
    list: the user passes as many arrays as the first of `dims` says, in a Python list, or one array whose first axis
    numbers them; the other dims are those of each, which all agree in. One that is null is each array's own: the device
    knows how much of it counts.
    major: the axis that must have element stride 1; the last when absent.
    contiguous: "major" (that axis only), "all" (row-major without gaps), "none" (any strides). When absent: "all" if a
    pointer reads it (a kernel that takes the strides too says "major"), else "major".
    align: bytes, of the base address; when absent 16 if a tensor map reads it (32 for padded types), else one element.
    scales: {"of": "A", "block": 16}, the array holds the block scales of argument A, which stands before it: for each
    index of A's leading axes the scales of its last two, in the order of `tkc.scales.interleave`, padding included. The
    user passes both as a pair, or one after the other; of a list, pairs in a list, or two lists.
ARGUMENT, a scalar: {"name": "alpha", "dtype": "f32", "scalar": true}. Python numbers; checked against the dtype.

ARG, one of
    {"kind": "tensormap", "argument": "A", "dtype": "bf16", "sizes": [EXPR, …], "strides": [EXPR, …], "box": [64, 128],
     "element_strides": [1, 1]?, "interleave": "none"?, "swizzle": "128B"?, "l2_promotion": "256B"?, "fill": "zero"?,
     "type": "16U4_ALIGN16B"?, "offset": EXPR?, "name": "A_map"?}
        The operands of cuTensorMapEncodeTiled, innermost axis first (PTX tensors count the same way). sizes: elements,
        one for each of 1..5 axes; strides: bytes, for axes 1..rank-1; offset: bytes on the base address.
        interleave: none 16B 32B; swizzle: none 32B 64B 128B 128B_atom_32B 128B_atom_32B_flip_8B 128B_atom_64B;
        l2_promotion: none 64B 128B 256B; fill: zero nan; type: the driver's name, when it is not the dtype's own.
        Absent: element_strides all 1, "none", "none", "none", "zero"; a contract that tkc writes has them all.
        A 128-byte parameter, `.param .align 64 .b8 x[128]`.
    {"kind": "tensormaps", … as a tensormap without `offset`, of an argument that is a list}
        The address of one map for each array, one after another in global memory that the launch provides, sent in the
        stream's order. A size that is null is the array's own; of scales, on the outermost axis, as many rows of atoms
        as the array holds. In `strides` axis 0 is the list.
    {"kind": "scratch", "bytes": 512, "name": "map_space"?}
        The address of so many bytes for each CTA of the grid, for as long as it runs; their contents are undefined.
    {"kind": "pointer", "argument": "X", "dtype": "f32", "offset": EXPR?, "align": 16?, "name": "x"?} a global address
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

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tkc.backend.contract import KEYS, SCHEMA, check_file, check_kernel
from tkc.backend.schema import is_object, refuse
from tkc.diagnostics import Bug, TkcError
from tkc.digests import sha256

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def complete(
    contract: Mapping[str, Any],
    *,
    entry: str,
    target: str,
    ptx_version: str,
    registers: int | None = None,
    versions: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """What the passes left, with the rest filled in and checked: one KERNEL, keys in order.

    `attributes`, `requires`, `empty` and `tensor_columns` may be absent and are then empty; TK411 for anything else.
    """
    from tkc.version import __version__

    given: dict[str, Any] = {
        "attributes": {},
        "requires": [],
        "empty": [],
        "tensor_columns": 0,
        **contract,
        "entry": entry,
        "target": target,
        "ptx_version": ptx_version,
        "registers": registers,
        "versions": {"tkc": __version__, "assembler": None, **(versions or {})},
    }
    check_kernel(given, entry)
    given["args"] = [_whole(arg, given["arguments"]) for arg in given["args"]]
    kernel = {key: given[key] for key in KEYS}
    cluster = kernel["cluster"]
    kernel["cluster"] = {key: cluster.get(key) for key in ("size", "preferred", "minimum")}
    return kernel


def _whole(arg: Mapping[str, Any], arguments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A parameter with every field of its kind said, also where it is what an absent one means."""
    nobody: Mapping[str, Any] = {}
    named = next((a for a in arguments if a["name"] == arg.get("argument")), nobody)
    if arg["kind"] == "pointer":
        contiguity = named.get("contiguous", "all")
        return {**arg, "rank": len(named["dims"]), "contiguity": contiguity}
    if arg["kind"] not in ("tensormap", "tensormaps"):
        return dict(arg)
    absent = {
        "element_strides": [1] * len(arg["sizes"]),
        "interleave": "none",
        "swizzle": "none",
        "l2_promotion": "none",
        "fill": "zero",
    }
    return {**absent, **arg}


def contract_of(module: ModuleOp, ptx: str, **versions: str | None) -> dict[str, Any]:
    """The contract file's content for a module that the passes have lowered: one KERNEL for each op with a `contract`.

    `ptx` is the module's text, whose `.version` and `.target` lines are taken. Raises Bug where the passes left no
    contract, or a wrong one.
    """
    from tkc.ir.contract import from_attribute

    header = ptx_header(ptx)
    kernels: list[dict[str, Any]] = []
    for op in module.ops:
        attribute = op.properties.get("contract") or op.attributes.get("contract")
        if attribute is None:
            continue
        name = op.properties.get("sym_name") or op.attributes["sym_name"]
        try:
            kernels.append(
                complete(
                    from_attribute(attribute),
                    entry=from_attribute(name),
                    target=header.target,
                    ptx_version=header.version,
                    versions=versions,
                )
            )
        except TkcError as error:
            raise Bug("the launch contract", error.diagnostics[0].message) from error
    if not kernels:
        raise Bug("the launch contract", "the module has no kernel with a contract")
    return {"schema": SCHEMA, "kernels": kernels}


def with_assembly(
    contract: Mapping[str, Any], registers: Mapping[str, int], assembler: str
) -> dict[str, Any]:
    """The same contract with what an assembler has found: each kernel's registers, and the tool's name and version."""
    kernels = [
        {
            **kernel,
            "registers": registers.get(kernel["entry"]),
            "versions": {**kernel["versions"], "assembler": assembler},
        }
        for kernel in contract["kernels"]
    ]
    return {**contract, "kernels": kernels}


class Header(NamedTuple):
    """The first lines of a PTX text: `.version 8.6`, `.target sm_100a`, and the entries that follow."""

    version: str
    target: str
    entries: tuple[str, ...]


def ptx_header(ptx: str) -> Header:
    """Reads the header; raises TkcError TK210 where the text has none."""
    version = re.search(r"^\s*\.version\s+(\d+\.\d+)", ptx, re.MULTILINE)
    target = re.search(r"^\s*\.target\s+(\w+)", ptx, re.MULTILINE)
    if version is None or target is None:
        raise TkcError.at(
            "TK210", f"the PTX text has no {'.version' if version is None else '.target'} line"
        )
    return Header(version[1], target[1], tuple(re.findall(r"\.entry\s+([\w$]+)", ptx)))


class Package(NamedTuple):
    """What a contract file holds: its kernels, and the PTX text or cubin that they come from."""

    kernels: tuple[dict[str, Any], ...]
    ptx: str | None = None
    cubin: bytes | None = None
    folder: Path | None = None


def to_json(
    contract: Mapping[str, Any],
    *,
    ptx_name: str | None = None,
    ptx: str | None = None,
    cubin_name: str | None = None,
) -> str:
    """The text of a contract file; `ptx` gives the checksum."""
    head: dict[str, Any] = {"schema": SCHEMA}
    if ptx_name is not None:
        head["ptx"] = ptx_name
    if ptx is not None:
        head["ptx_sha256"] = sha256(ptx.encode()).hexdigest()
    if cubin_name is not None:
        head["cubin"] = cubin_name
    # One key of a kernel a line: a contract reads like a table, and a diff shows what moved.
    bodies = [
        "{\n"
        + ",\n".join(f"      {json.dumps(k)}: {json.dumps(v)}" for k, v in kernel.items())
        + "\n    }"
        for kernel in contract["kernels"]
    ]
    keys = "".join(f"  {json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items())
    return "{\n" + keys + '  "kernels": [\n    ' + ",\n    ".join(bodies) + "\n  ]\n}\n"


def write_files(files: Mapping[Path, str | bytes]) -> None:
    """Writes every file or none: all to temporary neighbours first, then each into place by one rename.

    Text is UTF-8 with the newlines that it has; folders are made; a link is followed; what is no plain file (/dev/null,
    a pipe) is written to directly. Raises TkcError TK118 naming the path that cannot be written; the files that were
    there before are then as they were.
    """
    staged: list[tuple[Path, Path]] = []
    placed: list[tuple[Path, Path | None]] = []
    path = Path()
    try:
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not stat.S_ISREG(path.stat().st_mode):
                with path.open("wb", buffering=0) as file:
                    file.write(data)
                continue
            place = path.resolve()
            temporary = place.with_name(f".{place.name}.{os.urandom(4).hex()}")
            with temporary.open("xb") as file:
                staged.append((temporary, place))
                file.write(data)
        for temporary, path in staged:
            backup = None
            if path.exists():
                backup = temporary.with_name(f"{temporary.name}.old")
                _keep(path, backup)
            placed.append((path, backup))
            os.replace(temporary, path)
    except OSError as error:
        _undo(placed)
        reason = (error.strerror or str(error)).lower()
        raise TkcError.at("TK118", f"{path} cannot be written: {reason}") from None
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
        for _, backup in placed:
            if backup is not None:
                backup.unlink(missing_ok=True)


def _keep(path: Path, backup: Path) -> None:
    try:
        os.link(path, backup)
    except OSError:  # a file system without hard links
        import shutil

        shutil.copy2(path, backup)


def _undo(placed: Sequence[tuple[Path, Path | None]]) -> None:
    for path, backup in placed:
        if backup is not None:
            os.replace(backup, path)
        else:
            path.unlink(missing_ok=True)


def write_package(
    path: str | os.PathLike[str],
    contract: Mapping[str, Any],
    *,
    ptx: str | None = None,
    cubin: bytes | None = None,
    contract_path: str | os.PathLike[str] | None = None,
) -> Path:
    """Writes `path` without its suffix + `.ptx` / `.cubin` / `.json`, all or none; returns the contract's path.

    `contract` holds the kernels (`contract_of`). `contract_path` puts the contract elsewhere; it then names the others
    relative to itself.
    """
    base = Path(path)
    base = base.with_suffix("") if base.suffix in (".ptx", ".cubin", ".json") else base
    json_path = (
        Path(contract_path) if contract_path is not None else base.with_name(base.name + ".json")
    )
    files: dict[Path, str | bytes] = {}
    names: dict[str, str] = {}
    for kind, content in (("ptx", ptx), ("cubin", cubin)):
        if content is not None:
            file = base.with_name(f"{base.name}.{kind}")
            files[file] = content
            names[kind] = Path(os.path.relpath(file, json_path.parent)).as_posix()
    for i, kernel in enumerate(contract["kernels"]):
        check_kernel(kernel, f"kernels[{i}]")
    files[json_path] = to_json(
        contract, ptx_name=names.get("ptx"), ptx=ptx, cubin_name=names.get("cubin")
    )
    write_files(files)
    return json_path


def read_contract(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The checked content of a contract file, whatever text it is for; TK411 with the place for what is wrong."""
    json_path = Path(path)
    try:
        value = json.loads(json_path.read_bytes())
    except OSError as error:
        raise TkcError.at(
            "TK411", f"{json_path} cannot be read: {error.strerror or error}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise TkcError.at("TK411", f"{json_path} is no JSON: {error}") from None
    name = json_path.name
    if not is_object(value) or value.get("schema") != SCHEMA:
        refuse(f"{name}: schema", SCHEMA, value.get("schema") if is_object(value) else value)
    check_file(value, name)
    for i, kernel in enumerate(value["kernels"]):
        check_kernel(kernel, f"{name}: kernels[{i}]")
    return dict(value)


def read_package(path: str | os.PathLike[str]) -> Package:
    """Reads a contract file and the files that it names; TK411 with the place for whatever is wrong with them."""
    json_path = Path(path)
    value = read_contract(json_path)
    name = json_path.name
    if "ptx" not in value and "cubin" not in value:
        raise TkcError.at("TK411", f"{name}: names neither ptx nor cubin")
    ptx = _read_beside(json_path, value["ptx"]) if "ptx" in value else None
    if ptx is not None and "ptx_sha256" in value and sha256(ptx).hexdigest() != value["ptx_sha256"]:
        raise TkcError.at(
            "TK411",
            f"{value['ptx']} is not the text that {name} was written with",
            help='compile again, or delete "ptx_sha256" to use the edited text',
        )
    cubin = _read_beside(json_path, value["cubin"]) if "cubin" in value else None
    try:
        decoded = ptx.decode() if ptx is not None else None
    except UnicodeDecodeError as error:
        raise TkcError.at("TK411", f"{value['ptx']} is not UTF-8: {error}") from None
    return Package(tuple(value["kernels"]), decoded, cubin, json_path.parent)


def _read_beside(json_path: Path, name: str) -> bytes:
    try:
        return (json_path.parent / name).read_bytes()
    except OSError as error:
        raise TkcError.at(
            "TK411", f"{name}, named by {json_path.name}, cannot be read: {error.strerror}"
        ) from None

"""Compiles the kernels of this folder to PTX and records how each is launched.

`python tests/emulator/foreign/generate.py` rewrites `ptx/` and `launches.json`; it needs Triton. With `--nvcc PATH` it
compiles the CUDA kernels as well. `--only NAME` takes cases whose names begin so; `--soak FOLDER` compiles those of the
soak test, and all others, into a folder of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parents[2]), str(FOLDER.parents[1])]

from emulator.foreign.cuda_cases import cuda_targets  # noqa: E402
from emulator.foreign.problem import Case  # noqa: E402
from emulator.foreign.triton_cases import CASES, SOAK  # noqa: E402

# The numbers of tensor map types that Triton gives count as the device does; the driver's differ.
_DRIVER_TYPES = {8: 10, 9: 8, 10: 9}


def strip(ptx: str) -> str:
    """PTX without debug sections, paths and trailing comments of places: what remains is what runs."""
    ptx = re.sub(r"^\t*\.section[^\n]*\n?\t?\{.*?^\t?\}\n?", "", ptx, flags=re.M | re.S)
    ptx = re.sub(r"^\s*\.section\s+\.debug_macinfo.*\n", "", ptx, flags=re.M)
    ptx = re.sub(r'"[^"\n]*/([^"/\n]+)"', r'"\1"', ptx)
    ptx = re.sub(r"[ \t]*// [^\n]*?\.py:[^\n]*", "", ptx)
    return re.sub(r"[ \t]+\n", "\n", ptx)


def compile_triton(case: Case, capability: int) -> tuple[str, dict[str, Any]]:
    """(PTX, launch facts) of one case for compute capability 90 or 100."""
    import triton
    from emulator.foreign import gluon_kernels, triton_kernels, triton_more
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    gluon = case.name.startswith("gluon")
    modules = (gluon_kernels,) if gluon else (triton_kernels, triton_more)
    fn = next(getattr(m, case.kernel) for m in modules if hasattr(m, case.kernel))
    signature = {n: _kind(case.signature.get(n, "constexpr")) for n in fn.arg_names}
    attributes = {(fn.arg_names.index(n),): [["tt.divisibility", 16]] for n in case.aligned}
    source = GluonASTSource if gluon else ASTSource
    made = triton.compile(
        source(fn=fn, signature=signature, constexprs=dict(case.constants), attrs=attributes),
        target=GPUTarget("cuda", capability, 32),
        options=dict(case.options),
    )
    raw = made.asm["ptx"]
    text = strip(raw.decode() if isinstance(raw, bytes) else raw)
    return text, _facts(case, text, made.metadata, signature)


def _kind(text: str) -> str:
    """Triton's own text of an argument's type; those of Gluon's tensor maps name a layout."""
    if not text.startswith("map:"):
        return text
    from triton.experimental.gluon import language as gl

    names = {"fp16": gl.float16, "bf16": gl.bfloat16, "fp32": gl.float32}
    whole, _, other = text.removeprefix("map:").partition("@")
    element, _, box = whole.partition("[")
    extents = [int(x) for x in (other or box).strip("[]").split(",")]
    layout = gl.NVMMASharedLayout.get_default_for(extents, names[element])
    return f"tensordesc<{element}[{box.replace(',', ', ')},{layout}>"


def _facts(case: Case, ptx: str, metadata: Any, signature: Mapping[str, str]) -> dict[str, Any]:
    maps = iter(metadata.tensordesc_meta or ())
    args: list[dict[str, Any]] = []
    for name, kind in signature.items():
        if kind == "constexpr":
            continue
        if kind.startswith("tensordesc"):
            one = next(maps)
            args.append(
                {
                    "kind": "tensormap",
                    "name": name,
                    "element": _DRIVER_TYPES.get(one["elem_type"], one["elem_type"]),
                    "box": list(one["block_size"]),
                    "swizzle": one["swizzle"],
                    "fp4_padded": one["fp4_padded"],
                }
            )
        else:
            args.append({"kind": "pointer" if kind[0] == "*" else "scalar", "name": name})
    # Triton's hidden parameters: scratch memory of the kernel, and of its profiler.
    for word in ("global_scratch", "profile_scratch"):
        args.append({"kind": "scratch", "name": word, "bytes": getattr(metadata, f"{word}_size")})
    threads = re.search(r"\.reqntid\s+(\d+)", ptx)
    block = int(threads.group(1)) if threads else 32 * metadata.num_warps
    return {
        "case": case.name,
        "entry": metadata.name,
        "block": block,
        "cluster": metadata.num_ctas,
        "shared_bytes": metadata.shared,
        "args": args,
    }


def compile_cuda(file: Path, target: str, nvcc: Path) -> str:
    """The PTX of a file of `cuda/` for a target such as 90a."""
    include = nvcc.parent.parent / "include"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ptx"
        command = [str(nvcc), "-std=c++17", "-ptx", f"-arch=sm_{target}", f"-I{include}"]
        command += [f"-I{include / 'cccl'}", file.name, "-o", str(out)]
        subprocess.run(command, cwd=file.parent, check=True, capture_output=True)
        return strip(out.read_text(encoding="utf-8"))


def _drop_assembler() -> None:
    """Only the PTX is wanted; assembling it takes longer than all that comes before."""
    from triton.backends.nvidia.compiler import CUDABackend

    before = CUDABackend.add_stages

    def stages(self: Any, found: dict[str, Any], *more: Any) -> None:
        before(self, found, *more)
        del found["cubin"]

    init = CUDABackend.__init__

    def start(self: Any, *more: Any) -> None:
        init(self, *more)
        self.binary_ext = "ptx"

    CUDABackend.add_stages, CUDABackend.__init__ = stages, start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--soak", type=Path)
    parser.add_argument("--nvcc", type=Path, help="the CUDA compiler")
    options = parser.parse_args()
    out = options.soak or FOLDER / "ptx"
    out.mkdir(parents=True, exist_ok=True)
    register = (options.soak or FOLDER) / "launches.json"
    facts: dict[str, Any] = json.loads(register.read_text()) if register.exists() else {}
    if options.nvcc:
        for file in sorted((FOLDER / "cuda").glob("*.cu")):
            for target in cuda_targets(file.stem):
                if file.stem.startswith(options.only):
                    text = compile_cuda(file, target, options.nvcc)
                    (out / f"{file.stem}_sm{target}.ptx").write_text(text, encoding="utf-8")
                    print(f"{file.stem}_sm{target}: {len(text)} characters", flush=True)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        _drop_assembler()
        for case in (*CASES, *SOAK) if options.soak else CASES:
            if not case.name.startswith(options.only):
                continue
            for capability in case.targets:
                name = f"{case.name}_sm{capability}"
                try:
                    text, launch = compile_triton(case, capability)
                except Exception as error:
                    print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                    continue
                (out / f"{name}.ptx").write_text(text, encoding="utf-8")
                facts[name] = launch
                print(f"{name}: {len(text)} characters", flush=True)
    register.write_text(json.dumps(dict(sorted(facts.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Compile time of the bf16 GEMM beside Triton's cross-compile of an equal one, or of every example on every target.

`python bench/compile_time.py --triton PYTHON` where PYTHON is an interpreter that has Triton 3.9
(`pip install triton==3.9.0` in a venv of its own; no GPU and no PyTorch are needed). Fresh: process start to
written PTX, rounds in turn. Warm: the same compile again in one process. Medians of `--rounds` rounds; both
caches are off.

`python bench/compile_time.py [WORD…]` is the table of the examples whose names have a word in them: seconds and
milliseconds of processor time, the least of `--rounds`, the slowest first. What waits for the disk or for another
process does not count, but a busy machine makes every figure larger: compare within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGETS = ("sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_107a")

TRITON = """
import sys, time, os, shutil
import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend


@triton.jit
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
         UNITS: tl.constexpr):
    start = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    width = GROUP * columns
    for tile in tl.range(start, rows * columns, UNITS, flatten=True):
        band = tile // width
        height = min(rows - band * GROUP, GROUP)
        m = (band * GROUP + (tile % width) % height) * BM
        n = ((tile % width) // height) * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            a = a_desc.load([m, k * BK])
            b = b_desc.load([n, k * BK])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([m, n], acc.to(tl.bfloat16))


# PTX is where both stop: the assembler is the same for everybody.
CUDABackend.make_cubin = lambda self, src, metadata, opt, capability: b"-"


def build():
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    constants = {"BM": 128, "BN": 256, "BK": 64, "GROUP": 8, "UNITS": 148}
    signature = {
        "a_desc": "tensordesc<bf16[128, 64]>", "b_desc": "tensordesc<bf16[256, 64]>",
        "c_desc": "tensordesc<bf16[128, 256]>",
        "M": "i32", "N": "i32", "K": "i32", **{k: "constexpr" for k in constants},
    }
    values = {(i,): v for i, v in zip(range(6, 11), constants.values())}
    source = ASTSource(fn=gemm, signature=signature, constexprs=values)
    found = triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 8, "num_stages": 4})
    return found.asm["ptx"]


text = build()
with open(sys.argv[1], "w") as f:
    f.write(text)
times = []
for _ in range(int(sys.argv[2])):
    t = time.perf_counter()
    build()
    times.append(time.perf_counter() - t)
print(times)
"""

OURS = """
import sys, time
import tkc
from pathlib import Path
source = Path(sys.argv[1])
tkc.compile(source, target=sys.argv[2]).ptx
times = []
for _ in range(int(sys.argv[3])):
    t = time.perf_counter()
    tkc.compile(source, target=sys.argv[2]).ptx
    times.append(time.perf_counter() - t)
print(times)
"""


def run(command: list[str], env: dict[str, str]) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - start, done.stdout


def spent() -> float:
    """Seconds of processor time of the processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(words: list[str], rounds: int, env: dict[str, str]) -> None:
    """Every example on every target that takes it."""
    from tkc.diagnostics import TkcError
    from tkc.driver import run as compiled
    from tkc.job import Job

    rows: list[tuple[float, float, str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted((ROOT / "examples").glob("*.tk")):
            if words and not any(word in source.stem for word in words):
                continue
            for target in TARGETS:
                job = Job(source.read_text(), str(source), target)
                try:
                    compiled(job)
                except TkcError:
                    continue  # it is not for this target
                command = [sys.executable, "-m", "tkc", "compile", str(source), "--target", target]
                command += ["--no-cache", "-o", str(Path(folder) / "out.ptx")]
                fresh: list[float] = []
                warm: list[float] = []
                for _ in range(rounds):
                    before = spent()
                    run(command, env)
                    fresh.append(spent() - before)
                    began = time.process_time()
                    compiled(job)
                    warm.append(time.process_time() - began)
                rows.append((min(fresh), min(warm), source.stem, target))
    print(f"{'example':<28}{'target':<10}{'fresh s':>8}{'warm ms':>9}")
    for one, other, name, target in sorted(rows, reverse=True):
        print(f"{name:<28}{target:<10}{one:>8.3f}{1e3 * other:>9.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="words in the names of examples")
    parser.add_argument("--triton", help="an interpreter that has Triton")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--target", default="sm_100a", help="of the comparison with Triton")
    options = parser.parse_args()
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["TKC_CACHE"] = "off"
    if options.triton is None:
        table(options.words, options.rounds, env)
    else:
        beside_triton(options, env)
    print(
        f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}"
    )


def beside_triton(options: argparse.Namespace, env: dict[str, str]) -> None:
    """One GEMM, compiled by either."""
    source = str(ROOT / "examples" / "gemm_bf16.tk")
    with tempfile.TemporaryDirectory() as folder:
        env["TRITON_CACHE_DIR"] = folder
        script = Path(folder) / "gemm_triton.py"
        script.write_text(textwrap.dedent(TRITON))
        out = str(Path(folder) / "ours.ptx")
        theirs_out = str(Path(folder) / "theirs.ptx")
        ours_command = [
            sys.executable,
            "-m",
            "tkc",
            "compile",
            source,
            "--target",
            options.target,
            "-o",
            out,
        ]
        theirs_command = [options.triton, str(script), theirs_out, "0"]
        run(ours_command, env)
        run(theirs_command, env)
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(options.rounds):
            ours.append(run(ours_command, env)[0])
            theirs.append(run(theirs_command, env)[0])
        rounds = str(options.rounds)
        warm_ours = json.loads(
            run([sys.executable, "-c", OURS, source, options.target, rounds], env)[1]
        )
        warm_theirs = json.loads(run([options.triton, str(script), theirs_out, rounds], env)[1])
    m = statistics.median
    print(
        f"fresh process to written PTX: ours {m(ours):.3f} s ({min(ours):.3f} to {max(ours):.3f}), "
        f"Triton {m(theirs):.3f} s ({min(theirs):.3f} to {max(theirs):.3f}), ratio {m(ours) / m(theirs):.2f}"
    )
    print(
        f"warm in process to PTX: ours {m(warm_ours):.3f} s, Triton {m(warm_theirs):.3f} s, "
        f"ratio {m(warm_ours) / m(warm_theirs):.2f}"
    )


if __name__ == "__main__":
    main()

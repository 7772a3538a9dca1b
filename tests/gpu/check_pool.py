"""Whether a warpgroup that has ended gives its registers back to those that ask for more (setmaxnreg), on a GPU.

`python3 tests/gpu/check_pool.py FOLDER` where FOLDER holds pool1.json to pool3.json, made by
`tkc compile tests/gpu/pool.tk --target sm_90a -D MODE=1 --trap-hangs=2 -o FOLDER/pool1.cubin`, and so for 2 and 3.
Each launch runs in a process of its own, which is ended where it takes longer than a minute: a trap, or the end of the
process, ends the kernel. MODE 2 has to end and MODE 3 to hang; what MODE 1 does is the answer (on an H200: it hangs).
"""

from __future__ import annotations

import subprocess
import sys

LIMIT = 60
"""Seconds after which a kernel counts as hanging for ever."""


def ends(folder: str, mode: int) -> bool:
    """Whether the kernel ends with what it is to write."""
    command = [sys.executable, "-m", "tkc", "run", f"{folder}/pool{mode}.json", "Y=zeros(4)", "n=1"]
    command += ["--out", f"Y={folder}/pool{mode}.npy"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        print(f"MODE {mode}: ended after {LIMIT} s from outside")
        return False
    said = (done.stdout + done.stderr).strip().splitlines()
    print(f"MODE {mode}: exit code {done.returncode}" + (f", {said[0]}" if said else ""))
    assert done.returncode == 0 or "hang: " in done.stdout, done.stdout + done.stderr
    return done.returncode == 0


def main(folder: str) -> None:
    assert ends(folder, 2), (
        "registers that a warpgroup gives up and keeps running are there for others"
    )
    assert not ends(folder, 3), (
        "there are none where nobody gives any up: did the assembler drop setmaxnreg?"
    )
    found = ends(folder, 1)
    print(
        f"a warpgroup that has ended {'gives its registers' if found else 'gives no registers'} back"
    )
    assert ends(folder, 2), "the GPU is as it was"


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A kernel that hangs, on a GPU: with --trap-hangs it ends, and says which barrier it waits for.

`python3 tests/gpu/check_hangs.py FOLDER` where FOLDER holds hang.json, made by
`tkc compile tests/gpu/hang.tk --target sm_90a --trap-hangs=2 -o FOLDER/hang.cubin`.
The launch runs in a process of its own: a trap ends every context that the process has.
"""

from __future__ import annotations

import subprocess
import sys
import time

LIMIT = 60
"""Seconds after which the kernel counts as hanging for ever."""

SAYS = "hang: role work still waits for barrier never[1], phase of parity 0, in CTA (0, 0, 0), thread 0"


def main(folder: str) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tkc", "run", f"{folder}/hang.json", "Y=zeros(4,8)"],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    took = time.monotonic() - began
    said = done.stdout + done.stderr
    assert done.returncode == 1, f"exit code {done.returncode}\n{said}"
    assert SAYS in done.stdout, said
    assert "Traceback" not in said, said
    print(f"ended after {took:.1f} s, {done.stdout.count('hang: ')} threads said why:")
    print(done.stdout.splitlines()[0])
    print(done.stderr.strip())
    print("all right")


if __name__ == "__main__":
    main(*sys.argv[1:])

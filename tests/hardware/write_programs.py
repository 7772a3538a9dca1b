"""Writes the programs and launch descriptions again: `python tests/hardware/write_programs.py [--check] [name ...]`.

With `--check` nothing is written; ptxas assembles what is there. Rewriting a program whose text or inputs change makes
its recording stale: record it again on a GPU with `record.py`.
"""

from __future__ import annotations

import argparse
import pkgutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402

PROGRAMS = HERE / "programs"
LIBRARIES = ("pointwise", "writing")


def all_programs() -> dict[str, object]:
    found: dict[str, object] = {}
    for module in pkgutil.iter_modules(generate.__path__):
        if module.name not in LIBRARIES:
            for program in import_module(f"generate.{module.name}").programs():
                if program.name in found:
                    raise ValueError(f"two programs {program.name}")
                found[program.name] = program
    return found


def assemble(path: Path) -> str:
    """ptxas' complaints about a file; empty where there are none."""
    site = Path(sys.prefix) / "lib"
    ptxas = next(site.glob("python3*/site-packages/nvidia/cu13/bin/ptxas"), Path("ptxas"))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        command = [str(ptxas), "-arch=sm_90a", "-O1", "-o", cubin.name, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="assemble what is there, write nothing"
    )
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    failed = 0
    if options.check:
        for path in sorted(PROGRAMS.glob("*.ptx")):
            if not options.names or path.stem in options.names:
                said = assemble(path)
                failed += "error" in said
                print(f"{path.stem}: {said.strip() or 'assembled'}")
        return failed
    PROGRAMS.mkdir(exist_ok=True)
    for name, program in all_programs().items():
        if not options.names or name in options.names:
            program.write(PROGRAMS)  # type: ignore[attr-defined]
            print(f"{name}: {len(program.launches)} launches")  # type: ignore[attr-defined]
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

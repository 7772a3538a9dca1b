"""Instructions that fences leave in the machine code, with all of them and with those that are needed.

`python bench/fence_cost.py [TARGET …]` compiles every example that a target takes and counts MEMBAR and FENCE in its
SASS.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

import tkc  # noqa: E402
from tkc.ir.isa.targets import TARGETS  # noqa: E402

WORDS = ("MEMBAR.ALL.CTA", "MEMBAR.ALL.GPU", "FENCE.VIEW.ASYNC", "CCTL.IVALL")


def counted(kernel: tkc.Kernel) -> list[int]:
    """How often each of the words stands in the machine code, whatever follows it."""
    text = kernel.sass()
    return [len(re.findall(rf"\b{re.escape(word)}", text)) for word in WORDS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", default=["sm_100a"])
    targets = parser.parse_args().targets
    if unknown := [t for t in targets if t not in TARGETS]:
        parser.error(f"no target is called {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    for target in targets:
        print(
            f"\n| {target} | "
            + " | ".join(f"`{w}`" for w in WORDS)
            + " |\n|---|"
            + "---|" * len(WORDS)
        )
        for example in sorted((ROOT / "examples").glob("*.tk")):
            try:
                before, after = (
                    counted(tkc.compile(example, target=target, fences=f))
                    for f in ("conservative", "minimal")
                )
            except tkc.TkcError:
                continue
            cells = [str(b) if a == b else f"{b} → {a}" for b, a in zip(before, after, strict=True)]
            print(f"| {example.stem} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

"""Machine code of a cubin as text, and what to look for in it: instructions by kernel, and serialising loops."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tkc.backend.tools import find
from tkc.diagnostics import TkcError


def sass(cubin: bytes, *, lines: bool = False) -> str:
    """The disassembly of a cubin, by nvdisasm, else cuobjdump; `lines` adds the source lines (nvdisasm only).

    Raises TkcError TK212 where neither tool is there, TK210 where the bytes are no cubin.
    """
    nvdisasm = find("nvdisasm")
    tool = nvdisasm or find("cuobjdump")
    if tool is None:
        raise TkcError.at(
            "TK212",
            "no disassembler found: neither nvdisasm nor cuobjdump",
            help="pip install tkc[assemble]",
        )
    with tempfile.TemporaryDirectory(prefix="tkc-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        # -ndf: nothing is inferred of branch stacks, which these chips do not have; a fourth of the time.
        options = ["-c", "-ndf", *(["-g"] if lines else [])] if nvdisasm else ["-sass"]
        done = subprocess.run(
            [tool, *options, str(file)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise TkcError.at("TK210", f"{Path(tool).name}: {said[-1] if said else 'no reason given'}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of machine code: its address in the function, and its text with single spaces, without the semicolon."""

    kernel: str
    address: int
    text: str


@dataclass(frozen=True, slots=True)
class SerialLoop:
    """A loop that issues an instruction once for every active lane: addresses of its ends, and the work in it."""

    kernel: str
    start: int
    end: int
    work: tuple[str, ...]


_FUNCTION = re.compile(r"^\s*(?:\.text\.([\w$.]+):|Function\s*:\s*([\w$.]+))\s*$")
_LABEL = re.compile(r"^\s*(\.L_x?_?\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_ANY_BRANCH = re.compile(r"@P\d+ BRA\.U\.ANY (?:`\((\.\w+)\)|(0x[0-9a-f]+))")
_ELECTS = re.compile(r"@P\d+ ELECT\b")
_TAKES_LANE = re.compile(r"@P\d+ R2UR(?:\.\w+)* P\d+,")
_PLUMBING = re.compile(r"\b(?:ELECT|PLOP3|R2UR|BRA|NOP)\b")


def instructions(text: str) -> tuple[list[Instruction], dict[tuple[str, str], int]]:
    """Every instruction of a disassembly in order, and the address of each (kernel, label)."""
    found: list[Instruction] = []
    labels: dict[tuple[str, str], int] = {}
    waiting: list[str] = []
    kernel = ""
    for line in text.splitlines():
        if m := _FUNCTION.match(line):
            kernel, waiting = m[1] or m[2], []
        elif m := _LABEL.match(line):
            waiting.append(m[1])
        elif m := _INSTRUCTION.match(line):
            address = int(m[1], 16)
            labels.update({(kernel, label): address for label in waiting})
            waiting.clear()
            found.append(Instruction(kernel, address, re.sub(r"\s+", " ", m[2])))
    return found, labels


def serial_loops(text: str) -> list[SerialLoop]:
    """The loops that ptxas puts round an instruction whose operands or guard it cannot prove uniform over a warp.

    Such a loop ends in a backward branch `@Pn BRA.U.ANY` and picks one lane a turn: by a predicated ELECT, or by a
    predicated R2UR that has a predicate result. The try_wait spin of sm_107a ends in the same branch under a uniform
    predicate (`!UPn`) and picks no lane.
    """
    code, labels = instructions(text)
    hits: list[SerialLoop] = []
    for instruction in code:
        branch = _ANY_BRANCH.match(instruction.text)
        if branch is None:
            continue
        target = labels.get((instruction.kernel, branch[1])) if branch[1] else int(branch[2], 16)
        if target is None or target > instruction.address:
            continue
        body = [
            i.text
            for i in code
            if i.kernel == instruction.kernel and target <= i.address < instruction.address
        ]
        if any(_ELECTS.search(t) or _TAKES_LANE.search(t) for t in body):
            work = tuple(t for t in body if not _PLUMBING.search(t))
            hits.append(SerialLoop(instruction.kernel, target, instruction.address, work))
    return hits

"""Machine code of the tensor-core GEMMs, counted beside that of other compilers, and what joining copies saves.

`python bench/machine_code.py` prints the tables of docs/machine_code.md, `--write` puts them there. A peer's kernel is
counted from its PTX, by the same assembler, and kept in bench/machine_code.json: `--record NAME FILE.ptx ENTRY`, where
ENTRY is a part of the kernel's name in that file.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import tkc
from tkc.backend.assemble import assemble
from tkc.backend.sass import Instruction, instructions, sass, serial_loops
from tkc.ir.stage.ops import KernelOp, RoleOp
from tkc.passes import pipeline
from tkc.passes.assign_tensor_memory import place

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "machine_code.md"
RECORD = Path(__file__).with_suffix(".json")
TARGET = "sm_100a"

DUAL = (("HALVES = 1", "HALVES = 2"),)
PAIR = (("launch persistent", "launch persistent, pair"), ("BM = 128", "BM = 256"))
OURS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "bf16": ("gemm_bf16", ()),
    "bf16, pair": ("gemm_2cta", ()),
    "e4m3, pair": ("gemm_e4m3", ()),
    "MXFP8": ("gemm_mxfp8", ()),
    "MXFP8, pair": ("gemm_mxfp8", PAIR),
    "MXFP4": ("gemm_mxfp4", ()),
    "NVFP4": ("gemm_nvfp4", ()),
    "NVFP4, pair, two accumulators": ("gemm_nvfp4_2cta", ()),
    "bf16, pair, work stealing": ("gemm_bf16_clc", ()),
    "bf16, pair, two accumulators, work stealing": (
        "gemm_bf16_clc",
        (*DUAL, ("STAGES = 6", "STAGES = 4")),
    ),
    "e4m3, pair, work stealing": ("gemm_e4m3_clc", ()),
    "e4m3, pair, two accumulators, work stealing": (
        "gemm_e4m3_clc",
        (*DUAL, ("STAGES = 6", "STAGES = 4")),
    ),
    "MXFP8, pair, work stealing": ("gemm_mxfp8_clc", ()),
    "MXFP8, pair, two accumulators, work stealing": (
        "gemm_mxfp8_clc",
        (*DUAL, ("BN = 256", "BN = 128"), ("STAGES = 5", "STAGES = 4")),
    ),
    "MXFP4, pair, work stealing": ("gemm_mxfp4_clc", ()),
    "MXFP4, pair, two accumulators, work stealing": (
        "gemm_mxfp4_clc",
        (*DUAL, ("BN = 256", "BN = 128"), ("STAGES = 5", "STAGES = 4")),
    ),
    "NVFP4, pair, two accumulators, work stealing": ("gemm_nvfp4_clc", ()),
    "NVFP4, pair, two accumulators, work stealing, sm_103a, steps of 96": (
        "gemm_nvfp4_clc",
        (("BK = 256", "BK = 192"),),
    ),
    "NVFP4, pair, two accumulators, work stealing, sm_107a": ("gemm_nvfp4_clc", ()),
}
"""Which example, and what is changed in it; for sm_100a, or the target that is named."""

SHIPPED = {
    "CuTe DSL, dense bf16": ("bf16", 600, 1, 4),
    "Triton, bf16": ("bf16", 464, 1, 8),
    "DeepGEMM, bf16": ("bf16", 760, 2, 16),
    "CuTe DSL, NVFP4": ("NVFP4", 840, 1, 4),
    "CUTLASS, NVFP4": ("NVFP4", 3144, 7, 8),
}
"""Of kernels that others ship, by the same assembler: operands, instructions, `fence.proxy.async`, products."""

_GUARD = re.compile(r"^@!?U?P\d+ ")
_BRANCH = re.compile(r"^(?:@!?U?P\d+ )?BRA(?:\.\S+)?\s(?:.*,\s*)?`\((\.\w+)\)")
_PRODUCT = re.compile(r"^UTC[HQOI]MMA$")
_INTEGER = re.compile(
    r"^(?:R2UR|U?MOV|U?IADD3|UIADD3|VIADD|U?LEA|U?IMAD|U?SHF|U?LOP3|U?SEL|U?PRMT|S2U?R|U?VIADD)$"
)
"""Integer arithmetic and moves: descriptors, addresses, slots, phases and counters."""


@dataclass(frozen=True)
class Counts:
    """What stands in one kernel; `loop_*` in the smallest loop that holds products."""

    instructions: int
    proxy_fences: int
    tensor_fences: int
    """tcgen05.fence in the PTX; they order, and become no instruction."""
    elections: int
    products: int
    copies: int
    loop_instructions: int
    loop_products: int
    loop_copies: int
    loop_integer: int
    loop_fences: int
    serial_loops: int
    spills: int

    @property
    def integer_each(self) -> str:
        """Integer instructions of the main loop for each product and copy."""
        return f"{self.loop_integer / (self.loop_products + self.loop_copies):.1f}"

    @property
    def loop_each(self) -> str:
        return f"{self.loop_instructions / self.loop_products:.1f}"


def opcode(instruction: Instruction) -> str:
    return _GUARD.sub("", instruction.text).split()[0].split(".")[0]


def main_loop(code: list[Instruction], labels: dict[tuple[str, str], int]) -> list[Instruction]:
    """The smallest loop that holds products; empty where none does."""
    loops: list[list[Instruction]] = []
    for instruction in code:
        branch = _BRANCH.match(instruction.text)
        start = branch and labels.get((instruction.kernel, branch[1]))
        if start is None or start > instruction.address:
            continue
        body = [i for i in code if start <= i.address <= instruction.address]
        if any(_PRODUCT.match(opcode(i)) for i in body):
            loops.append(body)
    return min(loops, key=len, default=[])


def count(ptx: str, entry: str, target: str = TARGET) -> Counts:
    """The counts of one kernel of a PTX text, as ptxas makes it; `entry` is a part of its name."""
    text = sass(assemble(ptx, target).cubin)
    every, labels = instructions(text)
    kernels = [k for k in dict.fromkeys(i.kernel for i in every) if entry in k]
    if len(kernels) != 1:
        raise SystemExit(f"{len(kernels)} kernels are called like {entry}, expected one")
    code = [i for i in every if i.kernel == kernels[0]]
    body = main_loop(code, labels)
    whole, loop = Counter(map(opcode, code)), Counter(map(opcode, body))
    source = next(part for part in ptx.split(".entry ")[1:] if part.startswith(kernels[0]))
    products = [name for name in whole if _PRODUCT.match(name)]
    return Counts(
        instructions=len(code),
        proxy_fences=sum("FENCE.VIEW.ASYNC" in i.text for i in code),
        tensor_fences=source.count("tcgen05.fence::"),
        elections=whole["ELECT"],
        products=sum(whole[p] for p in products),
        copies=whole["UTCCP"],
        loop_instructions=len(body),
        loop_products=sum(loop[p] for p in products),
        loop_copies=loop["UTCCP"],
        loop_integer=sum(n for name, n in loop.items() if _INTEGER.match(name)),
        loop_fences=loop["FENCE"] + loop["MEMBAR"],
        serial_loops=sum(s.kernel == kernels[0] for s in serial_loops(text)),
        spills=whole["STL"] + whole["LDL"],
    )


def ours(name: str) -> Counts:
    """The counts of one of `OURS`."""
    example, changes = OURS[name]
    text = (ROOT / "examples" / f"{example}.tk").read_text()
    for old, new in changes:
        text = text.replace(old, new)
    target = next((t for t in ("sm_103a", "sm_107a") if t in name), TARGET)
    kernel = tkc.compile(text, target=target)
    return count(kernel.ptx, kernel.name, target)


COLUMNS = (
    "kernel", "instructions", "`fence.proxy`", "`tcgen05.fence`", "elections", "products", "copies",
    "loop", "of it products, copies", "fences in it", "a product", "integer each", "serialising loops", "spills",
)  # fmt: skip


def row(name: str, c: Counts) -> str:
    cells = (
        name, c.instructions, c.proxy_fences, c.tensor_fences, c.elections, c.products, c.copies,
        c.loop_instructions, f"{c.loop_products}, {c.loop_copies}", c.loop_fences, c.loop_each, c.integer_each,
        c.serial_loops, c.spills,
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def table(columns: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join(["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|", *rows])


def side_by_side(mine: dict[str, Counts]) -> str:
    """Whole kernels of one kind of operands: ours, and those that others ship."""
    rows: list[str] = []
    for kind in ("bf16", "NVFP4"):
        found = [
            (f"**tkc** {name}", c)
            for name, c in mine.items()
            if name.startswith(kind) and "sm_" not in name
        ]
        found += [(name, c) for name, c in peers().items() if f"{kind.lower()}_b200" in name]
        counts = [(name, c.instructions, c.proxy_fences, c.products) for name, c in found]
        counts += [(name, *c) for name, (operands, *c) in SHIPPED.items() if operands == kind]
        rows += [
            "| " + " | ".join(map(str, row)) + " |" for row in sorted(counts, key=lambda r: r[1])
        ]
    return table(("kernel", "instructions", "`fence.proxy.async`", "`tcgen05.mma`"), rows)


def peers() -> dict[str, Counts]:
    """What was recorded of other compilers' kernels."""
    found = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return {name: Counts(**counts) for name, counts in found.items()}


def record(name: str, ptx: Path, entry: str) -> None:
    known = {n: asdict(c) for n, c in peers().items()}
    known[name] = asdict(count(ptx.read_text(), entry))
    RECORD.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


# A role that copies scales, apart and joined


@dataclass(frozen=True)
class Work:
    """What is done for one block of K, over all roles, and what the kernel has."""

    waits: int
    arrivals: int
    proxy_fences: int
    tensor_fences: int
    copies: int
    products: int
    roles: int
    barriers: int
    columns: int


NAMES = {
    "waits": "waits for barriers",
    "arrivals": "arrivals and commits",
    "proxy_fences": "`fence.proxy`",
    "tensor_fences": "`tcgen05.fence`",
    "copies": "`tcgen05.cp`",
    "products": "`tcgen05.mma`",
    "roles": "roles, in the whole kernel",
    "barriers": "barriers, in the whole kernel",
    "columns": "columns of tensor memory in use",
}
_WORDS = {
    "waits": r"mbarrier\.try_wait",
    "arrivals": r"mbarrier\.arrive|tcgen05\.commit",
    "proxy_fences": r"fence\.proxy",
    "tensor_fences": r"tcgen05\.fence",
    "copies": r"tcgen05\.cp\b",
    "products": r"tcgen05\.mma\b",
}
_ASYNC = re.compile(r"cp\.async\.bulk\.tensor\.\dd\.shared|tcgen05\.(?:cp|mma)\b")


def loops(ptx: str) -> list[str]:
    """The innermost loops over blocks of K: those that load tiles, copy scales or multiply, spins aside."""
    lines = ptx.splitlines()
    at = {line[:-1]: n for n, line in enumerate(lines) if line.startswith("$L") and line[-1] == ":"}
    spans: list[tuple[int, int]] = []
    for n, line in enumerate(lines):
        branch = re.search(r"\bbra (\$L\d+);", line)
        if branch and at[branch[1]] < n and any(map(_ASYNC.search, lines[at[branch[1]] : n])):
            spans.append((at[branch[1]], n))
    inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    return ["\n".join(lines[a : b + 1]) for a, b in inner]


def work(name: str, joined: bool) -> Work:
    """What an example that copies scales in a role of its own does, with the copies there or joined to the products."""
    passes = pipeline(TARGET)
    if not joined:
        passes = passes.replace("cothread-copies,", "")
    kernel = tkc.compile(ROOT / "examples" / f"{name}.tk", target=TARGET, passes=passes)
    body = "\n".join(loops(kernel.ptx))
    (made,) = [
        op for op in kernel.module("assign-tensor-memory").walk() if isinstance(op, KernelOp)
    ]
    return Work(
        **{field: len(re.findall(word, body)) for field, word in _WORDS.items()},
        roles=sum(isinstance(op, RoleOp) for op in made.walk()),
        barriers=len(re.findall(r"mbarrier\.init", kernel.ptx)),
        columns=place(made)[1],
    )


def before_and_after(example: str) -> str:
    apart, joined = work(example, joined=False), work(example, joined=True)
    rows = [
        f"| {NAMES[f.name]} | {getattr(apart, f.name)} | {getattr(joined, f.name)} |"
        for f in fields(Work)
    ]
    return table((f"`{example}.tk`", "as written", "joined"), rows)


SLOW = ("gemm_nvfp4_slow", "gemm_nvfp4_level2_slow")


def sections() -> dict[str, str]:
    """The generated parts of the page, by the word that marks them."""
    mine = {name: ours(name) for name in OURS}
    kernels = [row(f"**tkc** {name}", counts) for name, counts in mine.items()]
    kernels += [row(name, counts) for name, counts in peers().items()]
    return {
        "kernels": table(COLUMNS, kernels),
        "shipped": side_by_side(mine),
        "copies": "\n\n".join(before_and_after(example) for example in SLOW),
    }


def written(page: str, parts: dict[str, str]) -> str:
    """The page with its generated parts in place of those that it has."""
    for mark, text in parts.items():
        start, end = (
            f"<!-- {mark}: made by bench/machine_code.py -->\n",
            f"\n<!-- end of {mark} -->",
        )
        before, rest = page.split(start)
        page = before + start + text + end + rest.split(end)[1]
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    parser.add_argument(
        "--record", nargs=3, metavar=("NAME", "FILE", "ENTRY"), help="count a peer's kernel"
    )
    options = parser.parse_args()
    if options.record:
        name, file, entry = options.record
        record(name, Path(file), entry)
        return
    parts = sections()
    if options.write:
        PAGE.write_text(written(PAGE.read_text(), parts))
    else:
        print("\n\n".join(parts.values()))


if __name__ == "__main__":
    main()

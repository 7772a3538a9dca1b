"""Writes one PTX line for every row and every choice of its modifiers, and asks ptxas which of them it takes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tkc.ir.isa.instructions import COMES_WITH, REGISTER_CLASS, Row, all_rows
from tkc.ir.isa.instructions.warp_mma import fragment_registers
from tkc.ir.isa.instructions.wmma import wmma_registers
from tkc.ir.isa.targets import TARGETS, Feature, Version

IMMEDIATES = {
    "table": "0x96",
    "target": "LABEL",
    "symbol": "shared_array",
    "register": "%tid.x",
    "selector": "0",
    "param": "P",
    "targets": "TABLE",
}
COUNTS = {
    "call": "callee",
    "setmaxnreg": "64",
    "fence.proxy.tensormap.acquire": "128",
    "discard": "128",
    "applypriority": "128",
    "createpolicy.fractional": "0.5",
    "cp.async": "16",
    "cp.async.ignore": "16",
    "st.bulk": "0",
    "tensormap.cp_fenceproxy": "128",
}


@dataclass(frozen=True)
class Line:
    """One instruction: its text, where it comes from, and what its row says that it needs."""

    row: str
    text: str
    ptx: Version
    needs: frozenset[Feature]


def default_modifiers(row: Row) -> dict[str, str]:
    """The first choice of each slot that must be filled."""
    return {s: row.slots[s][0].text for s, optional in row.slot_order if not optional}


def spellings(row: Row) -> Iterator[dict[str, str]]:
    """The default, then every choice once, with what it goes along with."""
    base = default_modifiers(row)
    for slot in base:
        base = {**base, **row.slots[slot][0].along, **{k: v for k, v in base.items()}}
    yield base
    for slot, choices in row.slots.items():
        for choice in choices:
            changed = {**base, **choice.along, slot: choice.text}
            if changed != base:
                yield changed
    for extra in row.together:
        changed = base
        for slot, text in extra.when.items():
            along = next(c.along for c in row.slots[slot] if c.text == text)
            changed = {**changed, **along}
        yield {**changed, **extra.when}


def list_length(row: Row, name: str, modifiers: Mapping[str, str]) -> int:
    """How many entries a list or tuple operand has under these modifiers."""

    def number(slot: str) -> int:
        return int(re.findall(r"\d+", modifiers[slot])[0])

    if row.name.startswith("wgmma"):
        n = int(re.findall(r"n(\d+)k", modifiers["shape"])[0])
        return 4 if name == "a" else n // 4 if modifiers["dtype"] == ".f16" else n // 2
    if row.name.startswith("wmma"):
        return wmma_operand(row, name, modifiers)
    if row.name.startswith(("mma.sync", "mma.sp")):
        return fragment_registers(row.name, modifiers["shape"], modifiers.get("atype", ""))[name]
    if name == "offsets":
        return number("dim") - 2
    if name == "coords":
        return 5 if "4" in row.mnemonic.partition("tile::")[2][:12] else number("dim")
    if row.name in ("mov.pack", "mov.unpack"):
        return 2
    if row.name == "tcgen05.ld.spcompress":
        return number("num") // (32 if name == "meta" else 2)
    if row.name.startswith(("tcgen05.ld", "tcgen05.st")) and name in ("d", "a"):
        per = {".16x128b": 2, ".16x256b": 4}.get(modifiers.get("shape", ""), 1)
        return per * number("num")
    if name == "disable":
        return 4 if modifiers["cta_group"] == ".cta_group::1" else 8
    if "vec" in modifiers:
        return number("vec")
    if "num" in modifiers:
        return number("num") * (2 if ".m16n16" in row.mnemonic else 1)
    return 4


def wmma_operand(row: Row, name: str, modifiers: Mapping[str, str]) -> int:
    """Registers of an operand of `wmma`, whose row fixes the type of c and d."""
    types = re.findall(r"\.(?:f16|f32|s32)", row.mnemonic.partition("<shape>")[2])
    shape = modifiers["shape"]
    if row.name.startswith("wmma.mma"):
        if name in ("c", "d"):
            return wmma_registers(name, shape, types[-1 if name == "c" else 0])
        return wmma_registers(name, shape, modifiers.get("atype", ".f16"))
    operand = modifiers.get("operand", ".c" if ".load" in row.name else ".d")[1:]
    return wmma_registers(operand, shape, modifiers["type"])


class Registers:
    """Gives out register names by class, and remembers how many each class needs."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}

    def take(self, kind: str, used: dict[str, int]) -> str:
        index = used.get(kind, 0)
        used[kind] = index + 1
        self.most[kind] = max(self.most.get(kind, 0), index + 1)
        return f"%{kind}_{index}"

    def declarations(self) -> str:
        return "\n".join(f".reg .{k} %{k}_<{n}>;" for k, n in sorted(self.most.items()))


def any_class(row: Row, name: str, modifiers: Mapping[str, str]) -> str:
    """A class that suits an operand of kind `any` or `address`."""
    if row.operands[name] == "address":
        return "b32" if "shared" in modifiers.get("space", "") else "b64"
    if "type" not in modifiers:
        return "b32"
    whole = REGISTER_CLASS[modifiers["type"]]
    return {"b16": "b8", "b32": "b16", "b64": "b32", "b128": "b64"}[whole]


def operand_text(row: Row, modifiers: Mapping[str, str], extra: bool, registers: Registers) -> str:
    """The operand list: optional parts stand where their modifier does, or with `extra` where they have none."""
    used: dict[str, int] = {}

    def one(kind: str, name: str) -> str:
        if kind == "imm":
            if name == "value" and modifiers.get("type") in (".f32", ".f64"):
                return "0f3F800000"
            if name == "register" and modifiers["type"] in (".u64", ".b64"):
                return "%globaltimer"
            if name == "param" and row.name.startswith("st."):
                return "Q"
            return COUNTS.get(row.name, IMMEDIATES.get(name, "1"))
        if kind in row.slots:
            kind = REGISTER_CLASS[modifiers[kind]]
        if kind in ("any", "address"):
            kind = any_class(row, name, modifiers)
        return registers.take(kind, used)

    def operand(name: str) -> str:
        kind = row.operands[name]
        if kind.endswith("*"):
            return ", ".join(one(kind[:-1], name) for _ in range(list_length(row, name, modifiers)))
        if kind == "vec":
            vector = "f32" if modifiers.get("dtype") == ".f32" else "b32"
            length = list_length(row, name, modifiers)
            return "{" + ", ".join(one(vector, name) for _ in range(length)) + "}"
        return one(kind, name)

    def fill(text: str) -> str:
        def name(match: re.Match[str]) -> str:
            return operand(match[0]) if match[0] in row.operands else match[0]

        return re.sub(r"\b[A-Za-z]\w*\b", name, text.replace("*", ""))

    out, rest = "", row.syntax
    while "{?" in rest:
        head, _, rest = rest.partition("{?")
        depth = 1
        for end, char in enumerate(rest):
            depth += (char == "{") - (char == "}")
            if depth == 0:
                part, rest = rest[:end], rest[end + 1 :]
                break
        else:
            raise ValueError(f"{row.name}: an optional part without an end")
        names = [n for n in re.findall(r"\w+", part) if n in row.operands]
        tied = [COMES_WITH[n] for n in names if COMES_WITH.get(n) in row.slots]
        shown = (
            any(t in modifiers for t in tied) if tied else extra or is_needed(row, names, modifiers)
        )
        out += fill(head) + (fill(part) if shown else "")
    return out + fill(rest)


def is_needed(row: Row, names: list[str], modifiers: Mapping[str, str]) -> bool:
    """Operands of wgmma that the types ask for."""
    if not row.name.startswith("wgmma.mma_async"):
        return False
    if modifiers["dtype"] == ".s32":
        return False
    return "scale_a" in names or modifiers["atype"] in (".f16", ".bf16")


@cache
def lines() -> tuple[tuple[Line, ...], str]:
    """Every line, and the register declarations that they need."""
    registers = Registers()
    found: list[Line] = []
    for row in all_rows().values():
        for number, modifiers in enumerate(spellings(row)):
            needs = row.requires(modifiers)
            for extra in (False, True) if number == 0 and "{?" in row.syntax else (False,):
                if extra and row.name.startswith(("wgmma", "call")):
                    continue
                operands = operand_text(row, modifiers, extra, registers)
                found.append(Line(row.name, f"{row.spell(modifiers)} {operands};", *needs))
    return tuple(found), registers.declarations()


def find_ptxas() -> str | None:
    """ptxas of the pip package nvidia-cuda-nvcc, or of the PATH."""
    packaged = Path(sysconfig.get_path("purelib"), "nvidia", "cu13", "bin", "ptxas")
    return str(packaged) if packaged.exists() else shutil.which("ptxas")


def module(target: str, version: Version, body: str, declarations: str) -> tuple[str, int]:
    """The text of a module around a body, and the number of its first body line."""
    head = (
        f".version {version[0]}.{version[1]}\n.target {target}\n.address_size 64\n"
        ".extern .shared .align 128 .b8 shared_array[];\n"
        ".extern .func callee;\n"
        ".visible .entry k(.param .align 64 .b8 P[256])\n{\n"
        f".param .align 32 .b8 Q[256];\n{declarations}\nLABEL:\nTABLE: .branchtargets LABEL;\n"
    )
    return f"{head}{body}\nstop_here;\nret;\n}}\n", head.count("\n") + 1


def refusals(ptxas: str, target: str, version: Version, directory: Path) -> dict[int, str]:
    """What ptxas says about each line that it refuses, by index into `lines()`.

    An unknown instruction ends the body, so that ptxas stops after checking and generates no code.
    """
    every, declarations = lines()
    if version < (8, 3):
        declarations = "\n".join(d for d in declarations.split("\n") if ".b128" not in d)
    text, first = module(target, version, "\n".join(line.text for line in every), declarations)
    source = directory / f"{target}_{version[0]}_{version[1]}.ptx"
    said = refused_lines(ptxas, target, text, source, first)
    assert len(every) in said, f"ptxas did not read to the end: {said}"
    del said[len(every)]
    return said


def refused_lines(ptxas: str, target: str, text: str, source: Path, first: int) -> dict[int, str]:
    """What ptxas says about a module, by line counted from `first`."""
    source.write_text(text)
    run = subprocess.run(
        [ptxas, f"-arch={target}", str(source), "-o", "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
    )
    said: dict[int, str] = {}
    for message in re.finditer(r"line (\d+); (?:error|fatal)\s*: (.*)", run.stderr + run.stdout):
        said.setdefault(int(message[1]) - first, message[2])
    return said


def disagreements(ptxas: str, target: str, version: Version, directory: Path) -> list[str]:
    """Lines of which ptxas and the row say different things."""
    row, said = TARGETS[target], refusals(ptxas, target, version, directory)
    wrong: list[str] = []
    for index, line in enumerate(lines()[0]):
        expected = row.has(line.needs) and line.ptx <= version
        if expected and index in said:
            wrong.append(f"{line.row}: {line.text[:150]}  refused: {said[index]}")
        if not expected and index not in said:
            reason = ", ".join(f.name for f in row.lacks(line.needs)) or f"PTX {line.ptx}"
            wrong.append(
                f"{line.row}: {line.text[:150]}  accepted, though the row asks for {reason}"
            )
    return wrong

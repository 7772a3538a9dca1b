"""Two machines for integer kernels: one runs the IR by values, the other the printed text by registers.

Both give the sequence of values that the kernel stores. They know a handful of instructions, and share nothing.
"""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tkc.ir.ptx.control import ForOp, IfOp, RepeatOp, WhileOp
from tkc.ir.ptx.instruction import Instruction
from tkc.ir.ptx.kernel import SpecialOp
from tkc.ir.ptx.registers import type_of
from tkc.ir.ptx.values import ImmOp, SliceOp, UndefOp

MASK = 0xFFFFFFFF
LIMIT = 20_000


def signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


FUNCTIONS: dict[str, Any] = {
    "mov": lambda a: a,
    "add": lambda a, b: (a + b) & MASK,
    "sub": lambda a, b: (a - b) & MASK,
    "mul.lo": lambda a, b: (a * b) & MASK,
    "xor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "setp.lt": lambda a, b: int(signed(a) < signed(b)),
    "setp.ge": lambda a, b: int(signed(a) >= signed(b)),
    "setp.ne": lambda a, b: int(a != b),
    "selp": lambda a, b, p: a if p else b,
}
JUNK = 0xDEAD


class Values:
    """Runs a kernel's IR before naming: every value has its own place, a tuple is a list."""

    def __init__(self, module: ModuleOp) -> None:
        self.stored: list[int] = []
        self.values: dict[SSAValue, Any] = {}
        self.steps = 0
        (kernel,) = module.body.block.ops
        self.block(kernel.regions[0].block)

    def block(self, block: Block, *arguments: Any) -> list[Any]:
        """Runs a block; returns what its terminator hands on."""
        self.values.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            self.steps += 1
            assert self.steps < LIMIT, "the kernel does not end"
            given = [self.values[v] for v in op.operands]
            match op:
                case ImmOp():
                    made = [op.value.value.data & MASK]
                case UndefOp():
                    count = type_of(op.result).count
                    made = [[JUNK] * count if count else JUNK]
                case SliceOp():
                    start, count, step = (p.value.data for p in (op.start, op.count, op.step))
                    made = [
                        given[0][start : start + step * count : step] if count else given[0][start]
                    ]
                case SpecialOp():
                    made = [7]
                case Instruction() if op.ROW.name == "st":
                    self.stored.append(given[1])
                    made = []
                case Instruction() if op.ROW.name == "st.vec":
                    self.stored += [
                        x for g in given[1:] for x in (g if isinstance(g, list) else [g])
                    ]
                    made = []
                case Instruction():
                    made = [self.compute(op, given)]
                case ForOp():
                    made = self.for_(op, given)
                case IfOp():
                    taken = bool(given[0]) != (op.negated is not None)
                    region = op.then if taken else op.otherwise
                    made = self.block(region.block) if region is not None else []
                case RepeatOp():
                    made = given
                    while True:
                        done, *made = self.block(op.body.block, *made)
                        if done:
                            break
                case WhileOp():
                    made = given
                    while self.block(op.test.block, *made)[0]:
                        made = self.block(op.body.block, *made)
                case _:
                    return given
            self.values.update(zip(op.results, made, strict=True))
        return []

    def for_(self, op: ForOp, given: list[Any]) -> list[Any]:
        counter, upper, step, *carried = given
        while signed(counter) < signed(upper):
            carried = self.block(op.body.block, counter, *carried)
            counter = (counter + step) & MASK
        return carried

    def compute(self, op: Instruction, given: list[Any]) -> Any:
        name = op.ROW.name + op.modifiers.get("compare", "")
        count = type_of(op.results[0]).count
        if not count:
            return FUNCTIONS[name](*given)
        columns = [g if isinstance(g, list) else [g] * count for g in given]
        return [FUNCTIONS[name](*row) for row in zip(*columns, strict=True)]


class Text:
    """Runs printed PTX: registers by name, labels and branches."""

    def __init__(self, ptx: str) -> None:
        self.stored: list[int] = []
        self.registers: dict[str, int] = {}
        self.moves = 0
        lines = [line.strip() for line in ptx.splitlines()]
        body = lines[lines.index("{") + 1 : lines.index("}")]
        self.code = [line.rstrip(";") for line in body if line and not line.startswith(".")]
        self.labels = {line[:-1]: i for i, line in enumerate(self.code) if line.endswith(":")}
        self.run()

    def run(self) -> None:
        at = steps = 0
        while self.code[at] != "ret":
            steps += 1
            assert steps < LIMIT, "the kernel does not end"
            at = self.step(self.code[at], at)

    def step(self, line: str, at: int) -> int:
        if line.endswith(":"):
            return at + 1
        guard = re.match(r"@(!?)(%p\d+) (.*)", line)
        if guard:
            if bool(self.read(guard[2])) == bool(guard[1]):
                return at + 1
            line = guard[3]
        mnemonic, _, rest = line.partition(" ")
        operands = [o.strip() for o in re.sub(r"[{}]", "", rest).split(",")]
        if mnemonic == "bra":
            return self.labels[operands[0]]
        if mnemonic.startswith("st."):
            self.stored += [self.read(o) for o in operands[1:]]
            return at + 1
        name = re.sub(r"\.(s32|u32|b32|pred)$", "", mnemonic)
        self.moves += name == "mov"
        self.registers[operands[0]] = FUNCTIONS[name](*[self.read(o) for o in operands[1:]])
        return at + 1

    def read(self, operand: str) -> int:
        if operand.startswith("%tid"):
            return 7
        if operand.startswith("%"):
            return self.registers.get(operand, JUNK)
        return int(operand) & MASK

"""What a role program has in the stage dialect beside its operations: a contract, and what its loops carry."""

from __future__ import annotations

from oracles.roles import Entry, For, If, Program, Role, Statement, nested, walk
from xdsl.ir import Attribute, SSAValue

from tkc.ir.contract import to_attribute

State = dict[str, SSAValue]
"""What a role carries, by name: `counter.slot.depth`, `counter.phase.depth`, `counter.count`."""


def contract(program: Program, tensors: int, ctas: int) -> Attribute:
    """Enough for a launch of one CTA or cluster: tensors of M by N, and a last one whose dimensions are the trip counts."""
    symbols = program.symbols()
    names = [f"X{n}" for n in range(tensors)]
    trips = names.pop() if symbols else ""
    at = {"M": ("X0", 0), "N": ("X0", 1), **{s: (trips, n) for n, s in enumerate(symbols)}}
    arguments = [
        {"name": n, "dtype": "bf16", "dims": ["M", "N"], "access": "write" if k else "read"}
        for k, n in enumerate(names)
    ]
    if symbols:
        arguments.append({"name": trips, "dtype": "bf16", "dims": symbols, "access": "read"})
    return to_attribute(
        {
            "params": {}, "arguments": arguments, "requires": [], "outputs": names[1:], "empty": [],
            "symbols": {s: [{"argument": a, "dimension": d}] for s, (a, d) in at.items()},
            "grid": [ctas, 1, 1],
        }
    )  # fmt: skip


def depth_of(program: Program, e: Entry) -> int:
    return (program.buffers.get(e.name) or program.barriers[e.name]).depth


def changing(body: list[Statement], state: State) -> list[str]:
    """What of a state the body changes."""
    counters = {op.counter or f"{op.name}{op.site}" for op in walk(body)}
    return [name for name in state if name.split(".")[0] in counters]


def carried(program: Program, role: Role) -> list[str]:
    """What a role counts: a slot and a phase for each counter and depth, and a count where a condition or loop asks."""
    keys: dict[str, None] = {}
    for op in walk(role.body):
        if op.name == "store":
            keys[f"store{op.site}.count"] = None
        for e in op.entries:
            if not e.index.isdigit():
                depth = depth_of(program, e)
                keys[f"{e.index}.slot.{depth}"] = keys[f"{e.index}.phase.{depth}"] = None
    for one in nested(role.body):
        if isinstance(one, If):
            keys[f"{one.counter}.count"] = None
        if isinstance(one, For) and one.by_counter:
            keys[f"{one.by_counter[0]}.count"] = None
    return list(keys)

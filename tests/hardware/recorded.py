"""Reads the programs and their recordings, and runs a launch in the emulator on the same inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hardware.compaction import differences
from hardware.inputs import Words, make_buffers

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
RECORDINGS = HERE / "recordings"

Json = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """One launch and what became of it on the GPU."""

    program: str
    launch: Json
    outcome: str

    @property
    def name(self) -> str:
        return f"{self.program}/{self.launch['name']}"

    @property
    def ran(self) -> bool:
        return self.outcome == "ran"

    @property
    def rows(self) -> list[str]:
        return self.launch.get("rows", [])

    def inputs(self) -> dict[str, Words]:
        return make_buffers(self.launch)

    def kept(self, output: str = "out") -> dict[str, Words]:
        """The arrays that are kept of an output: `whole`, or `sha256`, `head` and `samples`."""
        stem = f"{self.launch['name']}:{output}:"
        arrays = _arrays(self.program)
        return {k.removeprefix(stem): v for k, v in arrays.items() if k.startswith(stem)}

    def whole(self, output: str = "out") -> Words:
        return self.kept(output)["whole"]

    def map(self, number: int = 0) -> Json:
        return [a["map"] for a in self.launch["args"] if "map" in a][number]


@cache
def _arrays(program: str) -> dict[str, Words]:
    with np.load(RECORDINGS / f"{program}.npz") as kept:
        return {name: kept[name] for name in kept.files}


@cache
def described(program: str) -> Json:
    return json.loads((PROGRAMS / f"{program}.json").read_text(encoding="utf-8"))


@cache
def recording(program: str) -> Json:
    """What record.py says of a program: `outcomes` by launch, the `program` it ran, and the GPU."""
    path = RECORDINGS / f"{program}.json"
    return (
        json.loads(path.read_text(encoding="utf-8"))
        if path.exists()
        else {"outcomes": {}, "program": ""}
    )


def names() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.json"))


def launches(*programs: str) -> Iterator[Recorded]:
    """The launches of some programs, or of all."""
    for program in programs or names():
        outcomes = recording(program)["outcomes"]
        for launch in described(program).get("launches", ()):
            yield Recorded(program, launch, outcomes.get(launch["name"], "not recorded"))


def find(program: str, name: str) -> Recorded:
    return next(r for r in launches(program) if r.launch["name"] == name)


@cache
def text(program: str) -> str:
    return (PROGRAMS / f"{program}.ptx").read_text(encoding="utf-8")


def emulated(r: Recorded, whole: bool = True, **how: Any) -> tuple[dict[str, Words], Any]:
    """The buffers after the launch in the emulator, and its report; not `whole`: only the CTAs that the launch says."""
    import tkc

    buffers = r.inputs()
    args: list[Any] = []
    for arg in r.launch["args"]:
        if "buffer" in arg:
            args.append(buffers[arg["buffer"]])
        elif "scalar" in arg:
            args.append(np.dtype(arg["scalar"]).type(arg["value"]))
        else:
            m = arg["map"]
            rest = {k: v for k, v in m.items() if k not in ("buffer", "type")}
            args.append(tkc.TensorMap(buffers[m["buffer"]], dtype=m["type"], **rest))
    short = r.launch.get("emulate") or {}
    grid = (
        r.launch["grid"]
        if whole
        else map(min, short.get("grid", r.launch["grid"]), r.launch["grid"])
    )
    report = tkc.emulate(
        text(r.program),
        entry=r.launch["entry"],
        grid=tuple(grid),
        block=tuple(r.launch["block"]),
        cluster=tuple(r.launch["cluster"]),
        shared_bytes=r.launch["shared_bytes"],
        args=args,
        **how,
    )
    return {name: buffers[name] for name in r.launch["outputs"]}, report


def disagreements(r: Recorded, output: str, words: Words, whole: bool = True) -> list[str]:
    """Where words differ from the recorded ones, in words."""
    kept, count = r.kept(output), len(r.rows)
    if not whole and "head" in kept:
        columns = kept["head"].shape[1]
        table = words.reshape(max(count, 1), -1)[:, :columns]
        kept, words = {"whole": kept["head"].reshape(-1)}, np.ascontiguousarray(table).reshape(-1)
    digits = 2 * words.itemsize
    found = []
    for row, column, recorded, now in differences(kept, words, count):
        label = f"{r.rows[row]} " if r.rows else ""
        found.append(
            f"{label}[{column}]: GPU {recorded:#0{digits + 2}x}, found {now:#0{digits + 2}x}"
        )
    return found

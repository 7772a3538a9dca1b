"""`tkc facts`: prints the rows that are known of a target or an instruction, the same that the compiler reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import click

from tkc.commands.options import complete_targets
from tkc.commands.tables import print_table
from tkc.diagnostics import nearest
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.instructions import Row, all_rows
from tkc.ir.isa.memory import Effect
from tkc.ir.isa.mma import MMAS, Mma
from tkc.ir.isa.targets import TARGETS, Feature, Target, Version, families_of


@click.command("facts")
@click.argument(
    "subject", metavar="[TARGET|INSTRUCTION]", required=False, shell_complete=complete_targets
)
def command(subject: str | None) -> None:
    """Print what is known of a target (sm_107a) or an instruction (mbarrier.arrive).

    Without a subject: the targets and the families of instructions.
    """
    rows = all_rows()
    if subject is None:
        _print_targets(TARGETS.values())
        click.echo(f"{len(rows)} instructions: {_families(rows)}")
    elif subject in TARGETS:
        _print_target(TARGETS[subject])
    elif found := find(subject, rows):
        if len(found) == 1:
            _print_row(found[0])
        else:
            _print_rows(found)
    else:
        if subject in DTYPES:
            raise click.UsageError(
                f"{subject} is a dtype; expected a target, whose facts say what its tensor cores multiply, or an"
                " instruction"
            )
        near = nearest(subject, (*TARGETS, *rows))
        hint = f"; did you mean {near}?" if near else "; tkc facts lists the targets and families"
        raise click.UsageError(f"no target and no instruction is called {subject}{hint}")


def find(word: str, rows: Mapping[str, Row]) -> list[Row]:
    """The row of that name; else the rows whose name or mnemonic begins with the word; else those that contain it."""
    word = word.lower()
    if word in rows:
        return [rows[word], *(r for n, r in rows.items() if n.startswith(f"{word}."))]
    beginning = [r for n, r in rows.items() if n.startswith(word) or r.mnemonic.startswith(word)]
    return beginning or [r for n, r in rows.items() if word in n or word in r.mnemonic]


def _families(rows: Mapping[str, Row]) -> str:
    return ", ".join(dict.fromkeys(name.split(".")[0] for name in rows))


def _version(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _print_targets(targets: Iterable[Target]) -> None:
    columns = ("target", "runs on", "PTX", "shared memory", "tensor memory", "features")
    print_table(
        "targets",
        columns,
        (
            (
                t.name,
                _runs_on(t),
                _version(t.ptx),
                f"{t.shared_per_cta:,} B",
                f"{t.tensor_columns} columns" if t.tensor_columns else "none",
                str(len(t.features)),
            )
            for t in targets
        ),
    )


def _runs_on(target: Target) -> str:
    chip = f"{target.capability[0]}.{target.capability[1]}"
    return {"a": f"{chip} only", "f": f"{chip} and its family"}.get(
        target.suffix, f"{chip} and later"
    )


def _print_target(target: Target) -> None:
    facts: list[tuple[str, Any]] = [
        ("runs on", _runs_on(target)),
        ("families, nearest first", ", ".join(f"on({f})" for f in families_of(target.name))),
        ("first PTX version", _version(target.ptx)),
        ("shared memory of a CTA", f"{target.shared_per_cta:,} bytes"),
        (
            "tensor memory",
            f"{target.tensor_columns} columns of 128 lanes" if target.tensor_columns else "none",
        ),
        ("registers of an SM", f"{target.registers_per_sm:,}"),
        ("registers of a thread", f"{target.max_regs_per_thread}"),
        ("threads of a CTA", f"{target.max_threads:,}"),
        (
            "CTAs of a cluster",
            f"{target.portable_cluster}, {target.max_cluster} where the GPU allows",
        ),
    ]
    print_table(target.name, ("limit", "value"), facts)
    here = [f for f in Feature if f in target.features]
    missing = [f for f in Feature if f not in target.features]
    print_table("features", ("has", "lacks"), [("\n".join(here), "\n".join(missing))])
    _print_mmas([m for m in MMAS if target.has(m.needs)])


def _print_mmas(mmas: Sequence[Mma]) -> None:
    columns = ("tensor-core kind", "A and B", "D", "M", "N", "K", "CTAs")
    print_table(
        "tensor cores",
        columns,
        (
            (
                m.name,
                " ".join(m.a),
                " ".join(m.d),
                _sizes(m.m),
                _sizes(m.n),
                str(m.k),
                str(m.cta_group),
            )
            for m in mmas
        ),
    )


def _sizes(sizes: Sequence[int]) -> str:
    """`8, 16, …, 256` as `8 … 256 by 8`."""
    steps = {b - a for a, b in pairwise(sizes)}
    if len(sizes) > 3 and len(steps) == 1:
        return f"{sizes[0]} … {sizes[-1]} by {steps.pop()}"
    return " ".join(map(str, sizes))


def _print_rows(rows: Sequence[Row]) -> None:
    columns = ("instruction", "mnemonic", "operands", "PTX", "needs")
    print_table(
        "instructions",
        columns,
        ((r.name, r.mnemonic, r.syntax, _version(r.ptx), "\n".join(r.needs)) for r in rows),
    )


def _print_row(row: Row) -> None:
    targets = [t.name for t in TARGETS.values() if t.has(row.needs)]
    facts: list[tuple[str, str]] = [
        ("mnemonic", row.mnemonic),
        ("operands", row.syntax),
        ("does", row.doc),
        ("first PTX version", _version(row.ptx)),
        ("needs", "\n".join(sorted(row.needs)) or "nothing special"),
        ("targets", " ".join(targets)),
        ("PTX manual", f"#{row.section}" if row.section else ""),
        ("memory", "\n".join(map(_effect, row.effects))),
    ]
    print_table(row.name, ("fact", "value"), [(name, text) for name, text in facts if text])
    choices = [
        (slot, c.text, _version(max(c.ptx, row.ptx)), "\n".join(sorted(c.needs)))
        for slot, found in row.slots.items()
        for c in found
    ]
    if choices:
        print_table("modifiers", ("slot", "spelling", "PTX", "needs"), choices)


def _effect(effect: Effect) -> str:
    """A memory row in words: `touch: read, src, global, async`."""
    said = [str(value) for value in effect._asdict().values() if value not in (None, 0, "")]
    return f"{type(effect).__name__.lower()}: {', '.join(said)}"

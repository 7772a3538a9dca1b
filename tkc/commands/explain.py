"""`tkc explain`: why each synchronisation of a kernel is there, and why the ones that are gone were not needed."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tkc.commands.options import compile_options, model_option, session
from tkc.commands.report import Reporter
from tkc.driver import to_module
from tkc.job import MODELS, Job, no_such

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tkc.analysis.explanation import Site
    from tkc.diagnostics import Location
    from tkc.ir.certificates import Certificate
    from tkc.ir.stage.ops import KernelOp

BEFORE, AFTER = "insert-fences", "eliminate-fences"
INIT_FENCE = "fence.mbarrier_init"


@dataclass
class Explained:
    """A kernel's sites, with the program before and after fences went.

    `others`: instructions that no synchronisation of a role asks for: each with what it is for, how often it stands
    there, and the line (0: none); `count`: how many instructions of the PTX synchronise.
    """

    name: str
    sites: list[Site]
    kernel: KernelOp
    certificate: Certificate | None
    others: list[tuple[str, str, int, int]] = field(default_factory=list)
    count: int = 0


@click.command("explain")
@click.argument("source", metavar="KERNEL.tk", type=click.Path())
@click.option("--only", metavar="ID", help="Show one site, or those whose ids begin so.")
@click.option("--all", "everything", is_flag=True, help="Show the whole chain of every pair.")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(),
    help="Draw roles over time with the chains into a file.",
)
@model_option
@compile_options
def command(
    source: str,
    only: str | None,
    everything: bool,
    html: str | None,
    model: str,
    format: str,
    werror: bool,
    remarks: frozenset[str],
    **options: Any,
) -> None:
    """Say of every synchronisation of a kernel why it is there, and of every fence that is gone why it is not needed.

    What is gone has a chain that orders the accesses it guarded: who tells whom, by which rule of PTX, on which
    assumptions. What stays has the nearest two accesses that would meet without it. This judges what is left, where
    `tkc check` judges the program as written.
    """
    reporter = Reporter("text" if format != "json" else format, werror, remarks)
    if format == "sarif":
        raise click.UsageError("--format is text or json here")
    with reporter.failing():
        made = session(source, reporter=reporter, model=model, **options)
        found = explained(made.job)
        shown = [replace(x, sites=_chosen(x.sites, only)) for x in found]
        if only is not None and not any(x.sites for x in shown):
            raise no_such("TK120", "site", only, [s.id for x in found for s in x.sites])
        if html is not None:
            from tkc.backend.package import write_files
            from tkc.commands.explain_html import page

            write_files({Path(html): page(made.job, found)})
        if format == "json":
            _print_json(made.job, shown)
        else:
            from tkc.commands.explain_text import Printer

            printer = Printer(made.job, everything)
            for x in shown:
                printer.kernel(x, whole=only is None)


def _chosen(sites: list[Site], only: str | None) -> list[Site]:
    return [s for s in sites if only is None or s.id.startswith(only)]


def explained(job: Job) -> list[Explained]:
    """Compiles a job as far as its fences, under both models, and explains each kernel."""
    from tkc.analysis.explanation import explain

    modules = {m: to_module(replace(job, model=m), after=_last(job)) for m in MODELS}
    earlier = to_module(job, after=BEFORE)
    certificates = {m: _certificates(module) for m, module in modules.items()}
    fences = "conservative" if _last(job) == BEFORE else job.fences
    found: list[Explained] = []
    for kernel, before in zip(_kernels(modules[job.model]), _kernels(earlier), strict=True):
        name = kernel.sym_name.data
        _name_alike(before)
        _name_alike(kernel)
        certificate = certificates[job.model].get(name)
        sites = explain(kernel, before, certificate, job.model, fences)
        for site in sites:
            for model in MODELS:
                known = certificates[model].get(name)
                verdicts = {x.id: x.verdict for x in known.sites} if known is not None else {}
                site.profiles[model] = verdicts.get(site.id, "kept")
        found.append(Explained(name, sites, kernel, certificate))
    _with_instructions(job, modules[job.model], found)
    return found


def _with_instructions(job: Job, module: ModuleOp, found: list[Explained]) -> None:
    """Adds what of the PTX each site is, and what is of none."""
    from tkc.commands.explain_instructions import instructions

    sites = {site.id for x in found for site in x.sites}
    made = instructions(job, _last(job), module.clone(), sites)
    for x in found:
        mine = made[x.name]
        x.sites = [replace(s, instructions=tuple(mine.of.get(s.id, ()))) for s in x.sites]
        inits = [(m, place) for m, _, place in mine.others if m.startswith(INIT_FENCE)]
        x.sites = [_init_fence(i, *init) for i, init in enumerate(inits)] + x.sites
        told = Counter(
            (m, why, place.line if place else 0)
            for m, why, place in mine.others
            if not m.startswith(INIT_FENCE)
        )
        x.others = [(m, why, n, line) for (m, why, line), n in told.items()]
        x.count = mine.count


def _init_fence(number: int, mnemonic: str, place: Location | None) -> Site:
    """The fence behind the initialisation of the kernel's barriers, which the lowering makes; of no role."""
    from tkc.analysis.explanation import Site, Witness

    return Site(
        id=f"init.fence.{number}" if number else "init.fence",
        role="",
        op=f"ptx.{INIT_FENCE}",
        kind="init-fence",
        location=place,
        origin="compiler",
        verdict="kept",
        before=mnemonic,
        after=mnemonic,
        witness=Witness(
            "the initialisation of a barrier",
            "its use by the copy engine or by another CTA",
            None,
            "",
            "a meeting of threads orders them for these threads alone",
        ),
        instructions=(mnemonic,),
        profiles=dict.fromkeys(MODELS, "kept"),
    )


def _last(job: Job) -> str:
    return BEFORE if job.fences == "conservative" or AFTER in job.without else AFTER


def _kernels(module: ModuleOp) -> list[KernelOp]:
    from tkc.ir.stage.ops import KernelOp

    return [op for op in module.body.block.ops if isinstance(op, KernelOp)]


def _certificates(module: ModuleOp) -> dict[str, Certificate]:
    from tkc.ir.certificates import read

    return {c.kernel: c for c in read(module)}


def _name_alike(kernel: KernelOp) -> None:
    """Gives operations the names that they have in certificates."""
    from tkc.ir.certificates import SITE, name_sites
    from tkc.ir.stage.ops import RoleOp, StageOp

    for role in [r for r in kernel.body.block.ops if isinstance(r, RoleOp)]:
        ops = [op for op in role.walk() if op is not role and isinstance(op, StageOp)]
        if not any(SITE in op.attributes for op in ops):
            name_sites(role.sym_name.data, ops)


def _print_json(job: Job, found: list[Explained]) -> None:
    sites = {x.name: [s.to_json() for s in x.sites] for x in found}
    made = {
        "schema": "tkc-explain/1",
        "target": job.target,
        "fences": job.fences,
        "model": job.model,
        "sites": [{"kernel": name, **site} for name, of in sites.items() for site in of],
        "kernels": [
            {
                "kernel": x.name,
                "instructions": x.count,
                "sites": sites[x.name],
                "others": [
                    {"instruction": m, "why": why, "count": n, "line": line}
                    for m, why, n, line in x.others
                ],
            }
            for x in found
        ],
    }
    click.echo(json.dumps(made, indent=1))

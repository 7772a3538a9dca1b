"""`tkc explain`: why each synchronisation of a kernel is there, and why the ones that are gone were not needed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tkc.commands.options import compile_options, model_option, session
from tkc.commands.report import Reporter
from tkc.driver import to_module
from tkc.job import MODELS, Job

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tkc.analysis.explanation import Site, Step
    from tkc.ir.certificates import Certificate
    from tkc.ir.stage.ops import KernelOp

BEFORE, AFTER = "insert-fences", "eliminate-fences"


@dataclass
class Explained:
    """A kernel's sites, with the program before and after fences went."""

    name: str
    sites: list[Site]
    kernel: KernelOp
    certificate: Certificate | None


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
        if html is not None:
            from tkc.commands.explain_html import page

            Path(html).write_text(page(made.job, found), encoding="utf-8")
        shown = [replace(x, sites=_chosen(x.sites, only)) for x in found]
        if format == "json":
            _print_json(made.job, shown)
        else:
            _print_text(made.job, shown, everything)


def _chosen(sites: list[Site], only: str | None) -> list[Site]:
    return [s for s in sites if only is None or s.id.startswith(only)]


def explained(job: Job) -> list[Explained]:
    """Compiles a job as far as its fences, under both models, and explains each kernel."""
    from tkc.analysis.explanation import explain

    modules = {m: to_module(replace(job, model=m), after=_last(job)) for m in MODELS}
    earlier = to_module(job, after=BEFORE)
    certificates = {m: _certificates(module) for m, module in modules.items()}
    found: list[Explained] = []
    for kernel, before in zip(_kernels(modules[job.model]), _kernels(earlier), strict=True):
        name = kernel.sym_name.data
        _name_alike(before)
        _name_alike(kernel)
        certificate = certificates[job.model].get(name)
        sites = explain(kernel, before, certificate, job.model)
        for site in sites:
            for model in MODELS:
                known = certificates[model].get(name)
                verdicts = {x.id: x.verdict for x in known.sites} if known is not None else {}
                site.profiles[model] = verdicts.get(site.id, "kept")
        found.append(Explained(name, sites, kernel, certificate))
    return found


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
    made = {
        "schema": "tkc-explain/1",
        "target": job.target,
        "fences": job.fences,
        "model": job.model,
        "kernels": [{"kernel": x.name, "sites": [s.to_json() for s in x.sites]} for x in found],
    }
    click.echo(json.dumps(made, indent=1))


# Text ----------------------------------------------------------------------------------------------------------------

_STYLES = {
    "removed": "green",
    "weakened": "cyan",
    "moved": "cyan",
    "inserted": "yellow",
    "kept": "default",
}


def _print_text(job: Job, found: list[Explained], everything: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140, highlight=False)
    for x in found:
        gone = sum(site.verdict == "removed" for site in x.sites)
        changed = sum(site.verdict == "weakened" for site in x.sites)
        console.print(
            Text.assemble(
                (x.name, "bold"),
                f" for {job.target}: {len(x.sites)} synchronisations, ",
                (f"{gone} removed", "green"),
                f", {changed} weakened, {len(x.sites) - gone - changed} kept; fences {job.fences}, model {job.model}",
            )
        )
        role = ""
        for site in x.sites:
            if site.role != role:
                role = site.role
                console.print(Text(f"\nrole {role}", style="bold"))
            console.print(_site(site, everything))


def _site(site: Site, everything: bool) -> Any:
    from rich.text import Text

    place = f"{site.location.line}:{site.location.column}" if site.location is not None else ""
    style = _STYLES[site.verdict]
    text = Text.assemble(
        f"  {place:>8}  ",
        (f"{site.verdict:<9}", style),
        ("- " if site.verdict == "removed" else "  ", style),
        (site.before, f"{style} strike" if site.verdict == "removed" else style),
        f" → {site.after}" if site.verdict == "weakened" else "",
        (f"  {site.id}", "dim"),
    )
    other = [f"{m}: {v}" for m, v in site.profiles.items() if v != site.verdict]
    if other:
        text.append(f"  ({', '.join(other)})", style="yellow")
    for pair, there, back in site.chains if everything else site.chains[:1]:
        text.append(f"\n{'':21}{pair} are in order without it", style="dim")
        for way, chain in (("", there), ("and round again: ", back)):
            if chain:
                text.append(f"\n{'':23}{way}{_path(chain)}")
    if len(site.chains) > 1 and not everything:
        text.append(f"\n{'':21}and {_more(len(site.chains) - 1)} (--all)", style="dim")
    if site.verdict in ("removed", "weakened"):
        if not site.chains:
            text.append(f"\n{'':21}it guards no two accesses", style="dim")
        elif site.assumptions:
            text.append(f"\n{'':21}assumes {', '.join(site.assumptions)}", style="yellow")
    elif site.witness is not None:
        w = site.witness
        apart = ""
        if w.instances is not None and w.instances[0] != w.instances[1]:
            apart = f" ({w.loop} {w.instances[0]} and {w.instances[1]})"
        pair = f"{w.first} and {w.second}{apart}: " if w.first else ""
        text.append(f"\n{'':21}without it: {pair}{w.why}", style="red")
    else:
        text.append(f"\n{'':21}nothing is known that needs it", style="dim")
    return text


def _more(pairs: int) -> str:
    return f"{pairs} more {'pair' if pairs == 1 else 'pairs'}"


def _path(chain: tuple[Step, ...]) -> str:
    """A chain on one line: who does what, by which rules; where another role knows, at which of its waits."""
    said, rules = chain[0].start, list[str]()
    for step, following in zip(chain, (*chain[1:], None), strict=True):
        section = f" §{step.section}" if step.section else ""
        assumed = f" {'+'.join(step.assumptions)}" if step.assumptions else ""
        rules.append(f"{step.rule}{section}{assumed}")
        last = following is not None and following is chain[-1]
        if last and not step.crosses:
            continue  # the access itself comes next
        where = step.end if following is None or step.crosses else following.start
        said += f" ─[{'; '.join(rules)}]→ {where}"
        rules = []
        if following is not None and step.crosses and not last and following.start != step.end:
            said += f" … {following.start}"
    return said

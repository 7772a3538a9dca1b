"""`tkc compile`: a tile program to PTX, a cubin, IR or the launch contract."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from tkc.commands.options import STDIN, Session, compile_options, model_option, once, session
from tkc.commands.report import Reporter
from tkc.driver import to_module
from tkc.job import Compiled

KINDS = ("ptx", "cubin", "mlir", "json")
STDOUT = "-"


@click.command("compile")
@click.argument("source", metavar="KERNEL.tk", type=click.Path())
@click.option(
    "-o",
    "output",
    multiple=True,
    callback=once,
    metavar="FILE",
    type=click.Path(),
    help="Where to write: .ptx, .cubin, .mlir, .json, or - for standard output [the source's name with .ptx, here]",
)
@click.option(
    "--emit",
    multiple=True,
    callback=once,
    type=click.Choice(KINDS),
    help="What to write, where the suffix does not say.",
)
@click.option(
    "--contract",
    multiple=True,
    callback=once,
    metavar="FILE",
    type=click.Path(),
    help="Where to write the launch contract.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="NAME",
    help="Let an assembler notice of this name pass: a C75xx number, or spills.",
)
@click.option(
    "--print-pipeline", is_flag=True, help="Print the passes as tkc-opt -p takes them, and stop."
)
@model_option
@compile_options
def command(
    source: str,
    output: str | None,
    emit: str | None,
    contract: str | None,
    allow: tuple[str, ...],
    print_pipeline: bool,
    format: str,
    werror: bool,
    remarks: frozenset[str],
    **options: Any,
) -> None:
    """Compile a tile program to PTX, a cubin, IR or the launch contract.

    Writes FILE.ptx (or .cubin) and FILE.json, the launch contract, beside it. A source of `-` is standard input, whose
    output is standard output where no `-o` says otherwise.
    """
    reporter = Reporter(format, werror, remarks)
    if source == STDIN and output is None:
        output = STDOUT
    kind = _kind(output, emit)
    if contract is not None:
        _check_contract(contract, kind, output or f"{Path(source).stem}.{kind}")
    if print_pipeline:
        with reporter.failing():
            _print_pipeline(options)
        return
    with reporter.failing():
        made = session(source, reporter=reporter, **options)
        place = output or f"{Path(source).stem}.{kind}"
        if kind == "mlir":
            _write_module(made, place)
        else:
            compiled = made.run()
            with made.phase("assemble and write" if kind == "cubin" else "write"):
                _write(made, compiled, kind, place, contract, allow)
            reporter.show(compiled.diagnostics)
        made.finish()


def _kind(output: str | None, emit: str | None) -> str:
    """What to write, from `--emit` or the suffix of the output."""
    suffix = Path(output).suffix[1:] if output is not None else ""
    if emit is not None:
        if suffix in KINDS and suffix != emit:
            raise click.UsageError(
                f"-o {output} has the suffix .{suffix}, and --emit says {emit}; expected .{emit},"
                " or another suffix"
            )
        return emit
    if output is None or output == STDOUT:
        return "ptx"
    if suffix in KINDS:
        return suffix
    if Path(output).exists() and not Path(output).is_file():
        return "ptx"
    found = f"has the suffix .{suffix}" if suffix else "has no suffix"
    raise click.UsageError(
        f"-o {output} {found}; expected .ptx, .cubin, .mlir or .json, or --emit to say what to write"
    )


def _check_contract(contract: str, kind: str, place: str) -> None:
    """The contract has a file of its own, and IR has none."""
    if kind in ("mlir", "json"):
        why = "IR has no launch contract" if kind == "mlir" else f"{place} is the contract"
        raise click.UsageError(f"--contract goes with PTX or a cubin: {why}")
    taken = Path(place).is_file() or not Path(place).exists()
    if taken and place != STDOUT and os.path.realpath(contract) == os.path.realpath(place):
        told = f"--contract {contract} and -o name one file"
        raise click.UsageError(f"{told}, and what is written there first would be lost")


def _print_pipeline(options: dict[str, Any]) -> None:
    from tkc.driver import passes_of, pipeline_text
    from tkc.job import DEFAULT_TARGET, FENCES, Job

    job = Job(
        "",
        "",
        DEFAULT_TARGET if options["target"] is None else options["target"],
        fences=options["fences"] or FENCES[0],
        model=options["model"],
        passes=options["passes"],
        without=options["without"],
        trap_hangs=options["trap_hangs"],
    )
    click.echo(pipeline_text(passes_of(job)))


def _write_module(made: Session, place: str) -> None:
    """The module after the pipeline, with its locations, whether or not it has come as far as PTX."""
    from tkc.diagnostics import listening
    from tkc.dump import ir_text

    with listening() as heard:
        module = to_module(made.job, made.observers)
    made.reporter.check(heard)
    _write_files({place: ir_text(module)})
    made.reporter.show(heard)


def _write(
    made: Session,
    compiled: Compiled,
    kind: str,
    place: str,
    contract: str | None,
    allow: tuple[str, ...],
) -> None:
    from tkc.backend.package import to_json, with_assembly, write_package

    kernels, cubin = compiled.contract, None
    if kind == "cubin":
        from tkc.backend.assemble import assemble

        assembly = assemble(compiled.ptx, made.job.target, allow=allow)
        cubin = assembly.cubin
        kernels = with_assembly(kernels, assembly.registers, assembly.tool)
    if kind == "json":
        _write_files({place: to_json(kernels, ptx=compiled.ptx)})
    elif Path(place).suffix == f".{kind}":
        ptx = compiled.ptx if kind == "ptx" else None
        write_package(place, kernels, ptx=ptx, cubin=cubin, contract_path=contract)
    else:
        files: dict[str, str | bytes] = {place: compiled.ptx if cubin is None else cubin}
        if contract is not None:
            named = {} if place == STDOUT else {f"{kind}_name": _beside(place, contract)}
            files[contract] = to_json(kernels, ptx=compiled.ptx if kind == "ptx" else None, **named)
        _write_files(files)


def _beside(place: str, contract: str) -> str:
    """How the contract names a file: by the way from the contract's own folder."""
    return Path(os.path.relpath(place, Path(contract).parent)).as_posix()


def _write_files(files: dict[str, str | bytes]) -> None:
    """Writes files whole or not at all; `-` is standard output, written first as it cannot be taken back anyway."""
    from tkc.backend.package import write_files

    if STDOUT in files:
        content = files[STDOUT]
        data = content if isinstance(content, bytes) else content.encode()
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    write_files({Path(place): content for place, content in files.items() if place != STDOUT})

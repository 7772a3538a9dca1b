"""`tkc run`: compiles a kernel for the GPU here, or takes a packaged one, and runs it on the arrays that are named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tkc.commands.options import compile_options, data_options, session
from tkc.commands.report import Reporter
from tkc.diagnostics import TkcError, nearest

if TYPE_CHECKING:
    from tkc.backend.cuda import Driver
    from tkc.backend.device_memory import DeviceArray
    from tkc.kernel import Kernel


@click.command("run")
@click.argument("source", metavar="KERNEL.tk|KERNEL.json", type=click.Path())
@click.argument("words", metavar="ARGUMENT…", nargs=-1)
@data_options
@click.option(
    "--device", type=int, default=0, show_default=True, metavar="N", help="The GPU to run on."
)
@compile_options
def command(
    source: str,
    words: tuple[str, ...],
    out: tuple[str, ...],
    expect: tuple[str, ...],
    rtol: float,
    device: int,
    format: str,
    werror: bool,
    remarks: frozenset[str],
    **options: Any,
) -> None:
    """Run a kernel on the GPU here.

    An ARGUMENT is A=a.npy, 'A=random(512,256,seed=3)', 'C=empty(512,256)' (poisoned), 'C=zeros(512,256)', n=7 or
    'x=[1,2,3]'. A list of arrays is 'A=[random(130,72),random(7,72)]', A=a.npz, or one array whose first axis numbers
    them.
    """
    from tkc.argument_words import parse, parse_files

    reporter = Reporter(format, werror, remarks)
    with reporter.failing():
        specs = parse(words)
        saved, expected = parse_files(out, "--out"), parse_files(expect, "--expect")
        if source.endswith(".json"):
            kernel = packaged(source, options["kernel"])
            driver = _driver()
            _run(driver, device, kernel, specs, saved, expected, rtol)
            return
        driver = None
        if options["target"] is None:
            from tkc.backend.device_memory import target_of_device

            driver = _driver()
            options["target"] = target_of_device(driver, device).name
        made = session(source, reporter=reporter, **options)
        compiled = made.run()
        reporter.show(compiled.diagnostics)
        from tkc.kernel import Kernel

        with made.phase("run"):
            _run(driver or _driver(), device, Kernel.of(compiled), specs, saved, expected, rtol)
        made.finish()


def _driver() -> Driver:
    from tkc.backend.cuda import driver

    return driver()


def packaged(source: str, name: str | None) -> Kernel:
    """The kernel of a contract file."""
    from tkc.kernel import load

    return load(Path(source)) if name is None else load(Path(source), kernel=name)


def _run(
    driver: Driver,
    device: int,
    kernel: Kernel,
    specs: Mapping[str, Any],
    saved: Mapping[str, str],
    expected: Mapping[str, str],
    rtol: float,
) -> None:
    """Makes the arguments, launches, waits, and looks at the outputs."""
    import numpy as np

    from tkc import arguments
    from tkc.backend.device_memory import DeviceArray, on_device, synchronize
    from tkc.comparison import check_expected

    contract = kernel.contract
    dtypes = {a["name"]: a["dtype"] for a in contract["arguments"] if not a.get("scalar")}
    check_names((*saved, *expected), dtypes)
    arguments.check_files(saved, lists_of(contract), "--out")
    arguments.check_readable(expected.values())
    values, symbols = arguments.make(specs, contract)
    with on_device(driver, device), ExitStack() as held:

        def placed(value: Any) -> Any:
            """An argument with its arrays on the device, which are freed in the end."""
            if isinstance(value, list):
                return [placed(x) for x in cast("list[Any]", value)]
            if not isinstance(value, np.ndarray):
                return value
            array = DeviceArray(driver, cast("np.ndarray[Any, Any]", value))
            held.callback(array.free)
            return array

        passed = [placed(value) for value in values]
        kernel.launch(*passed, **symbols)
        synchronize(driver, kernel.name)
        arrays = {a["name"]: p for a, p in zip(contract["arguments"], passed, strict=True)}
        results = {
            name: (_to_host(arrays[name]), dtypes[name])
            for name in dict.fromkeys((*saved, *expected))
        }
    for name, path in saved.items():
        arguments.save(path, results[name][0])
    for line in check_expected(results, expected, rtol):
        click.echo(line)


def _to_host(value: DeviceArray | list[DeviceArray]) -> Any:
    return [x.to_host() for x in value] if isinstance(value, list) else value.to_host()


def lists_of(contract: Mapping[str, Any]) -> set[str]:
    """The arguments that are lists of arrays."""
    return {a["name"] for a in contract["arguments"] if a.get("list")}


def check_names(names: tuple[str, ...], known: Collection[str]) -> None:
    """Refuses names of `--out` and `--expect` that no array has (TK401)."""
    for name in names:
        if name not in known:
            near = nearest(name, tuple(known))
            hint = f"; did you mean {near}?" if near else f"; there are {', '.join(known)}"
            raise TkcError.at("TK401", f"the kernel has no array {name}{hint}")

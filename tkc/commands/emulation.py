"""What `tkc emulate` is to run: a source, a packaged kernel or anybody's PTX, with its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tkc.commands.options import session
from tkc.commands.report import Reporter
from tkc.commands.run import packaged
from tkc.diagnostics import Diagnostic, TkcError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tkc.argument_words import Spec
    from tkc.commands.plain_launch import PlainLaunch
    from tkc.kernel import Kernel

    Arrays = Mapping[str, tuple[NDArray[Any] | list[NDArray[Any]], str]]

COMPILED = "<ptx>"
"""What messages call the PTX of a kernel that was compiled for this run; `tkc compile -o` writes the same text."""

NUMBERS = ("entry", "grid", "block", "cluster", "shared_bytes", "dependent")
"""Options that say how a PTX text is launched."""


@dataclass
class Emulation:
    """One launch, ready to run: `how` are `tkc.emulate`'s keywords, None where a size of 0 leaves nothing to launch."""

    name: str
    ptx: str
    file: str
    how: dict[str, Any] | None
    arrays: Arrays
    diagnostics: tuple[Diagnostic, ...] = ()


def prepare(
    source: str,
    words: Sequence[str],
    launch: Path | None,
    sm_count: int | None,
    plain: dict[str, Any],
    options: dict[str, Any],
    reporter: Reporter,
) -> Emulation:
    """The launch that the words of the command line mean."""
    path = Path(source)
    numbers = {name: value for name, value in plain.items() if name != "entry"}
    if path.suffix not in (".ptx", ".json"):
        if launch is not None:
            raise click.UsageError(
                "--launch is for a PTX text; a .tk source says how it is launched"
            )
        _refuse_numbers(numbers, source)
        options["kernel"] = _entry(plain["entry"], options["kernel"])
        made = session(source, reporter=reporter, **options)
        compiled = made.run()
        from tkc.kernel import Kernel

        emulation = _ours(Kernel.of(compiled), words, sm_count, COMPILED)
        emulation.diagnostics = compiled.diagnostics
        made.finish()
        return emulation
    _refuse_options(options, source)
    entry = _entry(plain["entry"], options["kernel"])
    file = launch if path.suffix == ".ptx" else path
    if file is None or _is_plain(file):
        return _foreign(path, file, words, {**plain, "entry": entry}, reporter, sm_count)
    _refuse_numbers(numbers, str(file))
    if path.suffix == ".json":
        return _ours(packaged(source, entry), words, sm_count, COMPILED)
    return _ours(_with_text(file, path, entry), words, sm_count, str(path))


def _entry(entry: str | None, kernel: str | None) -> str | None:
    if entry is not None and kernel is not None and entry != kernel:
        raise click.UsageError(f"--entry {entry} and --kernel {kernel}: choose one")
    return entry or kernel


def _refuse_numbers(numbers: Mapping[str, Any], source: str) -> None:
    for name, value in numbers.items():
        if value is not None:
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} is for a PTX text alone; {source} says it")


_FOR_SOURCES = {
    "target": "--target",
    "params": "-D",
    "passes": "--passes",
    "dump": "--dump",
    "print_ir_before": "--print-ir-before",
    "print_ir_after": "--print-ir-after",
    "print_ir_before_all": "--print-ir-before-all",
    "print_ir_after_all": "--print-ir-after-all",
    "print_debuginfo": "--print-debuginfo",
    "timing": "--timing",
    "verify_each": "--verify-each",
}
"""Options of a compilation, which a compiled kernel cannot have."""


def _refuse_options(options: Mapping[str, Any], source: str) -> None:
    for name, option in _FOR_SOURCES.items():
        if options[name]:
            raise click.UsageError(f"{option} is for a .tk source; {source} is compiled already")


def _is_plain(file: Path) -> bool:
    from tkc.backend.schema import is_object
    from tkc.commands.plain_launch import SCHEMA, read_json

    value = read_json(file)
    return is_object(value) and value.get("schema") == SCHEMA


def _with_text(contract: Path, ptx: Path, entry: str | None) -> Kernel:
    """The kernel of a contract with the text of another file, such as an edited one."""
    from tkc.backend.package import read_contract
    from tkc.driver import read_source
    from tkc.kernel import Kernel, choose

    kernels = read_contract(contract)["kernels"]
    return Kernel(choose(kernels, entry, str(contract)), read_source(ptx))


def _ours(kernel: Kernel, words: Sequence[str], sm_count: int | None, file: str) -> Emulation:
    """A kernel with a contract, on the arguments of the words."""
    from tkc import arguments
    from tkc.argument_words import parse
    from tkc.kernel import EMULATED_SMS

    specs = parse(words)
    values, symbols = arguments.make(specs, kernel.contract)
    arrays: dict[str, tuple[Any, str]] = {}
    given: list[Any] = []
    for argument, value in zip(kernel.contract["arguments"], values, strict=True):
        name = argument["name"]
        if not argument.get("scalar"):
            arrays[name] = value, argument["dtype"]
            value = _unwritten(specs.get(name), value)
        given.append(value)
    how = kernel.emulation(*given, sm_count=sm_count or EMULATED_SMS, **symbols)
    return Emulation(kernel.name, kernel.ptx, file, how, arrays)


def _unwritten(spec: Spec | None, value: Any) -> Any:
    """The value of an argument, in which what is `empty` counts as never written."""
    from tkc.argument_words import Empty, Several
    from tkc.emulator import Poisoned

    if isinstance(value, list):
        arrays = cast("list[Any]", value)
        specs = spec.items if isinstance(spec, Several) else [spec] * len(arrays)
        return [_unwritten(its, array) for its, array in zip(specs, arrays, strict=True)]
    return Poisoned(value) if isinstance(spec, Empty) else value


def _foreign(
    path: Path,
    file: Path | None,
    words: Sequence[str],
    plain: Mapping[str, Any],
    reporter: Reporter,
    sm_count: int | None,
) -> Emulation:
    """A PTX text with a plain launch, from a file or from the command line."""
    from tkc.commands import plain_launch
    from tkc.commands.plain_values import make
    from tkc.driver import read_source
    from tkc.emulator.launch import load

    launch = plain_launch.read(file) if file is not None else plain_launch.PlainLaunch()
    said = {name: plain[name] for name in NUMBERS if plain[name] is not None}
    launch = plain_launch.parse_words(words, replace(launch, **said), plain["array"] or ())
    text_path = path if path.suffix == ".ptx" else launch.ptx
    if text_path is None:
        raise TkcError.at("TK411", f'{path}: names no PTX text; expected "ptx": "FILE.ptx"')
    text = read_source(text_path)
    name = str(text_path)
    reporter.sources[name] = text
    program = load(text, launch.entry, name)
    directives = program.function.directives
    block = launch.block or directives.get("reqntid")
    if launch.grid is None or block is None:
        raise click.UsageError(_needs_launch(path, launch))
    made = make(launch)
    how = {
        "entry": program.function.name,
        "grid": launch.grid,
        "block": block,
        "cluster": launch.cluster,
        "shared_bytes": launch.shared_bytes,
        "dependent": launch.dependent,
        "args": made.args,
        "sm_count": sm_count,
    }
    return Emulation(program.function.name, text, name, how, made.arrays)


def _needs_launch(path: Path, launch: PlainLaunch) -> str:
    missing = "--grid" if launch.grid is None else "--block"
    beside = path.with_suffix(".json")
    hint = f" {beside} lies beside it." if path.suffix == ".ptx" and beside.is_file() else ""
    return (
        f"{path} does not say how it is launched; give --launch FILE.json, or {missing} and the"
        f" arguments in order.{hint}"
    )

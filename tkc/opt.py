"""`tkc-opt`: passes on IR text, xDSL's own driver with our dialects, passes and targets only.

Beyond what `xdsl-opt` has: operations know their line of the input, so that an error names its place; every error is
one message; and `--verify-diagnostics` means what it does for `mlir-opt`: comments say which diagnostics must come.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import IO, Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.tools.command_line_tool import CommandLineTool
from xdsl.utils.arg_spec import parse_spec
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import VersionAction, xDSLOptMain

from tkc.diagnostics import Bug, Diagnostic, Location, TkcError, listening
from tkc.driver import parse_pipeline
from tkc.dump import ir_text
from tkc.expectations import differences, said
from tkc.ir import context
from tkc.ir.locations import LocatedParser, location_of
from tkc.passes import PASSES
from tkc.passes.preconditions import check

_SWITCHES = {
    "split-input-file": "take each piece between `// -----` lines by itself",
    "verify-diagnostics": "succeed where exactly the errors and warnings come that comments name, by "
    "`// expected-error {{TEXT}}` as in mlir-opt or by `// error: TEXT`; --expect-errors is the same",
    "parsing-diagnostics": "print what the parser finds wrong, and succeed",
    "print-op-generic": "print every operation in the generic form",
    "print-debuginfo": "print every operation with its location",
    "print-between-passes": "print the IR between passes on standard error",
    "time-passes": "print what each pass took on standard error",
}


@dataclass(frozen=True)
class TkcFrontend(Frontend):
    """IR text, whose operations take their line where they have no location of their own."""

    name = "mlir"
    no_implicit_module: bool = False

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        try:
            text = input.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise TkcError.at("TK112", f"{input_name} is not UTF-8: {error.reason}") from None
        parser = LocatedParser(ctx, text, input_name)
        try:
            return parser.parse_module(not self.no_implicit_module)
        except VerifyException as error:  # of a type or an attribute, which knows no place
            parser.raise_error(_first_line(error))


@dataclass(frozen=True)
class PtxTarget(Target):
    """`-t ptx`: the text that `tkc compile` writes."""

    name = "ptx"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from tkc.backend.ptx_text import print_ptx

        output.write(print_ptx(module))


class VerifyError(VerifyException):
    """What the verifier found wrong, one diagnostic an operation."""

    def __init__(self, diagnostics: Sequence[Diagnostic], after: str | None) -> None:
        super().__init__("\n".join(d.render() for d in diagnostics))
        self.diagnostics = tuple(diagnostics)
        self.after = after
        """The pass that left the module so, None where it came so."""


class PassError(DiagnosticException):
    """A TkcError of a pass, in the form that `--verify-diagnostics` catches."""

    def __init__(self, error: TkcError) -> None:
        super().__init__(error.render())
        self.diagnostics = error.diagnostics


class _Once(argparse.Action):
    """Stores a value, and refuses a second one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        if before is not None:
            parser.error(f"{option_string} is given twice, as {before} and as {values}")
        setattr(namespace, self.dest, values)


class TkcOpt(xDSLOptMain):
    """One run of `tkc-opt`; `run` prints to standard output and raises where the input is wrong."""

    version_format: ClassVar[str] = "tkc-opt built on xdsl {xdsl_version}"

    def __init__(self, args: Sequence[str] | None = None) -> None:
        # The base's own would take the names of every pass of xDSL, and --disable-verify for the whole process.
        self.available_frontends = {}
        self.available_passes = {}
        self.available_targets = {}
        self.ctx = context()
        self.register_all_frontends()
        self.register_all_passes()
        self.register_all_targets()
        parser = argparse.ArgumentParser("tkc-opt", description="Run tkc's passes on IR text.")
        self.register_all_arguments(parser)
        self.args = parser.parse_args(args)
        self.ctx.allow_unregistered = self.args.allow_unregistered_dialect
        spec = parse_spec(self.args.target)
        if spec.name not in self.available_targets:
            parser.error(
                f"-t: no target {spec.name}; there are {', '.join(self.available_targets)}"
            )
        self.setup_pipeline()

    def register_all_frontends(self) -> None:
        self.available_frontends["mlir"] = lambda: TkcFrontend

    def register_all_passes(self) -> None:
        self.available_passes.update(PASSES)

    def register_all_targets(self) -> None:
        def mlir() -> type[Target]:
            from xdsl.targets.mlir import MLIRTarget

            return MLIRTarget

        self.available_targets.update({"mlir": mlir, "ptx": lambda: PtxTarget})

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        CommandLineTool.register_all_arguments(self, arg_parser)
        passes, targets = ", ".join(self.available_passes), ", ".join(self.available_targets)
        add = arg_parser.add_argument
        add(
            "-p",
            "--passes",
            default="",
            metavar="PIPELINE",
            help=f"the passes to run, with commas between: {passes}",
        )
        add("-t", "--target", default="mlir", help=f"the form of the output: {targets}")
        add(
            "-o",
            "--output-file",
            metavar="FILE",
            action=_Once,
            help="where to write [standard output]",
        )
        for name, text in _SWITCHES.items():
            also = ("--expect-errors",) if name == "verify-diagnostics" else ()
            add(f"--{name}", *also, action="store_true", help=text)
        add(
            "-v",
            "--verbose",
            action="store_true",
            help="print the notes of an error, which hold the IR",
        )
        add("--version", action=VersionAction, version_format=self.version_format)
        arg_parser.set_defaults(syntax_highlight=False, print_no_properties=False)

    def setup_pipeline(self) -> None:
        self._running: str | None = None
        self._began = 0.0
        self.pipeline = PassPipeline(parse_pipeline(self.args.passes), self._between)

    def _between(
        self, previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
    ) -> None:
        """Verifies before, between and after the passes, and prints where that was asked for."""
        took = perf_counter()
        if not self.args.disable_verify:
            self._running = previous.name if previous else None
            _verify(module, previous.name if previous else None)
        if following:
            check(following.name, module)
        if previous and following and self.args.print_between_passes:
            sys.stderr.write(
                f"// -----// IR after {previous.name} //----- //\n{ir_text(module, locations=False)}\n"
            )
        if previous and self.args.time_passes:
            sys.stderr.write(f"{previous.name:<24}{(took - self._began) * 1e3:9.2f} ms\n")
        self._running = following.name if following else None
        self._began = perf_counter()

    def run(self) -> None:
        """Reads, runs and writes; the output file is written whole or not at all."""
        output = io.StringIO()
        chunks, extension = self.prepare_input()
        failed = ""
        for i, (chunk, offset) in enumerate(chunks):
            if i > 0 and not self.args.verify_diagnostics:
                output.write("// -----\n")
            with chunk:
                if self.args.verify_diagnostics:
                    failed += self._expect(chunk.read(), extension, offset)
                else:
                    output.write(self._one(chunk, extension, offset))
        if failed:
            raise DiagnosticException(failed.rstrip())
        if self.args.output_file is None:
            sys.stdout.write(output.getvalue())
        else:
            from tkc.backend.package import write_files

            write_files({Path(self.args.output_file): output.getvalue()})

    def _one(self, chunk: IO[bytes], extension: str, offset: int) -> str:
        """The output for one piece of the input; a parser's diagnostic that was asked for is the output."""
        try:
            return self._transform(chunk, extension, offset)
        except ParseError as error:
            if not self.args.parsing_diagnostics:
                raise
            return f"{error}\n"

    def _transform(self, chunk: IO[bytes], extension: str, offset: int) -> str:
        module = self.parse_chunk(chunk, extension, offset)
        if module is None:
            return ""
        try:
            self.apply_passes(module)
        except TkcError as error:
            raise PassError(error) from error
        except (Bug, DiagnosticException):
            raise
        except Exception as error:
            raise Bug(self._running or "a pass", f"{type(error).__name__}: {error}") from error
        try:
            return self.output_resulting_program(module)
        except (TkcError, Bug):
            raise
        except Exception as error:
            raise Bug(
                f"the {self.args.target} printer", f"{type(error).__name__}: {error}"
            ) from error

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        if self.args.input_file == "-":  # standard input, as where no file is named
            self.args.input_file = None
        path = self.args.input_file
        if path is not None:
            extension = Path(path).suffix
            if extension != ".mlir" and not self.args.frontend:
                raise TkcError.at(
                    "TK112",
                    f"{path} is no IR text; expected the suffix .mlir, found {extension or 'none'}",
                )
            try:
                return super().prepare_input()
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise TkcError.at("TK112", f"{path} cannot be read: {reason}") from None
        return super().prepare_input()

    def _expect(self, data: bytes, extension: str, offset: int) -> str:
        """What the comments of one piece and its diagnostics disagree about; empty where they agree."""
        text = "\n" * offset + data.decode("utf-8")
        found = list(said(self._diagnostics(text.encode(), extension)))
        return "".join(f"{line}\n" for line in differences(text, found, self.get_input_name()))

    def _diagnostics(self, data: bytes, extension: str) -> list[Diagnostic]:
        """Everything that is said of one piece of the input."""
        with listening() as heard:
            try:
                self._transform(io.BytesIO(data), extension, 0)
            except ParseError as error:
                at = error.span.get_location()
                heard.append(Diagnostic("TK101", error.msg, Location(at.file, at.line, at.col)))
            except (VerifyError, PassError, TkcError) as error:
                heard += error.diagnostics
            except (DiagnosticException, Bug) as error:
                heard.append(Diagnostic("TK901", str(error)))
        return heard


def _verify(module: ModuleOp, after: str | None) -> None:
    """Raises VerifyError with every operation that does not verify; the walk is only taken where there is one."""
    try:
        module.verify()
    except VerifyException as error:
        found = list(_wrong_operations(module)) or [Diagnostic("TK901", _first_line(error))]
        raise VerifyError(found, after) from error


def _wrong_operations(module: ModuleOp) -> Iterator[Diagnostic]:
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            yield Diagnostic("TK901", f"{op.name}: {_first_line(error)}", location_of(op))


def _first_line(error: Exception) -> str:
    """The message itself: what follows is the IR around it."""
    said = str(error).strip().splitlines()
    return said[0] if said else type(error).__name__


def main(arguments: Sequence[str]) -> int:
    """Runs `tkc-opt` on command-line words; returns 0, 1 (the input is wrong), 2 (usage) or 3 (a pass is wrong)."""
    verbose = "-v" in arguments or "--verbose" in arguments
    try:
        TkcOpt(arguments).run()
        return 0
    except SystemExit as leaving:  # argparse, after --help or wrong usage
        return leaving.code if isinstance(leaving.code, int) else 2
    except ParseError as error:
        return _fail(_parse_message(error), error, verbose, 1)
    except VerifyError as error:
        blame = f"\nleft so by {error.after} [TK901]" if error.after else ""
        return _fail(f"{error}{blame}", error, verbose, 3 if error.after else 1)
    except TkcError as error:
        from tkc.commands.report import exit_code

        return _fail(error.render(), error, verbose, exit_code(error))
    except Bug as error:
        return _fail(str(error), error, verbose, 3)
    except DiagnosticException as error:
        return _fail(str(error), error, verbose, 1)


def _parse_message(error: ParseError) -> str:
    at = error.span.get_location()
    location = Location(at.file, at.line, at.col)
    return Diagnostic("TK101", error.msg, location).render({at.file: str(error.span.input.content)})


def _fail(message: str, error: BaseException, verbose: bool, code: int) -> int:
    sys.stderr.write(f"{message}\n")
    if verbose:
        notes: list[str] = []
        at: BaseException | None = error
        while at is not None:
            notes += getattr(at, "__notes__", [])
            at = at.__cause__
        sys.stderr.writelines(f"{note}\n" for note in notes)
    return code


def script() -> None:
    """Entry point of the `tkc-opt` script."""
    from tkc.__main__ import run_script

    run_script(main)

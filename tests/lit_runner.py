"""Runs lit tests inside this process: the RUN lines of real lit, at a hundredth of its time.

It knows `%s %S %t %T`, pipes, `&&`, redirections, `not`, and the tools in `_TOOLS`; a line with more than that is an
error, so that a test never passes unrun. Lines that run the kernel of a file (`lit_kernels`) are run too;
`python tests/lit_runner.py FILE` is how real lit has them run.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lit_kernels import command_words, kernel_lines, one_of_each_target

_RUN = re.compile(r"RUN:\s?(.*?)\s*$")
_REQUIRES = re.compile(r"REQUIRES:\s*(.*?)\s*$")


@dataclass
class Result:
    """What a command left: exit code, standard output and standard error."""

    code: int
    out: bytes = b""
    err: bytes = b""


class LitError(Exception):
    """A RUN line that this runner cannot read."""


def run_lines(path: Path) -> list[str]:
    """The RUN lines of a test, those that end in a backslash joined with the next."""
    lines: list[str] = []
    joined = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _RUN.search(line)
        if match is None:
            continue
        joined += match[1]
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        lines.append(joined)
        joined = ""
    if joined:
        raise LitError(f"{path}: the last RUN line ends in a backslash")
    return lines


def requirements(path: Path) -> set[str]:
    """The features that a test's REQUIRES lines name."""
    found = _REQUIRES.findall(path.read_text(encoding="utf-8")) or []
    return {word.strip() for line in found for word in line.split(",")}


def run_test(
    path: Path, scratch: Path, machines: Sequence[str] = ("emulate",), seed: str | None = None
) -> str | None:
    """Runs a test in the folder `scratch`; None where it passed, else what failed and what it printed.

    `machines` are those that kernels can be run on here. With a seed, of the runs of one target one is made.
    """
    lines, kernels = run_lines(path), kernel_lines(path)
    if seed is not None:
        kernels = one_of_each_target(kernels, seed)
    if not lines and not any("emulate" in k.machines for k in kernels):
        raise LitError(f"{path} has no RUN line and no line to emulate")
    names = {"%s": path, "%S": path.parent, "%t": scratch / f"{path.name}.tmp", "%T": scratch}
    with chdir(scratch):
        for line in lines:
            command = re.sub(r"%%|%[sStT]\b", lambda m: str(names.get(m[0], "%")), line)
            for part in command.split("&&"):
                result = _pipeline(part)
                if result.code:
                    said = (result.out + result.err).decode("utf-8", "replace")
                    return f"exit {result.code} from: {part.strip()}\n{said}"
        for kernel in kernels:
            for machine in (m for m in kernel.machines if m in machines):
                words = command_words(kernel, machine, path, scratch)
                result = _call(["tkc", *words], b"")
                said = (result.out + result.err).decode("utf-8", "replace")
                if machine == "gpu" and "[TK408]" in said:
                    continue  # for another GPU than the one here
                if result.code:
                    return f"exit {result.code} from: tkc {shlex.join(words)}\n{said}"
    return None


def _pipeline(text: str) -> Result:
    """Runs `a | b | c`; as in lit's own shell, any part that fails makes it fail."""
    stages = [stage for stage in _split(text)]
    data, errors, code = b"", b"", 0
    result = Result(0)
    for words in stages:
        result = _stage(words, data)
        data, errors, code = result.out, errors + result.err, code or result.code
    return Result(code, result.out, errors)


def _split(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text.replace("2>&1", " __BOTH__ "), posix=True, punctuation_chars="|<>&;()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for token in lexer:
        if token == "|":
            yield words
            words = []
        elif token in ("&", "||", ";", "(", ")", "<<"):
            raise LitError(f"{token} is not known here: {text}")
        else:
            words.append(token)
    yield words


def _stage(words: list[str], data: bytes) -> Result:
    arguments: list[str] = []
    target: tuple[Path, str] | None = None
    both = False
    rest = iter(words)
    for word in rest:
        if word == "__BOTH__":
            both = True
        elif word == "<":
            data = Path(next(rest)).read_bytes()
        elif word in (">", ">>"):
            target = (Path(next(rest)), "wb" if word == ">" else "ab")
        else:
            arguments.append(word)
    if not arguments:
        raise LitError("a RUN line has an empty command")
    result = _call(arguments, data)
    if both:
        result = Result(result.code, result.out + result.err)
    if target is not None:
        with target[0].open(target[1]) as file:  # type: ignore[call-overload]
            file.write(result.out)
        result.out = b""
    return result


def _call(arguments: Sequence[str], data: bytes) -> Result:
    name, *rest = arguments
    if name == "not":
        result = _call(rest, data)
        return Result(int(result.code == 0), result.out, result.err)
    if name not in _TOOLS:
        raise LitError(f"no tool {name} here; there are not, {', '.join(_TOOLS)}")
    with _streams(data) as (out, err):
        code = _TOOLS[name](rest)
    return Result(code, out.getvalue(), err.getvalue())


@contextmanager
def _streams(data: bytes) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Standard input, output and error as bytes in memory."""
    saved = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", write_through=True)
    try:
        yield out, err
        sys.stdout.flush()
        sys.stderr.flush()
        written = sys.stdout, sys.stderr
        for stream in written:
            stream.detach()
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved


def _tkc(arguments: list[str]) -> int:
    from tkc.__main__ import guarded, main

    return guarded(main, arguments)


def _tkc_opt(arguments: list[str]) -> int:
    from tkc.__main__ import guarded
    from tkc.opt import main

    return guarded(main, arguments)


def _filecheck(arguments: list[str]) -> int:
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options

    return Matcher.from_opts(parse_argv_options(["filecheck", *arguments])).run()


def _cat(arguments: list[str]) -> int:
    for name in arguments:
        sys.stdout.buffer.write(Path(name).read_bytes())
    if not arguments:
        sys.stdout.buffer.write(sys.stdin.buffer.read())
    return 0


def _diff(arguments: list[str]) -> int:
    import difflib

    first, second = (
        (sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")).splitlines()
        for name in arguments
    )
    lines = list(difflib.unified_diff(first, second, *arguments, lineterm=""))
    print("\n".join(lines))
    return int(bool(lines))


_TOOLS: dict[str, Callable[[list[str]], int]] = {
    "tkc": _tkc,
    "tkc-opt": _tkc_opt,
    "filecheck": _filecheck,
    "cat": _cat,
    "diff": _diff,
}


def main(arguments: Sequence[str]) -> int:
    """Runs the files that are named; 1 where one fails."""
    from conftest import has_gpu

    failed = False
    for name in arguments:
        with TemporaryDirectory() as scratch:
            machines = ("emulate", "gpu") if has_gpu() else ("emulate",)
            failure = run_test(Path(name).resolve(), Path(scratch), machines)
        if failure is not None:
            print(failure)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Source → IR → passes → PTX and launch contract: the one file that knows every room.

`compile` is the API; `run` is what the commands use: it takes a `Job` and observers (dumps, timing, printing), and
returns the module, the text and the contract. Nothing here imports xdsl before it is needed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tkc.diagnostics import Bug, Location, Note, TkcError, listening, nearest
from tkc.job import DEFAULT_TARGET, Compiled, Job, Observer, Step, no_such

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from tkc.kernel import Kernel
    from tkc.reproducer import Reproducer


def compile(
    source: Path | str,
    *,
    target: str = DEFAULT_TARGET,
    kernel: str | None = None,
    params: Mapping[str, int] | None = None,
    fences: str = "minimal",
    model: str = "practice",
    passes: str | None = None,
    dump: str | Path | None = None,
    search: Sequence[str | Path] = (),
    trap_hangs: float | None = None,
) -> Kernel:
    """Compiles a tile program for `target` ("sm_90a", "sm_100a", …).

    `source` is a path, or the program's text as `str`. `params` override the kernel's compile-time values, `kernel`
    takes one of several, `passes` replaces the pipeline, `dump` is a folder for the IR after every pass. `fences` is
    one of `FENCES` and `model` one of `MODELS`; they steer `eliminate-fences` where the pipeline has it. Imports are
    looked for beside the source, then in the folders `search`. With `trap_hangs`, a wait for an mbarrier that lasts so
    many seconds prints which barrier, role, phase and thread it is of, and stops the kernel.

    Raises TkcError with every mistake found, and Bug where the compiler itself is at fault.
    """
    from tkc.kernel import Kernel

    text, file = _given(source)
    folders = tuple(map(str, search))
    job = Job(
        text,
        file,
        target,
        kernel,
        _integers(params or {}),
        fences,
        model,
        passes,
        search=folders,
        trap_hangs=trap_hangs,
    )
    observers: list[Observer] = []
    if dump is not None:
        from tkc.dump import Dump

        observers.append(Dump(Path(dump), job))
    if not observers:
        from tkc.cached_run import run_cached

        return Kernel.of(run_cached(job))
    return Kernel.of(run(job, observers))


def _given(source: object) -> tuple[str, str]:
    """The text of what `compile` is given, and what messages call it."""
    if isinstance(source, Path):
        return read_source(source), str(source)
    if not isinstance(source, str):
        raise TkcError.at(
            "TK112",
            f"the source is a {type(source).__name__}; expected a pathlib.Path, or the text as str",
        )
    if source.strip() == source and source.endswith(".tk") and "\n" not in source:
        raise TkcError.at(
            "TK112",
            f"the text of the program is {source!r}, which looks like a file's name",
            help=f"tkc.compile(Path({source!r}), …)",
        )
    return source, "<source>"


def _integers(params: Mapping[str, int]) -> dict[str, int]:
    """Params as Python's own integers: NumPy's are as good. What is none stays, for the front end to refuse."""
    return {
        name: int(value) if hasattr(value, "__index__") and not isinstance(value, bool) else value
        for name, value in params.items()
    }


def read_source(path: Path) -> str:
    """The text of a source file; a TkcError says why there is none."""
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise _unreadable(path, "is a folder, expected a file") from None
    except FileNotFoundError:
        near = nearest(path.name, _neighbours(path))
        hint = (Note(f"did you mean {path.with_name(near)}?"),) if near else ()
        raise _unreadable(path, "does not exist", *hint) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, f"cannot be read: {_reason(error)}") from None
    return source_text(data, str(path))


def source_text(data: bytes, name: str) -> str:
    """The text of a source that holds `data`; a TkcError at a place of `name` says why there is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise TkcError.at(
            "TK112",
            f"byte 0x{data[error.start]:02x} is not UTF-8; source files are UTF-8 text",
            Location(name, line, column),
        ) from None
    if not text.strip():
        raise TkcError.at("TK113", "the file is empty, expected a kernel", Location(name))
    return text


def _unreadable(path: Path, why: str, *notes: Note) -> TkcError:
    return TkcError.at("TK112", f"{path} {why}", None, *notes)


def _neighbours(path: Path) -> list[str]:
    try:
        return sorted(p.name for p in path.parent.iterdir() if p.suffix == path.suffix)
    except OSError:
        return []


def _reason(error: Exception) -> str:
    """What the operating system said, without its number and file name."""
    return (getattr(error, "strerror", None) or str(error)).lower()


@lru_cache
def parse_pipeline(text: str) -> tuple[ModulePass, ...]:
    """The passes that a pipeline text names, with their options; a TkcError says what is wrong with it."""
    from xdsl.utils.arg_spec import parse_pipeline as parse
    from xdsl.utils.exceptions import ArgSpecParseError

    from tkc.passes import PASSES

    try:
        specs = tuple(parse(text))
    except ArgSpecParseError as error:
        said = str(error).strip().splitlines()[-1].strip()
        raise TkcError.at("TK119", f"the pipeline {text!r} cannot be read: {said}") from None
    passes: list[ModulePass] = []
    for spec in specs:
        if spec.name not in PASSES:
            raise no_such("TK119", "pass", spec.name, tuple(PASSES))
        try:
            passes.append(PASSES[spec.name]().from_spec(spec))
        except ValueError as error:
            raise TkcError.at(
                "TK119", f"pass {spec.name}: {str(error)[:1].lower()}{str(error)[1:]}"
            ) from None
    return tuple(passes)


def passes_of(job: Job) -> tuple[ModulePass, ...]:
    """The passes that a job runs."""
    return tuple(p for p in parse_pipeline(job.pipeline) if p.name not in job.without)


def pipeline_text(passes: Sequence[ModulePass]) -> str:
    return ",".join(str(p.spec()) for p in passes)


def context() -> Context:
    """A context that knows our dialects and loads each when it is first met."""
    from tkc.ir import context

    return context()


@contextmanager
def _no_garbage_collection() -> Generator[None]:
    """IR is one large web of live objects: a collection during a run finds nothing and costs a tenth of it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def run(
    job: Job, observers: Sequence[Observer] = (), *, module: ModuleOp | None = None
) -> Compiled:
    """Compiles a job to PTX text and a contract, telling the observers on the way; `module` as of `to_module`."""
    with _no_garbage_collection(), listening() as heard:
        module = to_module(job, observers, module=module)
        ptx, contract = _emit(job, module, observers)
    compiled = Compiled(
        job, module, ptx, contract, lambda name: to_module(job, after=name), tuple(heard)
    )
    for observer in observers:
        observer.end(compiled)
    return compiled


def to_module(
    job: Job,
    observers: Sequence[Observer] = (),
    *,
    after: str | None = None,
    module: ModuleOp | None = None,
) -> ModuleOp:
    """The module after the whole pipeline, or after the first pass called `after` (`"frontend"`: before any).

    `module` is what `front` made of the job, where that has been done.
    """
    with _no_garbage_collection():
        began = perf_counter()
        passes = passes_of(job)
        _phase(observers, "load passes", began)
        if after is not None:
            names = ("frontend", *(p.name for p in passes))
            if after not in names:
                raise no_such("TK119", "pass of this pipeline", after, names)
            passes = passes[: names.index(after)]
        began = perf_counter()
        module = module if module is not None else front(job)
        seconds = perf_counter() - began
        for observer in observers:
            observer.begin(module, _step(passes, 0), seconds)
        _apply(job, module, passes, observers)
        return module


def _step(passes: Sequence[ModulePass], place: int) -> Step:
    """What observers are told of a pass; the front end is at place 0."""
    name = passes[place - 1].name if place else "frontend"
    return Step(place, name, pipeline_text(passes[place:]))


def lowered(job: Job, module: ModuleOp, after: str) -> ModuleOp:
    """A module that is as after the pass `after`, after the rest of the pipeline."""
    with _no_garbage_collection():
        passes = passes_of(job)
        done = [p.name for p in passes].index(after) + 1
        _apply(job, module, passes[done:], ())
        return module


def front(job: Job) -> ModuleOp:
    """What the front end makes of a job's source."""
    from tkc.frontend import compile_source

    with _blame(job, "frontend", lambda: _of_source(job)):
        module = compile_source(
            job.text, job.file, params=dict(job.params), kernel=job.kernel, search=job.search
        )
        if job.verify_each:
            verify(module)
        return module


def _apply(
    job: Job, module: ModuleOp, passes: Sequence[ModulePass], observers: Sequence[Observer]
) -> None:
    """Runs the passes in order and verifies: after each where the job says so, else once at the end."""
    ctx = context()
    for i, item in enumerate(passes):
        for observer in observers:
            observer.before(module, _step(passes, i + 1))
        began = perf_counter()
        with _blame(job, item.name, lambda i=i: _before_pass(job, passes, i)):
            item.apply(ctx, module)
            if job.verify_each:
                verify(module)
        seconds = perf_counter() - began
        for observer in observers:
            observer.after(module, _step(passes, i + 1), seconds)
    if not job.verify_each:
        began = perf_counter()
        with _blame(job, "the verifier", lambda: _of_module(module)):
            try:
                verify(module)
            except Exception:
                to_module(
                    replace(job, verify_each=True)
                )  # raises the Bug of the pass that is guilty
                raise
        _phase(observers, "verify", began)


def _before_pass(job: Job, passes: Sequence[ModulePass], index: int) -> Reproducer:
    """A pass has failed half-way through its changes, so the module before it is made again from the source."""
    module = front(replace(job, verify_each=False))
    ctx = context()
    for item in passes[:index]:
        item.apply(ctx, module)
    return _of_module(module, pipeline_text(passes[index:]))


def verify(module: ModuleOp) -> None:
    """Verifies a module; the exception names the operation that is wrong and the source line it came from."""
    from xdsl.utils.exceptions import VerifyException

    try:
        module.verify()
    except VerifyException as error:
        said = str(error).strip().splitlines()
        raise VerifyException(
            f"{_first_wrong(module)}{said[-1] if said else 'does not verify'}"
        ) from None


def _first_wrong(module: ModuleOp) -> str:
    from xdsl.utils.exceptions import VerifyException

    from tkc.ir.locations import location_of

    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            location = location_of(op)
            return f"{location}: {op.name}: " if location else f"{op.name}: "
    return ""


def _emit(job: Job, module: ModuleOp, observers: Sequence[Observer]) -> tuple[str, dict[str, Any]]:
    """The PTX text and the contract of a module that the whole pipeline has lowered."""
    from tkc.backend.package import contract_of
    from tkc.backend.ptx_text import print_ptx

    def reproduce() -> Reproducer:
        return _of_module(module, emit=True)

    began = perf_counter()
    with _blame(job, "the PTX printer", reproduce):
        ptx = print_ptx(module)
    _phase(observers, "print PTX", began)
    began = perf_counter()
    with _blame(job, "the launch contract", reproduce):
        contract = contract_of(module, ptx)
    _phase(observers, "contract", began)
    return ptx, contract


def _phase(observers: Sequence[Observer], name: str, began: float) -> None:
    seconds = perf_counter() - began
    for observer in observers:
        observer.phase(name, seconds)


@contextmanager
def _blame(job: Job, where: str, reproduce: Callable[[], Reproducer]) -> Generator[None]:
    """Lets the user's errors through with their source line, and turns any other exception into a Bug of `where`."""
    try:
        yield
    except TkcError as error:
        error.sources.setdefault(job.file, job.text)
        raise
    except Bug as error:
        _blame_pipeline(job, where)
        if error.reproducer is None:
            error.reproducer = _write(reproduce, error.where, error.message)
        raise
    except Exception as error:
        _blame_pipeline(job, where)
        message = _one_line(error)
        raise Bug(where, message, _write(reproduce, where, message)) from error


def _blame_pipeline(job: Job, where: str) -> None:
    """TK119 where a pass, or the printer behind all, fails because a given pipeline leaves out one that it needs."""
    if job.passes is None:
        return
    from tkc.passes import PASSES, REQUIRED

    given = [p.name for p in passes_of(job)]
    before = given[: given.index(where)] if where in given else given
    needed = [*PASSES][: [*PASSES].index(where)] if where in PASSES else [*PASSES]
    missing = [n for n in needed if n in REQUIRED and n not in before]
    if where != "frontend" and missing:
        what = f"{where} needs" if where in PASSES else "PTX needs"
        told = (
            ", ".join(missing)
            if len(missing) < 4
            else f"{missing[0]} and {len(missing) - 1} more passes"
        )
        help = "`tkc compile --print-pipeline` prints all of them; `--emit mlir` writes what is no PTX yet"
        raise TkcError.at(
            "TK119", f"{what} what {told} make, and the pipeline lacks them there", help=help
        ) from None


def _one_line(error: Exception) -> str:
    said = " ".join(str(error).split())
    said = said if len(said) <= 300 else f"{said[:300]} …"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _of_source(job: Job) -> Reproducer:
    from tkc.reproducer import of_source

    return of_source(job)


def _of_module(module: ModuleOp, pipeline: str = "", *, emit: bool = False) -> Reproducer:
    from tkc.reproducer import of_module

    return of_module(module, pipeline, emit=emit)


def _write(reproduce: Callable[[], Reproducer], where: str, message: str) -> str | None:
    """The path of the file that replays the bug; None where it cannot be made, which must not hide the bug itself."""
    from tkc.reproducer import write

    try:
        return write(reproduce(), where, message)
    except Exception:
        return None

"""PTX text → cubin, whole program, without a GPU: by ptxas, else by nvPTXCompiler in process.

What they say comes back at `.tk` lines.
Relocatable assemblers (nvJitLink, cuLink) drop `setmaxnreg` without an error, so they are never used for a product;
`second_opinion` asks the driver's one whether a text is accepted, and says what it dropped.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tkc.backend import ptxas_log
from tkc.backend.ptxas_log import Notice, Resources
from tkc.backend.tools import candidates, find, library
from tkc.cache import get as cache_get
from tkc.cache import key as cache_key
from tkc.cache import put as cache_put
from tkc.diagnostics import TkcError
from tkc.digests import sha256
from tkc.ir.isa.system import called

TIMEOUT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Assembly:
    """A cubin and what the assembler said; `tool` is its name and version, `notices` those that were allowed."""

    cubin: bytes
    log: str
    kernels: dict[str, Resources]
    notices: tuple[Notice, ...]
    tool: str

    @property
    def registers(self) -> dict[str, int]:
        """Registers a thread of each kernel."""
        return {name: r.registers for name, r in self.kernels.items()}

    @property
    def spills(self) -> dict[str, tuple[int, int]]:
        """Bytes of spill stores and spill loads of each kernel that has any."""
        return {
            name: (r.spill_stores, r.spill_loads)
            for name, r in self.kernels.items()
            if r.spill_stores or r.spill_loads
        }


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a tool: no cubin means that it refused."""

    cubin: bytes | None
    log: str


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    run: Callable[[str, str, bool], _Run]


def assemble(
    ptx: str, target: str, *, lineinfo: bool = True, allow: Collection[str] = frozenset()
) -> Assembly:
    """The cubin of a PTX text for `target` ("sm_90a").

    Every warning, every notice with a code ("C7510") and every spill is an error unless `allow` has its name; spills
    are called "spills", warnings without a code "warning". What calls of the system's functions cost is allowed, as a
    kernel has them for debugging only. Raises TkcError: TK210 (refused; one for each error, at the
    `.tk` line), TK211 (notices), TK214 (spills), TK212 (no assembler).
    """
    refusals: list[TkcError] = []
    allow = {*allow, *(notice for function in called(ptx) for notice in function.notices)}
    for tool in _tools():
        run = _run(tool, ptx, target, lineinfo)
        report = ptxas_log.read(run.log)
        if run.cubin is None:
            refusal = ptxas_log.refusal(report, ptx, tool.name)
            if ptxas_log.unsupported(report) is None:
                raise refusal
            refusals.append(refusal)  # an older tool stands before a newer one
            continue
        ptxas_log.reject_notices(report, ptx, allow)
        return Assembly(run.cubin, run.log, report.kernels, report.notices, tool.name)
    if refusals:
        raise TkcError(tuple(d for r in refusals for d in r.diagnostics), refusals[0].sources)
    raise TkcError.at(
        "TK212",
        "no assembler found: neither ptxas nor nvPTXCompiler with a C compiler",
        help="pip install tkc[assemble]",
    )


def _run(tool: _Tool, ptx: str, target: str, lineinfo: bool) -> _Run:
    """What a tool makes of a text, or made of it before."""
    name = cache_key("cubin", tool.name, target, str(lineinfo), ptx)
    known = cache_get(name)
    if known is not None:
        size = int.from_bytes(known[:8], "little")
        return _Run(known[8 + size :], known[8 : 8 + size].decode())
    run = tool.run(ptx, target, lineinfo)
    if run.cubin is not None:
        log = run.log.encode()
        cache_put(name, len(log).to_bytes(8, "little") + log + run.cubin)
    return run


def _tools() -> Iterator[_Tool]:
    for path in candidates("ptxas"):
        yield _Tool(f"ptxas {_version(path)}".rstrip(), partial(_ptxas, path))
    archive = library("libnvptxcompiler_static.a")
    if archive is not None:
        yield from _nvptxcompiler(archive)


@dataclass(frozen=True, slots=True)
class Ptxas:
    """An assembler on this machine; `version` is "13.5.37", "" where it does not say."""

    path: str
    version: str


def find_ptxas() -> Ptxas | None:
    """The ptxas that `assemble` tries first."""
    path = find("ptxas")
    return Ptxas(path, _version(path)) if path else None


@functools.cache
def _version(path: str) -> str:
    """The version of a ptxas, "13.5.37"; "" where it does not say."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bV(\d+(?:\.\d+)+)", done.stdout)
    return found[1] if found else ""


def _ptxas(path: str, ptx: str, target: str, lineinfo: bool) -> _Run:
    # Only options that every ptxas since 11 has: an unknown one would fail the run.
    options = ["-v", *(["-lineinfo"] if lineinfo else [])]
    with tempfile.TemporaryDirectory(prefix="tkc-") as folder:
        source, result = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [path, f"-arch={target}", *options, source.name, "-o", result.name]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                cwd=folder,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TkcError.at("TK210", f"{path} did not run: {error}") from None
        log = done.stdout + done.stderr
        if done.returncode or not result.is_file():
            return _Run(None, log)
        return _Run(result.read_bytes(), log)


# nvPTXCompiler: pip ships a static archive, which a C compiler makes a shared library once


def _nvptxcompiler(archive: Path) -> Iterator[_Tool]:
    loaded = _load_nvptxcompiler(archive)
    if loaded is not None:
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        loaded.nvPTXCompilerGetVersion(ctypes.byref(major), ctypes.byref(minor))
        yield _Tool(
            f"nvPTXCompiler {major.value}.{minor.value}", partial(_compile_in_process, loaded)
        )


@functools.cache
def _load_nvptxcompiler(archive: Path) -> ctypes.CDLL | None:
    """The shared library, built on first use; None where no C compiler is there or the link fails."""
    try:
        return ctypes.CDLL(str(shared_library(archive)))
    except (OSError, subprocess.SubprocessError):
        return None


def shared_library(archive: Path, folder: Path | None = None) -> Path:
    """`archive` linked into a shared library in the user's cache; made once, right under concurrent makers.

    Raises FileNotFoundError without a C compiler, CalledProcessError where it fails.
    """
    about = archive.stat()
    key = f"{archive}:{about.st_size}:{about.st_mtime_ns}"
    folder = folder or cache_folder()
    place = folder / f"libnvptxcompiler-{sha256(key.encode()).hexdigest()[:16]}.so"
    if place.is_file():
        return place
    compiler = next(
        (c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None
    )
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    folder.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f".{place.name}.{os.urandom(4).hex()}")
    command = [
        compiler, "-shared", "-o", str(part),
        "-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive",
        "-lpthread", "-lm", "-ldl", "-lstdc++",
    ]  # fmt: skip
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_SECONDS)
        os.replace(part, place)
    finally:
        part.unlink(missing_ok=True)
    return place


def cache_folder() -> Path:
    """Where built things are kept: `$XDG_CACHE_HOME/tkc`, else `~/.cache/tkc`, else a folder of the system."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) / "tkc" if base else Path.home() / ".cache" / "tkc"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):
        pass  # no home, or a read-only one
    return Path(tempfile.gettempdir()) / f"tkc-{os.getuid()}"


def _compile_in_process(lib: ctypes.CDLL, ptx: str, target: str, lineinfo: bool) -> _Run:
    data = ptx.encode()
    options = [f"--gpu-name={target}", "-v", *(["-lineinfo"] if lineinfo else [])]
    handle = ctypes.c_void_p()
    if lib.nvPTXCompilerCreate(ctypes.byref(handle), ctypes.c_size_t(len(data)), data):
        return _Run(None, "fatal : nvPTXCompiler could not be created")

    def read(what: str) -> bytes:
        size = ctypes.c_size_t()
        if (
            getattr(lib, f"nvPTXCompilerGet{what}Size")(handle, ctypes.byref(size))
            or not size.value
        ):
            return b""
        buffer = ctypes.create_string_buffer(size.value + 1)
        getattr(lib, f"nvPTXCompilerGet{what}")(handle, buffer)
        return buffer.raw[: size.value]

    try:
        array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        status = lib.nvPTXCompilerCompile(handle, len(options), array)
        log = "".join(read(w).split(b"\0")[0].decode() + "\n" for w in ("InfoLog", "ErrorLog"))
        return _Run(None if status else read("CompiledProgram"), log)
    finally:
        lib.nvPTXCompilerDestroy(ctypes.byref(handle))


# A second opinion


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """Whether another assembler takes the text.

    `dropped` names what it silently leaves out: such a `cubin` is no product.
    """

    accepted: bool
    tool: str
    log: str
    dropped: tuple[str, ...]
    cubin: bytes | None

    def __str__(self) -> str:
        verdict = "accepts the program" if self.accepted else "refuses the program"
        loss = (
            f"; it drops {', '.join(self.dropped)}, so its cubin is no product"
            if self.dropped
            else ""
        )
        return f"{self.tool} {verdict}{loss}"


RELOCATABLE_DROPS = ("setmaxnreg",)
"""Instructions that assemblers in relocatable mode leave out with no more than an info line (C7504)."""


def second_opinion(ptx: str, target: str) -> SecondOpinion:
    """Asks the CUDA driver's linker (cuLink) for `target`, which need not be the GPU here.

    Raises TkcError TK409 where there is no driver.
    """
    from tkc.backend.cuda import driver

    dropped = tuple(
        name for name in RELOCATABLE_DROPS if re.search(rf"^[^/\n]*\b{name}\b", ptx, re.MULTILINE)
    )
    cuda = driver()
    cubin, log = cuda.link(ptx, target)
    version = cuda.version()
    tool = f"cuLink of driver {version // 1000}.{version % 1000 // 10}"
    return SecondOpinion(cubin is not None, tool, log, dropped, cubin)

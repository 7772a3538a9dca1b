"""Assembly without a GPU: cubins, refusals at source lines, notices, spills, and the tools one after another."""

from __future__ import annotations

import multiprocessing
import re
import shutil
from pathlib import Path

import pytest
from backend.fakes import shell_tool

from tkc.backend import assemble as module
from tkc.backend.assemble import Assembly, assemble, cache_folder, find_ptxas, shared_library
from tkc.backend.tools import candidates, library
from tkc.diagnostics import Location, TkcError

PACKAGES = Path(__file__).parent.parent / "gpu" / "packages"
ARCHIVE = library("libnvptxcompiler_static.a")
needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="no ptxas here: pip install tkc[assemble]"
)
needs_archive = pytest.mark.skipif(
    ARCHIVE is None or not (shutil.which("cc") or shutil.which("gcc")),
    reason="no nvPTXCompiler archive or no C compiler here",
)


def text(name: str) -> str:
    return (PACKAGES / f"{name}.ptx").read_text()


WGMMA = """.version 8.0
.target sm_90a
.address_size 64
.file 1 "k.tk"
.visible .entry k(.param .u64 out)
.reqntid 128, 1, 1
%(directive)s
{
    .reg .f32 f<8>;
    .reg .b64 d, a;
    mov.b64 d, 0x4000004000010000;
    mov.f32 f0, 0f00000000; mov.f32 f1, f0; mov.f32 f2, f0; mov.f32 f3, f0;
    .loc 1 7 3
    %(first)s
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, d, d, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    .loc 1 9 3
    %(wait)s
    ld.param.u64 a, [out];
    st.global.v4.f32 [a], {f0, f1, f2, f3};
    ret;
}
"""
GOOD = {"directive": ".minnctapersm 1", "first": "", "wait": "wgmma.wait_group.sync.aligned 0;"}


@needs_ptxas
def test_a_cubin() -> None:
    made = assemble(text("vector_add"), "sm_90")
    assert made.cubin[:4] == b"\x7fELF"
    assert re.fullmatch(r"ptxas \d+\.\d+\.\d+", made.tool)
    assert list(made.registers) == ["vector_add"]
    assert 4 <= made.registers["vector_add"] <= 32
    assert (made.spills, made.notices) == ({}, ())
    assert assemble(text("vector_add"), "sm_90", lineinfo=False).cubin != made.cubin


@needs_ptxas
def test_plain_text_for_a_later_chip() -> None:
    assert assemble(text("tile_copy"), "sm_100a").kernels["tile_copy"].registers


@needs_ptxas
def test_a_refusal_comes_back_at_the_source_line() -> None:
    broken = (
        text("vector_add")
        .replace("setp.ge.u32", "setp.over.u32")
        .replace("fma.rn.f32 %f2", "fma.rn.f32 %f9")
    )
    with pytest.raises(TkcError) as caught:
        assemble(broken, "sm_90")
    first, last = caught.value.diagnostics[0], caught.value.diagnostics[-1]
    assert {d.code for d in caught.value.diagnostics} == {"TK210"}
    assert first.location == Location("vector_add.tk", 3, 5)
    assert last.location == Location("vector_add.tk", 5, 5)
    assert "unknown symbol '%f9'" in last.message
    assert last.notes[0].location is not None
    assert "fma.rn.f32 %f9" in str(caught.value)


@needs_ptxas
def test_every_mistake_is_told_once_and_in_order() -> None:
    broken = (
        text("vector_add")
        .replace("mul.wide.u32", "mul.deep.u32")
        .replace("ld.param.u32 %r3, [n]", "ld.param.u32 %r3, [q]")
    )
    with pytest.raises(TkcError) as caught:
        assemble(broken, "sm_90")
    places = [(d.location.line if d.location else 0, d.message) for d in caught.value.diagnostics]
    assert [line for line, _ in places] == sorted(line for line, _ in places)
    assert len(set(places)) == len(places)


@needs_ptxas
@pytest.mark.parametrize(
    ("change", "target", "said"),
    [
        ((".version 7.8", ".version 99.9"), "sm_90", r"unsupported \.version 99\.9"),
        (("", ""), "sm_99z", r"ptxas .*: value 'sm_99z' is not defined"),
        (
            (".version 7.8\n.target sm_90", ".version 8.0\n.target sm_90a"),
            "sm_100a",
            "'sm_90a' cannot be compiled",
        ),
        (
            (".target sm_90", ".target sm_90a"),
            "sm_90a",
            r"PTX \.version 7\.8 does not support \.target sm_90a",
        ),
    ],
)
def test_targets_and_versions(change: tuple[str, str], target: str, said: str) -> None:
    with pytest.raises(TkcError, match=said) as caught:
        assemble(text("vector_add").replace(*change), target)
    assert caught.value.diagnostics[0].code == "TK210"


@needs_ptxas
def test_a_repaired_pipeline_is_an_error_unless_allowed() -> None:
    assemble(WGMMA % GOOD, "sm_90a")
    ptx = WGMMA % {**GOOD, "wait": ""}
    with pytest.raises(
        TkcError, match=r"C75\d\d.*\[TK211\]\nhelp: allow it by name: C75\d\d|TK211"
    ) as caught:
        assemble(ptx, "sm_90a")
    names = {re.search(r"\((C\d+)\)$", d.message)[1] for d in caught.value.diagnostics}  # type: ignore[index]
    made = assemble(ptx, "sm_90a", allow=names)
    assert {n.name for n in made.notices} == names


@needs_ptxas
def test_a_dropped_setmaxnreg_is_an_error_unless_allowed() -> None:
    ptx = WGMMA % {**GOOD, "directive": "", "first": "setmaxnreg.inc.sync.aligned.u32 200;"}
    with pytest.raises(
        TkcError,
        match=r"'setmaxnreg' ignored; unable to determine register count at entry \(C7508\) \[TK211\]",
    ):
        assemble(ptx, "sm_90a")
    assert [n.name for n in assemble(ptx, "sm_90a", allow={"C7508"}).notices] == ["C7508"]


def spilling() -> str:
    """More live values than `.maxnreg` has registers."""
    loads = "\n".join(f"    ld.volatile.global.f32 f{i}, [a+{4 * i}];" for i in range(64))
    stores = "\n".join(f"    st.volatile.global.f32 [a+{4 * i}], f{63 - i};" for i in range(64))
    return (
        ".version 7.8\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 p)\n.maxntid 32, 1, 1\n.maxnreg 32\n"
        f"{{\n    .reg .f32 f<64>;\n    .reg .b64 a;\n    ld.param.u64 a, [p];\n{loads}\n{stores}\n    ret;\n}}\n"
    )


@needs_ptxas
def test_spills_are_errors_unless_allowed() -> None:
    with pytest.raises(
        TkcError,
        match=r"kernel k spills registers: \d+ bytes of stores, \d+ of loads, at \d+ registers \[TK214\]",
    ):
        assemble(spilling(), "sm_90")
    made = assemble(spilling(), "sm_90", allow={"spills"})
    assert made.spills["k"][0] > 0


def test_no_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "candidates", lambda name: [])
    monkeypatch.setattr(module, "library", lambda name: None)
    with pytest.raises(
        TkcError, match=r"no assembler found.*\[TK212\]\nhelp: pip install tkc\[assemble\]"
    ):
        assemble(text("vector_add"), "sm_90")


OLD = """echo "ptxas kernel.ptx, line 1; fatal   : Unsupported .version 7.8; current version is '7.0'" >&2
exit 255"""
NEW = """while [ $# -gt 1 ]; do shift; done
printf cubin > "$1"
echo "ptxas info    : (C7510) Potential Performance Loss: x serialized in function 'k'" >&2"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two stand-ins for ptxas, the first of which is too old; they log how they were called."""
    for name, version, body in (("old", "11.0.1", OLD), ("new", "13.5.37", NEW)):
        shell_tool(
            tmp_path / name,
            f'if [ "$1" = --version ]; then echo "Cuda, release x, V{version}"; exit 0; fi\n'
            f'echo "{name} $*" >> {tmp_path}/calls\n{body}',
        )
    monkeypatch.setattr(
        module, "candidates", lambda name: [str(tmp_path / "old"), str(tmp_path / "new")]
    )
    monkeypatch.setattr(module, "library", lambda name: None)
    return tmp_path


def test_an_older_tool_gives_way_to_a_newer_one(tools: Path) -> None:
    made = assemble("ptx", "sm_90", allow={"C7510"})
    assert (made.cubin, made.tool) == (b"cubin", "ptxas 13.5.37")
    assert (tools / "calls").read_text().splitlines() == [
        f"{name} -arch=sm_90 -v -lineinfo kernel.ptx -o kernel.cubin" for name in ("old", "new")
    ]
    with pytest.raises(TkcError, match=r"x serialized in function 'k' \(C7510\)"):
        assemble("ptx", "sm_90")


def test_the_environment_names_a_tool(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TKC_PTXAS", str(tools / "new"))
    assert candidates("ptxas")[0] == str(tools / "new")
    monkeypatch.setenv("TKC_PTXAS", str(tools / "none"))
    assert str(tools / "none") not in candidates("ptxas")


@needs_archive
def test_in_process() -> None:
    assert ARCHIVE is not None
    (tool,) = module._nvptxcompiler(ARCHIVE)
    assert re.fullmatch(r"nvPTXCompiler \d+\.\d+", tool.name)
    run = tool.run(text("vector_add"), "sm_90", True)
    assert run.cubin is not None
    assert run.cubin[:4] == b"\x7fELF"
    assert module.ptxas_log.read(run.log).kernels["vector_add"].registers > 0
    wrong = tool.run(text("vector_add").replace("setp.ge", "setp.over"), "sm_90", True)
    assert wrong.cubin is None
    assert module.ptxas_log.read(wrong.log).errors
    assert module.ptxas_log.unsupported(
        module.ptxas_log.read(tool.run(text("vector_add"), "sm_99z", True).log)
    )


@needs_archive
def test_in_process_stands_in_for_a_missing_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "candidates", lambda name: [])
    made = assemble(text("vector_add"), "sm_90")
    assert isinstance(made, Assembly)
    assert made.tool.startswith("nvPTXCompiler ")


def _build(folder: Path, archive: Path) -> str:
    return str(shared_library(archive, folder))


@needs_archive
def test_several_processes_may_build_the_library_at_once(tmp_path: Path) -> None:
    """A small archive stands for the real one, whose link takes over a second."""
    source, archive = tmp_path / "x.c", tmp_path / "libx.a"
    source.write_text("int answer(void) { return 42; }\n")
    compiler = shutil.which("cc") or "gcc"
    module.subprocess.run(
        [compiler, "-fPIC", "-c", str(source), "-o", str(tmp_path / "x.o")], check=True
    )
    module.subprocess.run(["ar", "rcs", str(archive), str(tmp_path / "x.o")], check=True)
    context = multiprocessing.get_context("fork")
    with context.Pool(4) as pool:
        places = pool.starmap(_build, [(tmp_path / "cache", archive)] * 4)
    assert len(set(places)) == 1
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [Path(places[0]).name]
    assert module.ctypes.CDLL(places[0]).answer() == 42


def test_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tkc"
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert cache_folder().name.startswith("tkc-")


def test_second_opinion_says_what_it_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    from tkc.backend import cuda

    class Driver:
        def link(self, ptx: str, target: str) -> tuple[bytes | None, str]:
            return b"cubin", "log"

        def version(self) -> int:
            return 13000

    monkeypatch.setattr(cuda, "driver", Driver)
    opinion = module.second_opinion(
        WGMMA % {**GOOD, "first": "setmaxnreg.dec.sync.aligned.u32 40;"}, "sm_90a"
    )
    assert (opinion.accepted, opinion.dropped, opinion.tool) == (
        True,
        ("setmaxnreg",),
        "cuLink of driver 13.0",
    )
    assert str(opinion).endswith(
        "accepts the program; it drops setmaxnreg, so its cubin is no product"
    )
    commented = module.second_opinion("// setmaxnreg is not here\n" + WGMMA % GOOD, "sm_90a")
    assert commented.dropped == ()

"""The assembler's sentences, as ptxas, nvPTXCompiler and the driver write them."""

from __future__ import annotations

import pytest

from tkc.backend.ptxas_log import (
    PTX_FILE,
    LineMap,
    Notice,
    Resources,
    read,
    refusal,
    reject_notices,
)
from tkc.diagnostics import Location, TkcError

VERBOSE = """ptxas info    : (C7517) wgmma.wait_group is injected in around line 88 by compiler in function 'gemm'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
{indent}16 bytes stack frame, 324 bytes spill stores, 328 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 21.326 ms
ptxas info    : Compiling entry function 'copy' for 'sm_90a'
ptxas info    : Function properties for copy
{indent}0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers
ptxas warning : Value of threads per SM for entry copy is out of range. .minnctapersm will be ignored
"""


@pytest.mark.parametrize("indent", ["    ", "ptxas         .     "])
def test_resources_and_notices(indent: str) -> None:
    report = read(VERBOSE.format(indent=indent))
    assert report.kernels == {"gemm": Resources(168, 324, 328, 16, 1024, 3), "copy": Resources(10)}
    assert [(n.name, n.ptx_line) for n in report.notices] == [("C7517", 88), ("warning", None)]
    assert report.errors == ()


@pytest.mark.parametrize("name", ["kernel.ptx", "application ptx input", "/some where/k.ptx"])
def test_errors(name: str) -> None:
    log = (
        f"ptxas {name}, line 24; error   : Arguments mismatch for instruction 'ld'\n"
        f"ptxas {name}, line 4; fatal   : Parsing error near '}}': syntax error\n"
        "ptxas fatal   : (C7602) Insufficient registers (40) to compile instruction at line 74 in k. Try more.\n"
        "ptxas fatal   : Ptx assembly aborted due to errors\n"
    )
    assert read(log).errors == (
        (24, "Arguments mismatch for instruction 'ld'"),
        (4, "Parsing error near '}': syntax error"),
        (
            74,
            "(C7602) Insufficient registers (40) to compile instruction at line 74 in k. Try more.",
        ),
    )


def test_a_costly_remark_without_a_code() -> None:
    report = read("ptxas info    : Potential Performance Loss: something serialized\n")
    assert report.notices == (
        Notice("notice", "Potential Performance Loss: something serialized", None),
    )


PTX = """.version 8.0
.file 1 "a.tk"
.file 2 "folder/b.tk"
.visible .entry one()
{
    nop;
    .loc 1 3 5
    add;
    .loc 2 7
    mul;
}
.visible .entry two()
{
    sub;
}
"""


def test_places() -> None:
    lines = LineMap(PTX)
    assert [lines.place(n) for n in (1, 6, 8, 10, 11, 14)] == [
        None,
        None,
        Location("a.tk", 3, 5),
        Location("folder/b.tk", 7, 0),
        Location("folder/b.tk", 7, 0),
        None,
    ]


def test_a_refusal_has_both_lines() -> None:
    log = "".join(f"ptxas k, line {n}; error   : Bad thing.\n" for n in (14, 8, 8, 999))
    error = refusal(read(log), PTX, "ptxas 1")
    assert [(d.location, [n.location for n in d.notes]) for d in error.diagnostics] == [
        (Location("a.tk", 3, 5), [Location(PTX_FILE, 8)]),
        (Location(PTX_FILE, 14), []),
        (None, []),
    ]
    assert error.diagnostics[0].message == "ptxas 1: bad thing"
    assert "    add;" in str(error)


def test_a_refusal_without_a_reason() -> None:
    assert "refused the program without a reason" in str(
        refusal(read("Segmentation fault"), PTX, "ptxas 1")
    )


def test_what_is_not_allowed_is_named() -> None:
    report = read(VERBOSE.format(indent="  "))
    with pytest.raises(TkcError) as caught:
        reject_notices(report, PTX, {"warning"})
    assert [(d.code, d.help) for d in caught.value.diagnostics] == [
        ("TK211", "allow it by name: C7517"),
        ("TK214", "allow it by name: spills"),
    ]
    assert "gemm spills registers: 324 bytes of stores, 328 of loads, at 168 registers" in str(
        caught.value
    )
    reject_notices(report, PTX, {"warning", "C7517", "spills"})

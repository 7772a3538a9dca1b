"""Every row and every choice against ptxas: it takes a spelling exactly where the row says that it does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ir.isa.ptx_lines import disagreements, find_ptxas, lines, module, refused_lines

from tkc.ir.isa.instructions import REGISTER_CLASS, all_rows
from tkc.ir.isa.instructions.special_registers import SPECIAL_REGISTERS
from tkc.ir.isa.targets import TARGETS, Version

PTXAS = find_ptxas()
NEWEST: Version = (9, 5)
VERSIONS: tuple[Version, ...] = (
    (7, 8),
    *((8, minor) for minor in range(9)),
    *((9, minor) for minor in range(6)),
)

pytestmark = pytest.mark.skipif(
    PTXAS is None, reason="no ptxas: install nvidia-cuda-nvcc (pip install 'tkc[assemble]')"
)


@pytest.mark.parametrize("target", TARGETS)
def test_features(target: str, tmp_path: Path):
    assert PTXAS is not None
    assert disagreements(PTXAS, target, NEWEST, tmp_path) == []


@pytest.mark.parametrize(
    ("target", "version"),
    [(t, v) for t in ("sm_90a", "sm_100a", "sm_107a") for v in VERSIONS if v >= TARGETS[t].ptx],
    ids=lambda p: p if isinstance(p, str) else f"{p[0]}.{p[1]}",
)
def test_versions(target: str, version: Version, tmp_path: Path):
    assert PTXAS is not None
    assert disagreements(PTXAS, target, version, tmp_path) == []


def test_targets_need_their_version(tmp_path: Path):
    assert PTXAS is not None
    for name, row in TARGETS.items():
        older = max((v for v in VERSIONS if v < row.ptx), default=None)
        assert assembles(PTXAS, name, row.ptx, tmp_path), name
        assert older is None or not assembles(PTXAS, name, older, tmp_path), name


def assembles(ptxas: str, target: str, version: Version, directory: Path) -> bool:
    source = directory / "empty.ptx"
    source.write_text(
        f".version {version[0]}.{version[1]}\n.target {target}\n.address_size 64\n.visible .entry k()\n{{\nret;\n}}\n"
    )
    run = subprocess.run(
        [ptxas, f"-arch={target}", str(source), "-o", "/dev/null"], capture_output=True, check=False
    )
    return run.returncode == 0


def test_there_is_a_line_for_every_row():
    assert {line.row for line in lines()[0]} == set(all_rows())


@pytest.mark.parametrize(
    "version", [(7, 8), (8, 0), (8, 1), (9, 5)], ids=lambda v: f"{v[0]}.{v[1]}"
)
def test_special_registers(version: Version, tmp_path: Path):
    assert PTXAS is not None
    rows = list(SPECIAL_REGISTERS.values())
    body = "\n".join(f"mov{r.type} %{REGISTER_CLASS[r.type]}_0, {r.name};" for r in rows)
    text, first = module(
        "sm_90", version, body, ".reg .b32 %b32_0; .reg .b64 %b64_0; .reg .pred %pred_0;"
    )
    said = refused_lines(PTXAS, "sm_90", text, tmp_path / "registers.ptx", first)
    assert len(rows) in said
    for index, row in enumerate(rows):
        assert (index not in said) == (row.ptx <= version), (row.name, said.get(index))


MOVES = """
.version 8.6
.target {target}
.address_size 64
.visible .entry k()
.reqntid {threads}
.minnctapersm {ctas}
{{
    .reg .pred %p; .reg .b32 %r;
    mov.u32 %r, %tid.x; setp.lt.u32 %p, %r, 128; @%p bra A;
    setmaxnreg.dec.sync.aligned.u32 24; bra B;
A:  setmaxnreg.inc.sync.aligned.u32 256;
B:  ret;
}}
"""


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("threads", "ctas"), [(256, 1), (288, 1), (384, 1), (544, 1), (160, 2), (160, 3), (32, 9)]
)
def test_registers_at_entry(target: str, threads: int, ctas: int, tmp_path: Path):
    """As many as ptxas compiles for, whose share is that of whole warpgroups."""
    source = tmp_path / "k.ptx"
    source.write_text(MOVES.format(target=target, threads=threads, ctas=ctas))
    command = [str(PTXAS), "-v", f"-arch={target}", str(source), "-o", str(tmp_path / "k.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    used = re.search(r"Used (\d+) registers", done.stdout + done.stderr)
    assert used is not None, done.stderr
    row = TARGETS[target]
    assert int(used[1]) == min(row.max_regs_per_thread, row.registers_at_entry(threads * ctas))

"""Every row and every choice against ptxas: it takes a spelling exactly where the row says that it does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ir.isa.ptx_lines import disagreements, find_ptxas, lines

from tkc.ir.isa.instructions import all_rows
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
    run = subprocess.run([ptxas, f"-arch={target}", str(source), "-o", "/dev/null"], capture_output=True, check=False)
    return run.returncode == 0


def test_there_is_a_line_for_every_row():
    assert {line.row for line in lines()[0]} == set(all_rows())

"""The programs, their launch descriptions and their recordings belong together."""

from __future__ import annotations

import pytest
from hardware.compaction import fingerprint
from hardware.recorded import PROGRAMS, described, launches, names, recording

FAULTS = {
    "tma_load_refused": "CUDA_ERROR_",
    "tma_store_refused": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "bulk_refused": ("CUDA_ERROR_MISALIGNED_ADDRESS", "hangs"),
    "tma_load_atoms": "cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VALUE",
}
"""Programs whose launches fail, and how. A bulk copy of 24 bytes moves and counts 16, so its wait hangs."""


@pytest.mark.parametrize("program", names())
def test_a_recording_is_of_the_program_that_is_here(program: str) -> None:
    again = f"python3 tests/hardware/record.py {program}, where a GPU is"
    assert recording(program)["program"] == fingerprint(PROGRAMS, program), f"stale: {again}"
    assert recording(program)["about"]["gpu"] == "NVIDIA H200"


@pytest.mark.parametrize("program", [n for n in names() if n != "tensor_map_limits"])
def test_every_launch_has_its_outcome(program: str) -> None:
    for r in launches(program):
        if program in FAULTS:
            assert r.outcome.startswith(FAULTS[program]), r.name
        else:
            assert r.ran, f"{r.name}: {r.outcome}"
            for output in r.launch["outputs"]:
                assert r.kept(output), f"{r.name}: nothing was kept of {output}"


def test_there_are_many_small_programs() -> None:
    assert len(names()) >= 40
    entries = {(r.program, r.launch["entry"]) for r in launches()}
    assert len(entries) >= 400
    assert sum(1 for _ in launches()) >= 1000


@pytest.mark.parametrize("program", [n for n in names() if n != "tensor_map_limits"])
def test_the_text_is_for_hopper_and_any_driver_since_13(program: str) -> None:
    text = (PROGRAMS / f"{program}.ptx").read_text(encoding="utf-8")
    version = next(line for line in text.splitlines() if line.startswith(".version"))
    assert tuple(map(int, version.split()[1].split("."))) <= (9, 0)
    assert ".target sm_90a" in text
    entries = {launch["entry"] for launch in described(program)["launches"]}
    assert all(f".entry {entry}(" in text for entry in entries)

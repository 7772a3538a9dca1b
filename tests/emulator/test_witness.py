"""The second judge of mutants says of every twin what the twin is: it knows nothing of the record that finds them."""

from __future__ import annotations

from types import ModuleType

import pytest
from emulator.mutation.judge import RACES
from emulator.mutation.witness import opinion
from emulator.races import (
    test_bugs,
    test_chains,
    test_clusters,
    test_operands,
    test_pairs,
    test_shared,
    test_tensor,
    test_words,
)
from emulator.races.twins import Twin, run

MODULES = (
    test_bugs,
    test_chains,
    test_clusters,
    test_operands,
    test_pairs,
    test_shared,
    test_tensor,
    test_words,
)


def forms(module: ModuleType) -> list[tuple[Twin, dict[str, str], bool]]:
    """(twin, form, whether it is a race under practice) of every twin and chain of a file."""
    made: list[tuple[Twin, dict[str, str], bool]] = []
    for twin in (*getattr(module, "TWINS", ()), *getattr(module, "CHAINS", ())):
        races = bool(RACES.intersection(twin.code.split("|")))
        made.append((twin, dict(twin.bad), races))
        if twin in getattr(module, "TWINS", ()):
            made.append((twin, dict(twin.good), False))
    return made


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_it_judges_the_twins(module: ModuleType, seed: int) -> None:
    """Of what comes to its end; a launch that is stopped or hangs shows by itself that it is wrong."""
    judged = 0
    for twin, form, races in forms(module):
        witness = opinion(lambda t=twin, f=form: run(t, f, "lazy", seed))
        if witness.report.ended:
            assert bool(witness.wrong) == races, (twin.name, form, witness.wrong)
            judged += 1
    assert judged > len(forms(module)) / 2

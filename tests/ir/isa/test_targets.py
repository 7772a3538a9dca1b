"""Targets have what their text needs, and a wrong name gets its neighbours."""

from __future__ import annotations

import pytest

from tkc.ir.isa.targets import (
    FAMILIES,
    TARGETS,
    Feature,
    families_of,
    nearest,
    runs_on,
    target,
)


def test_rows_are_named_by_what_they_say():
    for name, row in TARGETS.items():
        major, minor = row.capability
        assert name == row.name == f"sm_{major}{minor}{row.suffix}"


def test_family_text_has_no_more_than_the_exact_targets_of_its_family():
    for text in TARGETS.values():
        if text.suffix == "f":
            for exact in TARGETS.values():
                if exact.suffix == "a" and runs_on(text, exact.capability):
                    assert text.features <= exact.features, (text.name, exact.name)


def test_families_serve_what_their_text_runs_on():
    for name, row in TARGETS.items():
        found = families_of(name)
        assert found[0] == f"sm_{row.capability[0]}{row.capability[1]}"
        assert list(found) == sorted(found, key=lambda f: FAMILIES[f], reverse=True)
        for text in TARGETS.values():
            if text.suffix == "f":
                family = text.name.removesuffix("f")
                assert (family in found) == runs_on(text, row.capability), (family, name)


def test_plain_text_has_no_more_than_its_family():
    assert TARGETS["sm_90"].features < TARGETS["sm_90a"].features
    assert TARGETS["sm_100"].features < TARGETS["sm_100f"].features < TARGETS["sm_100a"].features


@pytest.mark.parametrize(
    ("text", "capability", "runs"),
    [
        ("sm_90a", (9, 0), True),
        ("sm_90a", (10, 0), False),
        ("sm_100f", (10, 3), True),
        ("sm_100f", (12, 0), False),
        ("sm_103f", (10, 0), False),
        ("sm_100a", (10, 3), False),
        ("sm_90", (12, 0), True),
        ("sm_100", (9, 0), False),
    ],
)
def test_which_gpu_runs_which_text(text: str, capability: tuple[int, int], runs: bool):
    assert runs_on(target(text), capability) is runs


def test_limits_of_rubin_and_hopper():
    assert target("sm_107a").shared_per_cta == 334848
    assert target("sm_107a").tensor_columns == 576
    assert target("sm_90a").shared_per_cta == 232448
    assert target("sm_90a").tensor_columns == 0


def test_has_and_lacks():
    hopper = target("sm_90a")
    assert hopper.has({Feature.WGMMA, Feature.TMA})
    assert not hopper.has({Feature.WGMMA, Feature.TCGEN05})
    assert hopper.lacks({Feature.TCGEN05, Feature.TMA}) == (Feature.TCGEN05,)


def test_unknown_target_names_the_nearest():
    with pytest.raises(KeyError, match="sm_100a"):
        target("sm_100b")
    assert nearest("sm-90A")[0] == "sm_90a"
    assert "sm_107a" in nearest("sm_107")

"""What cuTensorMapEncodeTiled made and refused on an H200 against `tkc.ir.isa.tensormap.breaches`."""

from __future__ import annotations

import pytest
from hardware.recorded import Json, described, recording

from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.targets import TARGETS
from tkc.ir.isa.tensormap import MAP_TYPES, MAX_SIZE, TiledMap, breaches

TRIALS = described("tensor_map_limits")["maps"]
OUTCOMES = recording("tensor_map_limits")["outcomes"]
ADDRESS = 1 << 28


def tiled(m: Json) -> TiledMap:
    lists = (tuple(m[f]) for f in ("sizes", "strides", "box", "element_strides"))
    return TiledMap(
        MAP_TYPES[m["type"]],
        *lists,
        m["swizzle"],
        m["interleave"],
        m["fill"],
        ADDRESS + m["offset"],
    )


def stricter(m: Json) -> bool:
    """Where the header of CUDA 13.5, which the table follows, asks for more than the driver of CUDA 13.0 does."""
    return any(MAX_SIZE < size <= 1 << 32 for size in m["sizes"]) or (
        m["interleave"] == "32B" and m["swizzle"] != "32B"
    )


@pytest.mark.parametrize("trial", TRIALS, ids=lambda t: t["name"])
def test_the_driver_refuses_what_breaches_a_limit(trial: Json) -> None:
    m, made = trial["map"], OUTCOMES[trial["name"]] == "made"
    hopper = TARGETS["sm_90a"]
    found = list(breaches(tiled(m)))
    lacks = hopper.lacks(SWIZZLES[m["swizzle"]].needs | MAP_TYPES[m["type"]].needs)
    if made and stricter(m):
        assert len(found) == 1
        return
    assert made == (not found and not lacks), f"{OUTCOMES[trial['name']]}; {found}, {lacks}"


def test_both_sides_of_the_limits_were_tried() -> None:
    made = sum(o == "made" for o in OUTCOMES.values())
    assert made > 100
    assert len(OUTCOMES) - made > 100

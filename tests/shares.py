"""In the suite, a part of what is asked in several forms; `make soak` asks the rest.

A test that has a parameter `schedule` runs under one schedule, and of a test marked `share(n)` one in n of its cases runs.
Which ones follows from the name of the test and `TKC_SEED`. A test that is named alone runs as it is named.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import Any

import pytest


def share(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes out of a run what only long runs ask."""
    mine = [i for i in items if hasattr(i, "callspec") and not i.get_closest_marker("soak")]
    kept = _kept([i for i in mine if "schedule" in _params(i)], _without_schedule, lambda group: 1)
    rest = [i for i in mine if "schedule" not in _params(i) or i in kept]
    shared = [i for i in rest if i.get_closest_marker("share")]
    kept = _kept(shared, lambda item: item.nodeid.partition("[")[0], _part)
    others = set(mine) - (set(rest) - set(shared) | kept)
    if "soak" in config.option.markexpr:
        for item in others:
            item.add_marker(pytest.mark.soak)
    elif others:
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


def _params(item: Any) -> dict[str, Any]:
    return item.callspec.params


def _kept(
    items: list[pytest.Item],
    name: Callable[[pytest.Item], str],
    count: Callable[[list[pytest.Item]], int],
) -> set[pytest.Item]:
    """Of the items that one name groups, as many as are to run, in the order of a hash with the seed."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(name(item), []).append(item)
    seed = os.environ.get("TKC_SEED") or "0"
    kept: set[pytest.Item] = set()
    for group in groups.values():
        group.sort(key=lambda item: zlib.crc32(f"{seed} {item.nodeid}".encode()))
        kept.update(group[: count(group)])
    return kept


def _part(group: list[pytest.Item]) -> int:
    mark = group[0].get_closest_marker("share")
    assert mark is not None
    return -(-len(group) // mark.args[0])


def _without_schedule(item: pytest.Item) -> str:
    """The name of a test with all of its parameters but the schedule."""
    params = sorted(_params(item).items())
    rest = [
        f"{name}={getattr(value, 'name', value)}" for name, value in params if name != "schedule"
    ]
    return f"{item.nodeid.partition('[')[0]}[{','.join(rest)}]"

"""Lists of arrays as arguments: what is wrong with them, their maps and scratch memory, and launches on them."""

from __future__ import annotations

import copy
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from backend.fakes import DLPackArray, FakeDriver, InterfaceArray, bf16, words

import tkc
from tkc.backend import lists
from tkc.backend.bind import Bound, ScratchValue, TensorMapsValue, bind
from tkc.backend.contract import check_kernel
from tkc.backend.gather import gather
from tkc.backend.launch import PLAN_LIMIT, Launcher
from tkc.diagnostics import TkcError

EXAMPLE = Path(__file__).parents[2] / "examples" / "gemm_grouped_list.tk"
FACTS = {"sm_count": 132, "max_clusters": 66}
N, K = 72, 40


@cache
def _contract() -> dict[str, Any]:
    return tkc.compile(EXAMPLE, target="sm_90a", params={"BN": 64}).contract


def contract() -> dict[str, Any]:
    return copy.deepcopy(_contract())


def given(*rows: int, **other: Any) -> list[Any]:
    """Arguments of a launch on groups of so many rows, each array somewhere else."""
    place = iter(range(0x100000, 0x10000000, 0x100000))

    def each(columns: int, fixed: int | None = None) -> list[DLPackArray]:
        return [bf16(r if fixed is None else fixed, columns, address=next(place)) for r in rows]

    made = {
        "rows": InterfaceArray((len(rows),), "i32", address=0x1000),
        "A": each(K),
        "B": each(K, N),
        "C": each(N),
    }
    return list((made | other).values())


def run(*arguments: Any) -> Bound:
    kernel = contract()
    check_kernel(kernel)
    values, symbols = gather(kernel, arguments, {})
    views = [
        (lists.views if a.get("list") else lists.view)(v, a["name"])
        for a, v in zip(kernel["arguments"], values, strict=True)
    ]
    return bind(kernel, views, symbols, FACTS.__getitem__, spare=0x5000)


def refused(code: str, *arguments: Any) -> str:
    with pytest.raises(TkcError) as caught:
        run(*arguments)
    assert {d.code for d in caught.value.diagnostics} == {code}
    return str(caught.value)


def test_a_map_for_each_array() -> None:
    bound = run(*given(5, 0, 300))
    assert bound.symbols == {"G": 3, "K": K, "N": N}
    assert bound.grid == (132, 1, 1)
    maps = {v.argument: v.maps for v in bound.values if isinstance(v, TensorMapsValue)}
    a, b, c = (maps[name] for name in "ABC")
    assert [m.tiled.sizes for m in a] == [(K, 5), (K, 1), (K, 300)]
    assert [m.tiled.address for m in a] == [0x100000, 0x5000, 0x300000]
    assert [m.tiled.sizes for m in b] == [(K, N)] * 3
    assert [m.tiled.strides for m in c[::2]] == [(2 * N,)] * 2
    (scratch,) = [v for v in bound.values if isinstance(v, ScratchValue)]
    assert scratch.bytes == 132 * 128 * (
        2 + 4
    )  # two for loads, and two for stores of each warpgroup


def test_each_array_has_its_own_stride() -> None:
    wide = [bf16(7, K, address=0x100000), bf16(9, K, address=0x200000, strides=(64, 1))]
    bound = run(*given(7, 9, A=wide))
    maps = next(
        v.maps for v in bound.values if isinstance(v, TensorMapsValue) and v.argument == "A"
    )
    assert [m.tiled.strides for m in maps] == [(2 * K,), (128,)]


def test_one_array_is_a_list_along_its_first_axis() -> None:
    whole = bf16(3, 50, K, address=0x800000)
    bound = run(*given(5, 0, 50, A=whole))
    maps = next(
        v.maps for v in bound.values if isinstance(v, TensorMapsValue) and v.argument == "A"
    )
    assert [m.tiled.address for m in maps] == [0x800000 + i * 50 * K * 2 for i in range(3)]
    assert {m.tiled.sizes for m in maps} == {(K, 50)}


def test_no_groups_and_no_columns_launch_nothing() -> None:
    assert run(*given()).action == "nothing"
    assert run(*given(3, B=[bf16(0, K)], C=[bf16(3, 0)])).action == "nothing"


def test_what_is_wrong_with_a_list() -> None:
    good = given(3, 4)
    assert "G is 2" in refused("TK407", *given(3, 4, A=[bf16(3, K)]))
    told = refused("TK407", *given(3, 4, A=[bf16(3, K), bf16(4, 48)]))
    assert "axis 1 of A[1] has 48 elements, and 40 in the arrays before it" in told
    assert "A[1] has rank 1" in refused("TK402", *given(3, 4, A=[bf16(3, K), bf16(K)]))
    wrong = [bf16(3, K), InterfaceArray((4, K), "f32")]
    assert "A[1] holds f32; expected bf16" in refused("TK403", *given(3, 4, A=wrong))
    skewed = [bf16(3, K), bf16(4, K, strides=(41, 1))]
    assert "A[1]: axis 0 has a stride of 82 bytes" in refused("TK405", *given(3, 4, A=skewed))
    off = [bf16(3, K), bf16(4, K, address=0x1008)]
    assert "A[1] starts at 0x1008" in refused("TK406", *given(3, 4, A=off))
    turned = [bf16(3, K), bf16(4, K, strides=(1, 4))]
    assert "axis 1 must be contiguous" in refused("TK405", *given(3, 4, A=turned))
    with pytest.raises(TkcError, match="expected an array with DLPack"):
        run(*given(3, 4, A=[bf16(3, K), None]))
    with pytest.raises(TkcError, match="expected one array, found several"):
        gather(contract(), ([1, 2], *good[1:], 3), {})


def test_the_contract_is_checked() -> None:
    for change, said in (
        (lambda k: k["args"][4].update(kind="tensormap"), "is no fit for a tensormap"),
        (lambda k: k["args"][4].update(sizes=[None]), "expected"),
        (lambda k: k["arguments"][1].pop("list"), "is no fit for a tensormaps"),
        (lambda k: next(a for a in k["args"] if a["kind"] == "scratch").update(bytes=0), "bytes"),
    ):
        kernel = contract()
        change(kernel)
        with pytest.raises(TkcError, match=said) as caught:
            check_kernel(kernel)
        assert caught.value.diagnostics[0].code == "TK411"


def test_a_launch_sends_the_maps_and_keeps_its_memory() -> None:
    driver = FakeDriver()
    launcher = Launcher(contract(), "// ptx", None, driver=driver)  # type: ignore[arg-type]
    arguments = given(5, 0, 300)
    launcher.launch(arguments, {}, stream=42)
    launcher.launch(arguments, {}, stream=42)
    assert [c[1] for c in driver.calls if c[0] == "allocate"] == [384, 384, 132 * 6 * 128, 384]
    sent = [c for c in driver.calls if c[0] == "send"]
    assert [(len(data), stream) for _, _, data, stream in sent] == [(384, 42)] * 3
    assert driver.count("encode") == 9
    one, two = driver.launches
    assert words(one["params"], (4, 4, 4, 8, 8)) == words(two["params"], (4, 4, 4, 8, 8))
    assert words(one["params"], (4, 4, 4, 8, 8))[:4] == [
        *(struct.pack("<i", n) for n in (3, N, K)),
        struct.pack("<Q", 0x1000),
    ]
    assert not driver.count("free")
    launcher.launch(arguments, {}, stream=43)  # may run beside it, and so has memory of its own
    assert driver.count("allocate") == 8


def test_a_plan_that_goes_gives_its_memory_back() -> None:
    driver = FakeDriver()
    launcher = Launcher(contract(), "// ptx", None, driver=driver)  # type: ignore[arg-type]
    arguments = given(5)
    for stream in range(1, PLAN_LIMIT + 2):
        launcher.launch(arguments, {}, stream=stream)
    assert driver.count("free") == 4


def test_lists_are_told_apart_by_each_array() -> None:
    one, other = [bf16(3, K), bf16(4, K)], [bf16(3, K), bf16(5, K)]
    assert lists.marks(one, "A") == lists.marks(list(one), "A") != lists.marks(other, "A")
    hash(lists.marks(one, "A"))

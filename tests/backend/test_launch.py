"""The launcher on a driver that is not there: plans, contexts, streams, devices, and what failures say."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend.fakes import DLPackArray, FakeDriver, InterfaceArray, bf16, f32, words

from tkc.backend import cuda
from tkc.backend.cuda import DriverError
from tkc.backend.launch import PLAN_LIMIT, Launcher
from tkc.backend.package import Package, read_package
from tkc.diagnostics import TkcError

PACKAGES = Path(__file__).parent.parent / "gpu" / "packages"
UNSUPPORTED = DriverError(
    "cuModuleLoadDataEx", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX is too new"
)


def package(name: str) -> Package:
    return read_package(PACKAGES / f"{name}.json")


def launcher(
    name: str, driver: FakeDriver, change: Callable[[dict[str, Any]], object] | None = None
) -> Launcher:
    found = package(name)
    kernel = copy.deepcopy(found.kernels[0])
    if change is not None:
        change(kernel)
    return Launcher(kernel, found.ptx, found.cubin, driver=driver)  # type: ignore[arg-type]


def test_a_launch() -> None:
    driver = FakeDriver()
    x, y, z = f32(1000, address=0x1000), f32(1000, address=0x2000), f32(1000, address=0x3000)
    launcher("vector_add", driver).launch((x, y, z, 0.5), {}, stream=42)
    (made,) = driver.launches
    assert (made["grid"], made["block"], made["shared"], made["stream"]) == (
        (8, 1, 1),
        (128, 1, 1),
        0,
        42,
    )
    assert made["attributes"] == {}
    assert made["context"] == 100
    assert words(made["params"], (8, 8, 8, 4, 4)) == [
        *[struct.pack("<Q", a) for a in (0x1000, 0x2000, 0x3000)],
        struct.pack("<i", 1000),
        struct.pack("<f", 0.5),
    ]


def test_arguments_by_name() -> None:
    driver = FakeDriver()
    add = launcher("vector_add", driver)
    add.launch((f32(8), f32(8)), {"alpha": 1, "Z": f32(8), "N": 8})
    assert driver.count("launch") == 1
    with pytest.raises(TkcError, match="N is 9 by the caller"):
        add.launch((f32(8), f32(8)), {"alpha": 1, "Z": f32(8), "N": 9})


def test_a_plan_is_made_once() -> None:
    driver = FakeDriver()
    tile = launcher("tile_copy", driver)
    a, c = bf16(100, 72), bf16(100, 72)
    for _ in range(3):
        tile.launch((a, c), {})
    assert (driver.count("launch"), driver.count("load"), driver.count("encode")) == (3, 1, 2)
    tile.launch((a, bf16(100, 72, address=0x8000)), {})
    assert (driver.count("launch"), driver.count("load"), driver.count("encode")) == (4, 1, 4)
    tile.launch((a, c), {}, stream=5)
    assert driver.launches[-1]["stream"] == 5


def test_plans_are_limited() -> None:
    driver = FakeDriver()
    tile = launcher("tile_copy", driver)
    for i in range(PLAN_LIMIT + 10):
        tile.launch((bf16(8, 8, address=0x10000 + 16 * i), bf16(8, 8)), {})
    assert len(tile._plans) == PLAN_LIMIT


def test_the_kernel_is_prepared_for_its_shared_memory() -> None:
    driver = FakeDriver()
    launcher("tile_copy", driver).launch((bf16(8, 8), bf16(8, 8)), {})
    assert ("prepare", 8, 8192, 1) in driver.calls
    with pytest.raises(
        TkcError,
        match=r"tile_copy needs 300000 bytes of shared memory; GPU 0 gives a CTA 232448.*TK410",
    ):
        launcher("tile_copy", driver, lambda k: k.update(shared_bytes=300000)).launch(
            (bf16(8, 8), bf16(8, 8)), {}
        )


def test_cluster_and_dependence_are_attributes() -> None:
    driver = FakeDriver()
    launcher("ranks", driver).launch((InterfaceArray((1000,), "i32"),), {})
    assert driver.launches[-1]["attributes"] == {cuda.CLUSTER: (2, 1, 1)}
    assert driver.launches[-1]["grid"] == (132, 1, 1)
    launcher("increment", driver).launch((InterfaceArray((32,), "i32"),), {})
    assert driver.launches[-1]["attributes"] == {cuda.DEPENDENT: (1, 0, 0)}


def test_a_preferred_cluster_is_asked_for_where_the_grid_allows() -> None:
    driver = FakeDriver()
    ranks = launcher("ranks", driver, lambda k: k["cluster"].update(preferred=[4, 1, 1]))
    ranks.launch((InterfaceArray((8,), "i32"),), {})
    assert driver.launches[-1]["attributes"] == {
        cuda.CLUSTER: (2, 1, 1),
        cuda.PREFERRED_CLUSTER: (4, 1, 1),
    }
    ranks.launch((InterfaceArray((6,), "i32"),), {})
    assert driver.launches[-1]["attributes"] == {cuda.CLUSTER: (2, 1, 1)}


def test_a_grid_of_no_whole_clusters_takes_the_smallest_that_the_code_is_right_for() -> None:
    driver = FakeDriver()

    def several(kernel: Any) -> None:
        kernel["cluster"].update(size=[4, 1, 1], preferred=[8, 1, 1], minimum=[2, 1, 1])

    ranks = launcher("ranks", driver, several)
    for items, asked in ((6, {cuda.CLUSTER: (2, 1, 1)}), (12, {cuda.CLUSTER: (4, 1, 1)})):
        ranks.launch((InterfaceArray((items,), "i32"),), {})
        assert driver.launches[-1]["attributes"] == asked
    ranks.launch((InterfaceArray((16,), "i32"),), {})
    assert driver.launches[-1]["attributes"] == {
        cuda.CLUSTER: (4, 1, 1),
        cuda.PREFERRED_CLUSTER: (8, 1, 1),
    }


def test_nothing_and_zero() -> None:
    driver = FakeDriver()
    tile = launcher("tile_copy", driver)
    tile.launch((bf16(0, 8, address=0), bf16(0, 8, address=0)), {})
    assert driver.count("launch") == driver.count("load") == driver.count("zero") == 0
    zeroing = launcher(
        "vector_add", driver, lambda k: (k["arguments"][2].update(dims=[3, 4, 5], contiguous="major"),
                                         k["symbols"].update(N=[{"argument": "X", "dimension": 0}]),
                                         k.update(empty=[{"when": ["N"], "do": "zero"}]))
    )  # fmt: skip
    z = InterfaceArray((3, 4, 5), "f32", address=0x9000, strides=(400, 32, 4))
    zeroing.launch((f32(0), f32(0), z, 1.0), {}, stream=3)
    zeroing2 = [c[1:] for c in driver.calls if c[0] == "zero"]
    assert zeroing2 == [(0x9000 + 400 * i, 32, 20, 4, 3) for i in range(3)]
    assert driver.count("launch") == 0


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ((bf16(8, 8, device=(1, 0)), bf16(8, 8)), r"A is on the CPU; the kernel needs it on a GPU"),
        ((bf16(8, 8), np.zeros((8, 8), np.uint16)), r"C is on the CPU"),
        ((bf16(8, 8), bf16(8, 8, device=(3, 0))), r"C is in pinned host memory"),
        ((bf16(8, 8), bf16(8, 8, device=(2, 1))), r"C is on GPU 1, A on GPU 0"),
        (
            (InterfaceArray((8, 8), "u16", address=0x40), bf16(8, 8)),
            r"A at 0x40 is not memory of a GPU",
        ),
    ],
)
def test_wrong_devices(arrays: tuple[Any, ...], said: str) -> None:
    driver = FakeDriver(capabilities=((9, 0), (9, 0)))
    with pytest.raises(TkcError, match=said + r".*\[TK404\]"):
        launcher("tile_copy", driver).launch(arrays, {})
    assert driver.calls == []


def test_the_wrong_gpu() -> None:
    driver = FakeDriver(capabilities=((8, 0),))
    with pytest.raises(
        TkcError,
        match=r"tile_copy is compiled for sm_90; GPU 0, Fake GPU 0, has compute capability 8\.0 \[TK408\]",
    ):
        launcher("tile_copy", driver).launch((bf16(8, 8), bf16(8, 8)), {})
    exact = launcher("tile_copy", FakeDriver(), lambda k: k.update(target="sm_100a"))
    with pytest.raises(
        TkcError, match=r"has compute capability 9\.0 \[TK408\]\nhelp: compile with --target sm_90a"
    ):
        exact.launch((bf16(8, 8), bf16(8, 8)), {})
    family = launcher(
        "tile_copy", FakeDriver(capabilities=((10, 3),)), lambda k: k.update(target="sm_100f")
    )
    family.launch((bf16(8, 8), bf16(8, 8)), {})


def test_contexts() -> None:
    """The current context where it is on the arrays' device, else that device's primary one; loaded once in each."""
    driver = FakeDriver(capabilities=((9, 0), (9, 0)))
    tile = launcher("tile_copy", driver)
    driver.context_now = 100
    tile.launch((bf16(8, 8), bf16(8, 8)), {})
    there = bf16(8, 8, device=(2, 1))
    tile.launch((there, there), {})
    tile.launch((there, there), {})
    assert [m["context"] for m in driver.launches] == [100, 101, 101]
    assert driver.context_now == 100
    assert driver.count("load") == 2


def test_a_producer_stream_is_waited_for() -> None:
    driver = FakeDriver()
    add = launcher("vector_add", driver)
    mine = f32(8, stream=5)
    add.launch((mine, f32(8, stream=6), mine, 1.0), {}, stream=6)
    assert [c for c in driver.calls if c[0] == "wait"] == [("wait", 6, 5)]
    driver.calls.clear()
    add.launch((f32(8, stream=1), f32(8), f32(8), 1.0), {})
    assert driver.count("wait") == 0


def test_a_newer_ptx_than_the_driver_takes_is_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    from tkc.backend import assemble

    seen: list[Any] = []

    def fake(ptx: str, target: str, *, allow: Any) -> assemble.Assembly:
        seen.append((target, allow))
        return assemble.Assembly(b"cubin", "", {}, (), "ptxas 13.5")

    monkeypatch.setattr(assemble, "assemble", fake)
    driver = FakeDriver(capabilities=((10, 0),), fail={"load": [UNSUPPORTED]})
    launcher("tile_copy", driver).launch((bf16(8, 8), bf16(8, 8)), {})
    assert [c[1] for c in driver.calls if c[0] == "load"][1] == b"cubin"
    assert seen == [("sm_100", frozenset())]
    exact = launcher(
        "tile_copy", FakeDriver(fail={"load": [UNSUPPORTED]}), lambda k: k.update(target="sm_90a")
    )
    exact.launch((bf16(8, 8), bf16(8, 8)), {})
    assert seen[1][0] == "sm_90a"


def test_without_an_assembler_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from tkc.backend import assemble

    monkeypatch.setattr(assemble, "_tools", lambda: iter(()))
    driver = FakeDriver(fail={"load": [UNSUPPORTED]})
    with pytest.raises(
        TkcError,
        match=r"no assembler found.*TK212.*\nnote: the CUDA 13\.0 driver does not take \.version 8\.0",
    ):
        launcher("tile_copy", driver).launch((bf16(8, 8), bf16(8, 8)), {})


def test_the_driver_refuses_at_the_source_line() -> None:
    log = "ptxas application ptx input, line 29; error   : Unknown symbol 'q'\n"
    error = DriverError(
        "cuModuleLoadDataEx", "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed", log
    )
    driver = FakeDriver(fail={"load": [error]})
    with pytest.raises(
        TkcError,
        match=r"vector_add\.tk:4:5: error: the CUDA 13\.0 driver: unknown symbol 'q' \[TK210\]",
    ):
        launcher("vector_add", driver).launch((f32(8), f32(8), f32(8), 1.0), {})


def test_a_failed_launch_tells_its_numbers() -> None:
    refused = DriverError(
        "cuLaunchKernelEx",
        "CUDA_ERROR_INVALID_CLUSTER_SIZE",
        "the requested cluster size is invalid",
    )
    driver = FakeDriver(fail={"launch": [refused]}, clusters=0)
    kernel = launcher("ranks", driver, lambda k: k.update(grid=[8, 1, 1]))
    with pytest.raises(TkcError) as caught:
        kernel.launch((InterfaceArray((8,), "i32"),), {})
    text = str(caught.value)
    assert (
        "ranks: cuLaunchKernelEx failed: CUDA_ERROR_INVALID_CLUSTER_SIZE, the requested cluster size"
        in text
    )
    assert "[TK410]" in text
    assert "grid (8, 1, 1), block (32, 1, 1), 0 bytes of dynamic shared memory" in text
    assert "0 clusters of 2 CTAs fit on the GPU at once" in text


def test_an_error_left_behind_is_called_that() -> None:
    lost = DriverError(
        "cuLaunchKernelEx", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"
    )
    driver = FakeDriver(fail={"launch": [lost], "synchronize": [lost]})
    kernel = launcher("increment", driver)
    with pytest.raises(TkcError, match="an earlier kernel failed, and the context is lost with it"):
        kernel.launch((InterfaceArray((32,), "i32"),), {})
    with pytest.raises(TkcError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        kernel.synchronize()


def test_a_tensor_map_that_the_driver_refuses_after_all() -> None:
    driver = FakeDriver(
        fail={
            "encode": [DriverError("cuTensorMapEncodeTiled", "CUDA_ERROR_INVALID_VALUE", "invalid")]
        }
    )
    with pytest.raises(
        TkcError, match=r"the driver refuses the tensor map of A: CUDA_ERROR_INVALID_VALUE; .*TK207"
    ):
        launcher("tile_copy", driver).launch((bf16(8, 8), bf16(8, 8)), {})


def test_a_cubin_is_taken_before_the_ptx() -> None:
    found = package("tile_copy")
    driver = FakeDriver()
    Launcher(found.kernels[0], found.ptx, b"cubin", driver=driver).launch(
        (bf16(8, 8), bf16(8, 8)), {}
    )  # type: ignore[arg-type]
    assert [c[1] for c in driver.calls if c[0] == "load"] == [b"cubin"]


def test_nothing_is_launched_by_a_wrong_call() -> None:
    driver = FakeDriver()
    tile = launcher("tile_copy", driver)
    for arrays in (
        (bf16(8, 8),),
        (bf16(8, 8), bf16(8, 8, strides=(9, 1))),
        (bf16(8, 8), DLPackArray((8, 8), "f32")),
    ):
        with pytest.raises(TkcError):
            tile.launch(arrays, {})
    assert driver.calls == []

"""Kernel and load: what a package gives without the compiler, and how the emulator is called."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backend.fakes import FakeDriver, f32

import tkc
from tkc.backend.assemble import find_ptxas
from tkc.backend.launch import Launcher
from tkc.diagnostics import TkcError
from tkc.emulator import Poisoned
from tkc.kernel import Kernel, load

PACKAGES = Path(__file__).parent / "gpu" / "packages"
needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="no ptxas here: pip install tkc[assemble]"
)


def kernel(name: str) -> Kernel:
    return load(PACKAGES / f"{name}.json")


@pytest.mark.parametrize("path", sorted(PACKAGES.glob("*.json")), ids=lambda p: p.stem)
def test_packages_of_the_gpu_checks_load(path: Path) -> None:
    found = load(path)
    assert found.name == path.stem
    assert found.ptx == path.with_suffix(".ptx").read_text()
    assert found.contract == json.loads(path.read_text())["kernels"][0]


def test_what_a_kernel_says_of_itself() -> None:
    add = kernel("vector_add")
    assert (add.name, add.target, add.params) == ("vector_add", "sm_90", {})
    assert repr(add) == "<Kernel vector_add(X, Y, Z, alpha) for sm_90>"


def two(folder: Path) -> Path:
    value = json.loads((PACKAGES / "vector_add.json").read_text())
    value["kernels"].append({**value["kernels"][0], "entry": "other_add"})
    place = folder / "vector_add.json"
    place.write_text(json.dumps(value))
    shutil.copy(PACKAGES / "vector_add.ptx", folder)
    return place


def test_a_package_of_several(tmp_path: Path) -> None:
    place = two(tmp_path)
    assert load(place, kernel="other_add").name == "other_add"
    with pytest.raises(
        TkcError, match=r"holds 2 kernels, choose one: vector_add, other_add \[TK120\]"
    ):
        load(place)
    with pytest.raises(
        TkcError, match=r"holds no kernel other_ad; did you mean other_add\? \[TK120\]"
    ):
        load(place, kernel="other_ad")


def test_a_loaded_kernel_has_no_ir() -> None:
    with pytest.raises(
        TkcError, match=r"vector_add was loaded from a package, which holds no IR.*TK110"
    ):
        kernel("vector_add").module()


def test_a_compiled_kernel_knows_its_passes() -> None:
    compiled = SimpleNamespace(
        job=SimpleNamespace(kernel=None, file="k.tk"),
        module="last",
        ptx="ptx",
        contract={"kernels": [kernel("vector_add").contract]},
        again=lambda after: f"after {after}",
    )
    made = Kernel.of(compiled)  # type: ignore[arg-type]
    assert (made.module(), made.module(after="frontend"), made.ptx) == (
        "last",
        "after frontend",
        "ptx",
    )


@needs_ptxas
def test_cubin_and_sass_are_made_once() -> None:
    add = kernel("vector_add")
    assert add.cubin()[:4] == b"\x7fELF"
    assert add.assembly() is add.assembly()
    assert "FFMA" in add.sass()


@needs_ptxas
def test_allow_reaches_the_assembler() -> None:
    found = kernel("tile_copy")
    ptx = found.ptx.replace(
        ".minnctapersm 1\n{", "{\n setmaxnreg.inc.sync.aligned.u32 200;"
    ).replace("sm_90", "sm_90a")
    contract = {**found.contract, "target": "sm_90a"}
    with pytest.raises(TkcError, match="C7508"):
        Kernel(contract, ptx).cubin()
    assert Kernel(contract, ptx, allow={"C7508"}).cubin()


def test_save(tmp_path: Path) -> None:
    place = kernel("vector_add").save(tmp_path / "new")
    assert sorted(p.name for p in place.parent.iterdir()) == ["vector_add.json", "vector_add.ptx"]
    assert load(place).contract == kernel("vector_add").contract


@needs_ptxas
def test_save_with_a_cubin_says_what_it_takes(tmp_path: Path) -> None:
    add = kernel("vector_add")
    cubin = add.cubin()
    again = load(add.save(tmp_path))
    assert again.cubin() == cubin
    assert again.contract["registers"] == add.assembly().registers["vector_add"]
    assert again.contract["versions"]["assembler"].startswith("ptxas ")


def test_a_package_of_a_cubin_alone(tmp_path: Path) -> None:
    found = kernel("vector_add")
    place = Kernel(found.contract, None, cubin=b"\x7fELF").save(tmp_path)
    again = load(place)
    assert again.cubin() == b"\x7fELF"
    with pytest.raises(TkcError, match=r"the package of vector_add holds no PTX.*TK411"):
        _ = again.ptx


def test_launch_goes_to_the_launcher() -> None:
    add = kernel("vector_add")
    driver = FakeDriver()
    add._launcher = Launcher(add.contract, add.ptx, driver=driver)  # type: ignore[arg-type]
    add.launch(f32(8), f32(8), f32(8), alpha=2.0, stream=4)
    assert driver.launches[0]["stream"] == 4


class Recorder:
    """Stands for `tkc.emulate` and `tkc.TensorMap`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        monkeypatch.setitem(tkc.__dict__, "emulate", self.emulate)
        monkeypatch.setitem(tkc.__dict__, "TensorMap", lambda base, **fields: (base, fields))

    def emulate(self, ptx: str, **how: Any) -> str:
        self.calls.append((ptx, how))
        return "report"


def test_emulate_binds_as_a_launch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    add = kernel("vector_add")
    x, y, z = (np.zeros(300, np.float32) for _ in range(3))
    assert add.emulate(x, y, z, alpha=0.5, schedule="random", seed=7) == "report"
    ((ptx, how),) = recorder.calls
    assert ptx == add.ptx
    assert {
        k: how[k]
        for k in ("entry", "grid", "block", "cluster", "shared_bytes", "schedule", "seed", "model")
    } == {
        "entry": "vector_add",
        "grid": (3, 1, 1),
        "block": (128, 1, 1),
        "cluster": (1, 1, 1),
        "shared_bytes": 0,
        "schedule": "random",
        "seed": 7,
        "model": "practice",
    }
    assert all(a is b for a, b in zip(how["args"][:3], (x, y, z), strict=True))
    assert how["args"][3:] == [300, 0.5]


def test_emulate_takes_a_numpy_scalar_for_a_tensor_without_axes() -> None:
    found = tkc.compile(
        """kernel k(alpha: global[f32], X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared x: tile[f32, 128, 32] * 2
    pipe p(x): load -> math
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get p: Y[m, n] <- read(x) * alpha
""",
        target="sm_90a",
    )
    x = np.random.default_rng().standard_normal((5, 12)).astype(np.float32)
    y = np.full_like(x, np.nan)
    found.emulate(np.float32(1.5), x, y)
    assert (y == x * np.float32(1.5)).all()


def test_emulate_makes_tensor_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    a, c = np.zeros((100, 72), np.uint16), np.zeros((100, 80), np.uint16)[:, :72]
    kernel("tile_copy").emulate(a, c)
    (_, how) = recorder.calls[0]
    (base, fields), (_, other) = how["args"]
    assert base is a
    assert fields == {
        "dtype": "bf16",
        "sizes": (72, 100),
        "strides": (144,),
        "box": (64, 64),
        "element_strides": (1, 1),
        "interleave": "none",
        "swizzle": "128B",
        "l2_promotion": "256B",
        "fill": "zero",
        "offset": 0,
    }
    assert other["strides"] == (160,)
    assert how["grid"] == (2, 2, 1)


def test_emulate_takes_the_size_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    out = np.zeros(4096, np.int32)
    ranks = kernel("ranks")
    ranks.emulate(out)
    ranks.emulate(out, sm_count=8)
    assert [how["grid"][0] for _, how in recorder.calls] == [132, 8]


def test_emulate_takes_arrays_that_count_as_unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    a, c = np.zeros((100, 72), np.uint16), Poisoned(np.zeros((100, 72), np.uint16))
    kernel("tile_copy").emulate(a, c)
    (_, how) = recorder.calls[0]
    assert how["args"][1][0] is c


def test_an_empty_launch_is_not_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    add, none = kernel("vector_add"), np.zeros(0, np.float32)
    report = add.emulate(none, none, none, alpha=0.5)
    assert report.ended
    assert report.clean
    assert add.emulation(none, none, none, alpha=0.5) is None
    assert recorder.calls == []


def test_an_empty_launch_may_fill_its_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    found = kernel("vector_add")
    x, y, z, alpha = found.contract["arguments"]
    contract = {
        **found.contract,
        "symbols": {"K": [{"argument": x["name"], "dimension": 0}], **found.contract["symbols"]},
        "arguments": [{**x, "dims": ["K"]}, y, z, alpha],
        "empty": [{"when": ["K"], "do": "zero"}],
    }
    contract["symbols"]["N"] = [{"argument": z["name"], "dimension": 0}]
    out, full = np.ones(5, np.float32), np.ones(5, np.float32)
    report = Kernel(contract, found.ptx).emulate(np.zeros(0, np.float32), full, out, alpha=0.5)
    assert report.ended
    assert (out == 0).all()
    assert (full == 1).all()
    assert recorder.calls == []


def test_emulate_refuses_what_a_launch_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    add, x = kernel("vector_add"), np.zeros(8, np.float32)
    for call, code in (
        (lambda: add.emulate(x, x), "TK401"),
        (lambda: add.emulate(x, x, x[:, None], 1.0), "TK402"),
        (lambda: add.emulate(x, x, x.astype(np.float64), 1.0), "TK403"),
        (lambda: add.emulate(x, x, np.zeros(16, np.float32)[::2], 1.0), "TK405"),
        (lambda: add.emulate(x, x, x[:4], 1.0), "TK407"),
    ):
        with pytest.raises(TkcError, match=code):
            call()
    assert recorder.calls == []

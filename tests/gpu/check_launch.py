"""The launcher on a real GPU (Hopper): `python3 tests/gpu/check_launch.py`; needs torch and cupy, no xdsl, no lark.

Prints one line for each check and exits with 1 if one failed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))
for name in ("xdsl", "lark"):
    sys.modules[name] = None  # an import of either fails at once

import cupy  # noqa: E402
import torch  # noqa: E402

import tkc  # noqa: E402
from tkc.backend import cuda  # noqa: E402
from tkc.backend.assemble import find_ptxas, second_opinion  # noqa: E402

CHECKS: list[Callable[[], str | None]] = []


def check(function: Callable[[], str | None]) -> Callable[[], str | None]:
    CHECKS.append(function)
    return function


def kernel(name: str) -> tkc.Kernel:
    return tkc.load(HERE / "packages" / f"{name}.json")


def refused(code: str, said: str, call: Callable[[], object]) -> None:
    try:
        call()
    except tkc.TkcError as error:
        text = str(error)
        assert code in text, text
        assert said in text, text
    else:
        raise AssertionError(f"nothing was refused; expected {code}: {said}")


@check
def vector_add_torch() -> str:
    add = kernel("vector_add")
    for n in (1, 127, 128, 129, 100_003):
        x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
        z = torch.full((n + 1,), float("nan"), device="cuda")
        add.launch(x, y, z[:n], 0.5)
        wanted = torch.addcmul(
            y.double(), x.double(), torch.tensor(0.5, device="cuda").double()
        ).float()
        assert torch.equal(z[:n], wanted), n
        assert torch.isnan(z[n:]).all()
    empty = torch.empty(0, device="cuda")
    add.launch(empty, empty, empty, 1.0)
    return "5 lengths and an empty one"


@check
def vector_add_cupy() -> str:
    add = kernel("vector_add")
    x, y = cupy.arange(1000, dtype="f4"), cupy.ones(1000, "f4")
    z = cupy.zeros(1000, "f4")
    add.launch(x, y, Z=z, alpha=2)
    assert cupy.array_equal(z, 2 * x + 1)

    class Interface:
        """Only the CUDA array interface, as older libraries have it."""

        def __init__(self, array: Any) -> None:
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    class Capsule:
        """Only DLPack."""

        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **how: Any) -> Any:
            return self.array.__dlpack__(**how)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    for way in (Interface, Capsule):
        z[:] = 0
        add.launch(way(x), way(y), way(z), 2.0)
        assert cupy.array_equal(z, 2 * x + 1)
    t = torch.ones(8, device="cuda")
    r = torch.zeros(8, device="cuda")
    add.launch(Capsule(t), Capsule(t), Capsule(r), 2.0, stream=torch.cuda.Stream())
    torch.cuda.synchronize()
    assert (r == 3).all()
    return "its own attributes, the array interface, DLPack"


@check
def tile_copy_ragged() -> str:
    copy = kernel("tile_copy")
    count = 0
    for m, n in ((64, 64), (1, 8), (1, 24), (100, 72), (257, 1000), (129, 8), (3, 16)):
        a = torch.randn(m, n, device="cuda").bfloat16()
        out = torch.full((m + 1, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        copy.launch(a, out[:m])
        assert torch.equal(out[:m], a), (m, n)
        assert torch.isnan(out[m:]).all(), (m, n)
        wide = torch.full((m, n + 40 - n % 8), 7.0, device="cuda", dtype=torch.bfloat16)
        copy.launch(a, wide[:, :n])
        assert torch.equal(wide[:, :n], a), (m, n)
        assert (wide[:, n:] == 7).all(), (m, n)
        count += 2
    bits = cupy.random.randint(0, 1 << 16, (130, 136)).astype("u2")
    result = cupy.zeros_like(bits)
    copy.launch(bits, result)
    assert cupy.array_equal(bits, result)
    refused("TK414", "whole 16-byte granules", lambda: copy.launch(a[:1, :1], out[:1, :1]))
    return f"{count} shapes; uint16 of cupy stands for bf16"


@check
def tile_copy_above_2_to_31() -> str:
    copy = kernel("tile_copy")
    m, n = 65_600, 32_768
    a = (
        torch.randint(-9, 9, (1, n), device="cuda", dtype=torch.int16)
        .view(torch.bfloat16)
        .repeat(m, 1)
    )
    a[-1, -1] = 3.0
    out = torch.zeros_like(a)
    copy.launch(a, out)
    assert torch.equal(a.view(torch.int16), out.view(torch.int16))
    return f"{m * n} elements"


@check
def clusters() -> str:
    out = torch.full((4096,), -1, device="cuda", dtype=torch.int32)
    kernel("ranks").launch(out)
    written = int((out >= 0).sum())
    assert written % 2 == 0
    assert out[:written].tolist() == [20 + i % 2 for i in range(written)]
    device = torch.cuda.get_device_properties(0)
    assert written >= 2 * device.multi_processor_count
    refused("TK414", "needs a multiple of 2", lambda: kernel("ranks").launch(out[:7]))
    refused("TK414", "there must be a CTA", lambda: kernel("ranks").launch(out[:0]))
    return f"max_clusters = {written // 2}"


@check
def dependent_launches() -> str:
    x = torch.zeros(32, device="cuda", dtype=torch.int32)
    increment = kernel("increment")
    for _ in range(1000):
        increment.launch(x)
    assert (x == 1000).all()
    return "1000 in a row"


@check
def streams() -> str:
    add = kernel("vector_add")
    x = torch.ones(8, device="cuda")
    seen = 0
    side = torch.cuda.Stream()
    other = cupy.cuda.Stream()
    for stream in (None, 0, side, side.cuda_stream, other, other.ptr):
        z = torch.zeros(8, device="cuda")
        torch.cuda.synchronize()
        add.launch(x, x, z, 3.0, stream=stream)
        torch.cuda.synchronize()
        assert (z == 4).all()
        seen += 1
    # The current stream of torch is taken: behind a long wait on it, the launch comes later than this check.
    z = torch.zeros(8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(400_000_000)
        add.launch(x, x, z, 3.0)
    busy = not side.query()
    assert busy
    assert (z.cpu() == 0).all()
    side.synchronize()
    assert (z == 4).all()
    # A graph holds the launch.
    z.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add.launch(x, x, z, 3.0)
    z.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert (z == 4).all()
    from cuda.bindings import driver as bindings

    add.launch(x, x, z, 5.0, stream=bindings.CUstream(side.cuda_stream))
    torch.cuda.synchronize()
    assert (z == 6).all()
    return f"{seen + 1} kinds, torch's current one, and a graph"


@check
def wrong_arguments() -> str:
    copy, add = kernel("tile_copy"), kernel("vector_add")
    a = torch.zeros(64, 64, device="cuda", dtype=torch.bfloat16)
    c = torch.zeros_like(a)
    odd = a[:, :17].contiguous()
    x = torch.zeros(64, device="cuda")
    cases: list[tuple[str, str, Callable[[], object]]] = [
        ("TK401", "takes 2 arguments, found 1: C missing", lambda: copy.launch(a)),
        ("TK402", "A has rank 1", lambda: copy.launch(a[0], c)),
        ("TK403", "A holds f16; expected bf16", lambda: copy.launch(a.half(), c)),
        ("TK404", "A is on the CPU", lambda: copy.launch(a.cpu(), c)),
        ("TK404", "C is on the CPU", lambda: copy.launch(a, c.cpu())),
        ("TK405", "axis 1 must be contiguous", lambda: copy.launch(a.t(), c)),
        ("TK405", "has a stride of 34 bytes", lambda: copy.launch(odd, c[:, :17])),
        ("TK405", "is broadcast (stride 0)", lambda: copy.launch(a[:1].expand(64, 64), c)),
        ("TK405", "overlap", lambda: copy.launch(a, c.view(-1).as_strided((64, 64), (8, 1)))),
        ("TK406", "bytes past a multiple of 16", lambda: copy.launch(a.view(-1)[4:-60].view(-1, 64)[:8], c[:8])),
        ("TK407", "M is 64 by axis 0 of A and 32 by axis 0 of C", lambda: copy.launch(a, c[:32])),
        ("TK403", "expected a number for f32", lambda: add.launch(x, x, x, "1")),
        ("TK404", "expected an array", lambda: add.launch(x, x, [1.0], 1.0)),
        ("TK404", "is no CUDA stream", lambda: add.launch(x, x, x, 1.0, stream="main")),
    ]  # fmt: skip
    for code, said, call in cases:
        refused(code, said, call)
    blackwell = tkc.Kernel({**copy.contract, "target": "sm_100a"}, copy.ptx)
    refused("TK408", "compile with --target sm_90a", lambda: blackwell.launch(a, c))
    too_much = tkc.Kernel({**copy.contract, "shared_bytes": 240_000}, copy.ptx)
    refused("TK410", "gives a CTA 232448", lambda: too_much.launch(a, c))
    return f"{len(cases) + 2} refusals"


@check
def the_driver_refuses_at_the_source_line() -> str:
    add = kernel("vector_add")
    x = torch.zeros(8, device="cuda")
    broken = tkc.Kernel(
        add.contract, add.ptx.replace("add.u64 %a4, %a0, %a3;", "add.u64 %a4, %a0, %nothing;")
    )
    refused("TK210", "vector_add.tk:4:5: error: the CUDA", lambda: broken.launch(x, x, x, 1.0))
    newest = tkc.Kernel(add.contract, add.ptx.replace(".version 7.8", ".version 9.9"))
    refused("TK2", "does not take .version", lambda: newest.launch(x, x, x, 1.0))
    return "at vector_add.tk:4:5"


@check
def a_newer_ptx_goes_through_ptxas() -> str:
    """Needs a ptxas that knows more than the driver: TKC_PTXAS=… names one."""
    add = kernel("vector_add")
    x = torch.ones(8, device="cuda")
    z = torch.zeros(8, device="cuda")
    newer = tkc.Kernel(add.contract, add.ptx.replace(".version 7.8", ".version 9.4"))
    found = find_ptxas()
    if found is None or tuple(map(int, found.version.split(".")[:2])) < (13, 4):
        refused("TK2", "does not take .version", lambda: newer.launch(x, x, z, 1.0))
        return "refused: no ptxas of 13.4 or later here"
    newer.launch(x, x, z, 1.0)
    assert (z == 2).all()
    return f".version 9.4 by ptxas {found.version} on driver {cuda.driver().version()}"


BLACKWELL = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry fences() .reqntid 128, 1, 1 .minnctapersm 1
{
    %s
    tcgen05.fence::before_thread_sync;
    ret;
}
"""


@check
def second_opinions() -> str:
    plain = second_opinion(BLACKWELL % "", "sm_100a")
    assert plain.accepted, plain.log
    assert not plain.dropped
    assert plain.cubin is not None
    assert plain.cubin[:4] == b"\x7fELF"
    dropped = second_opinion(BLACKWELL % "setmaxnreg.inc.sync.aligned.u32 200;", "sm_100a")
    assert dropped.accepted, dropped.log
    assert dropped.dropped == ("setmaxnreg",)
    assert "it drops setmaxnreg" in str(dropped)
    wrong = second_opinion(BLACKWELL % "wgmma.fence.sync.aligned;", "sm_100a")
    assert not wrong.accepted
    assert "wgmma" in wrong.log
    return str(dropped)


@check
def the_cost_of_a_launch() -> str:
    add = kernel("vector_add")
    x = torch.zeros(8, device="cuda")
    columns: list[str] = []
    for label, arrays in (("torch", (x, x, x)), ("cupy", (cupy.zeros(8, "f4"),) * 3)):
        add.launch(*arrays, 1.0)
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(2000):
            add.launch(*arrays, 1.0)
        columns.append(f"{label} {(time.perf_counter() - began) / 2000 * 1e6:.1f} µs")
        torch.cuda.synchronize()
    plan = next(iter(add.launcher()._plans.values()))
    driver = cuda.driver()
    began = time.perf_counter()
    for _ in range(2000):
        driver.launch(plan.config, plan.loaded.function, plan.params)
    columns.append(f"the driver call alone {(time.perf_counter() - began) / 2000 * 1e6:.1f} µs")
    torch.cuda.synchronize()
    return ", ".join(columns)


FAULT = """
import sys
sys.path.insert(0, {root!r})
import torch, tkc
k = tkc.load({package!r})
x = torch.zeros(8, device="cuda")
bad = tkc.Kernel(k.contract, k.ptx.replace("add.u64 %a6, %a2, %a3;", "mov.b64 %a6, 8;"))
bad.launch(x, x, x, 1.0)
try:
    bad.launcher().synchronize()
except tkc.TkcError as error:
    print(error)
"""


@check
def a_fault_is_told() -> str:
    code = FAULT.format(
        root=str(HERE.parent.parent), package=str(HERE / "packages" / "vector_add.json")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout, done.stdout + done.stderr
    assert "the context is lost" in done.stdout, done.stdout
    return done.stdout.splitlines()[0]


@check
def a_saved_kernel_loads_again() -> str:
    add = kernel("vector_add")
    with tempfile.TemporaryDirectory() as folder:
        place = add.save(folder)
        again = tkc.load(place)
        x = torch.ones(8, device="cuda")
        z = torch.zeros(8, device="cuda")
        again.launch(x, x, z, 1.0)
        assert (z == 2).all()
    return place.name


@check
def nothing_of_the_compiler_was_imported() -> str:
    found = [
        m
        for m in sys.modules
        if m.startswith(("tkc.ir.ptx", "tkc.passes", "tkc.frontend", "tkc.driver"))
    ]
    assert not found, found
    return "no compiler, no xdsl, no lark"


def main() -> int:
    failed = 0
    for item in CHECKS:
        began = time.perf_counter()
        try:
            said = item()
            print(
                f"ok    {item.__name__}: {said} ({time.perf_counter() - began:.2f} s)", flush=True
            )
        except Exception:
            failed += 1
            print(f"FAIL  {item.__name__}", flush=True)
            traceback.print_exc()
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

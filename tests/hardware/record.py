"""Runs the programs on a GPU and keeps what they write: `python3 tests/hardware/record.py --out FOLDER [name ...]`.

Needs NumPy and the CUDA driver, nothing else: neither PyTorch nor xDSL nor lark. Each program runs in a process of its
own, so that a launch that faults or never ends costs only itself; what became of it is kept as its outcome.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

from compaction import compact, fingerprint  # noqa: E402
from inputs import make_buffers  # noqa: E402

from tkc.ir.isa.layouts import SWIZZLES  # noqa: E402
from tkc.ir.isa.tensormap import FILLS, INTERLEAVES, L2_PROMOTIONS, MAP_TYPES  # noqa: E402

PROGRAMS = HERE / "programs"
GUARD = 1024
"""Bytes before and after every buffer that must stay as they are."""
PATIENCE = 2.0
"""Seconds that a launch may take."""

Json = dict[str, Any]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    )


class Attribute(ctypes.Structure):
    """CUlaunchAttribute with a cluster size."""

    _fields_ = (("id", c_int), ("pad", c_int), ("cluster", c_uint * 3), ("rest", c_uint * 13))


class Failed(Exception):
    """A call of the driver, and the name of its error."""


class Gpu:
    """The first device, in its primary context."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def status(self, name: str, *args: Any) -> str:
        """Calls the driver; the name of the error, or nothing."""
        code = getattr(self.lib, name)(*args)
        if not code:
            return ""
        text = c_char_p()
        self.lib.cuGetErrorName(code, byref(text))
        return (text.value or b"unknown").decode()

    def call(self, name: str, *args: Any) -> None:
        found = self.status(name, *args)
        if found:
            raise Failed(f"{name}: {found}")

    def about(self) -> Json:
        name, version = ctypes.create_string_buffer(256), c_int()
        self.call("cuDeviceGetName", name, 256, 0)
        self.call("cuDriverGetVersion", byref(version))
        return {"gpu": name.value.decode(), "driver": version.value}

    def load(self, text: str) -> c_void_p:
        module, log = c_void_p(), ctypes.create_string_buffer(8192)
        keys = (c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        values = (c_void_p * 2)(ctypes.addressof(log), 8192)
        found = self.status(
            "cuModuleLoadDataEx", byref(module), text.encode() + b"\0", 2, keys, values
        )
        if found:
            raise Failed(f"{found}: {log.value.decode(errors='replace')}")
        return module

    def upload(self, words: Any) -> int:
        address = c_uint64()
        data = np.full(words.nbytes + 2 * GUARD, 0xEE, np.uint8)
        data[GUARD : GUARD + words.nbytes] = words.view(np.uint8)
        self.call("cuMemAlloc_v2", byref(address), c_size_t(data.nbytes))
        self.call("cuMemcpyHtoD_v2", address, c_void_p(data.ctypes.data), c_size_t(data.nbytes))
        return address.value + GUARD

    def download(self, address: int, like: Any) -> tuple[Any, bool]:
        """The words, and whether the guards are untouched."""
        data = np.empty(like.nbytes + 2 * GUARD, np.uint8)
        self.call(
            "cuMemcpyDtoH_v2",
            c_void_p(data.ctypes.data),
            c_uint64(address - GUARD),
            c_size_t(data.nbytes),
        )
        inside = data[GUARD : GUARD + like.nbytes].copy().view(like.dtype)
        whole = bool((data[:GUARD] == 0xEE).all() and (data[GUARD + like.nbytes :] == 0xEE).all())
        return inside, whole

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", c_uint64(address - GUARD))

    def encode(self, m: Json, address: int) -> Any:
        """The 128 bytes of a tensor map; raises Failed with the driver's word."""
        room = ctypes.create_string_buffer(128 + 64)
        result = (ctypes.c_char * 128).from_buffer(room, -ctypes.addressof(room) % 64)
        rank = len(m["sizes"])
        self.call(
            "cuTensorMapEncodeTiled",
            byref(result),
            MAP_TYPES[m["type"]].driver,
            rank,
            c_void_p(address + m["offset"]),
            (c_uint64 * rank)(*m["sizes"]),
            (c_uint64 * max(rank - 1, 1))(*m["strides"]),
            (c_uint32 * rank)(*m["box"]),
            (c_uint32 * rank)(*m["element_strides"]),
            INTERLEAVES[m["interleave"]],
            SWIZZLES[m["swizzle"]].driver,
            L2_PROMOTIONS[m.get("l2_promotion", "none")],
            FILLS[m["fill"]],
        )
        return result

    def run(self, module: c_void_p, launch: Json) -> tuple[dict[str, Any], bool]:
        """The outputs of a launch, and whether nothing was written beside the buffers."""
        buffers = make_buffers(launch)
        places = {name: self.upload(words) for name, words in buffers.items()}
        values: list[Any] = []
        for arg in launch["args"]:
            if "buffer" in arg:
                values.append(c_uint64(places[arg["buffer"]]))
            elif "map" in arg:
                values.append(self.encode(arg["map"], places[arg["map"]["buffer"]]))
            else:
                raw = np.array(arg["value"], arg["scalar"]).tobytes()
                values.append(ctypes.create_string_buffer(raw, len(raw)))
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), module, launch["entry"].encode())
        if launch["shared_bytes"] > 48 * 1024:
            self.call("cuFuncSetAttribute", function, 8, launch["shared_bytes"])
        config = Config(
            (c_uint * 3)(*launch["grid"]),
            (c_uint * 3)(*launch["block"]),
            launch["shared_bytes"],
            None,
            None,
            0,
        )
        cluster = Attribute(4, 0, (c_uint * 3)(*launch["cluster"]))
        if launch["cluster"] != [1, 1, 1]:
            config.attributes, config.count = ctypes.addressof(cluster), 1
        params = (c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self.call("cuLaunchKernelEx", byref(config), function, params, None)
        start = time.monotonic()
        while (found := self.status("cuStreamQuery", None)) == "CUDA_ERROR_NOT_READY":
            if time.monotonic() - start > PATIENCE:
                raise Failed("hangs")
        if found:
            raise Failed(found)
        outputs = {}
        clean = True
        for name, address in places.items():
            words, whole = self.download(address, buffers[name])
            clean = clean and whole
            if name in launch["outputs"]:
                outputs[name] = words
            elif name not in launch.get("scratch", ()) and not np.array_equal(words, buffers[name]):
                raise Failed(f"wrote to input {name}")
            self.free(address)
        return outputs, clean


def child(name: str, start: int, out: Path) -> int:
    """Runs the launches of one program from `start` on, up to the first that fails; outcomes go to a JSON file."""
    described = json.loads((PROGRAMS / f"{name}.json").read_text(encoding="utf-8"))
    gpu = Gpu()
    outcomes: dict[str, str] = {}
    arrays: dict[str, Any] = {}
    if "maps" in described:
        address = gpu.upload(np.zeros(1 << 16, np.uint8))
        for trial in described["maps"]:
            try:
                gpu.encode(trial["map"], address)
                outcomes[trial["name"]] = "made"
            except Failed as error:
                outcomes[trial["name"]] = str(error)
        start = len(described["maps"])
    else:
        module = gpu.load((PROGRAMS / f"{name}.ptx").read_text(encoding="utf-8"))
        launches = described["launches"]
        while start < len(launches):
            launch = launches[start]
            start += 1
            try:
                outputs, clean = gpu.run(module, launch)
            except Failed as error:
                outcomes[launch["name"]] = str(error)
                if not str(error).startswith("cuTensorMapEncode"):
                    break
                continue
            outcomes[launch["name"]] = "ran" if clean else "ran, wrote beside its buffers"
            for output, words in outputs.items():
                for kind, kept in compact(words, len(launch.get("rows", ()))).items():
                    arrays[f"{launch['name']}:{output}:{kind}"] = kept
    np.savez_compressed(out.with_suffix(".npz"), **arrays)
    text = json.dumps(
        {"next": start, "outcomes": outcomes, "about": gpu.about() if start >= 0 else {}}
    )
    out.with_suffix(".json").write_text(text, encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # a hanging launch would make an orderly exit wait


def record(name: str, out: Path) -> str:
    """Runs a program in as many processes as it takes."""
    described = json.loads((PROGRAMS / f"{name}.json").read_text(encoding="utf-8"))
    total = len(described.get("maps", described.get("launches", ())))
    arrays: dict[str, Any] = {}
    outcomes: dict[str, str] = {}
    start, about = 0, {}
    while start < total:
        part = out / f".{name}.{start}"
        command = [
            sys.executable,
            str(Path(__file__)),
            "--child",
            name,
            "--start",
            str(start),
            "--out",
            str(part),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
            said = json.loads(part.with_suffix(".json").read_text(encoding="utf-8"))
        except (OSError, subprocess.TimeoutExpired) as error:
            said_by = done.stderr[-1500:] if isinstance(error, OSError) else "timeout"
            return f"{name}: no answer from launch {start} on: {said_by}"
        with np.load(part.with_suffix(".npz")) as kept:
            arrays |= {k: kept[k] for k in kept.files}
        outcomes |= said["outcomes"]
        start, about = said["next"], said["about"]
        for suffix in (".json", ".npz"):
            part.with_suffix(suffix).unlink()
    np.savez_compressed(out / f"{name}.npz", **arrays)
    text = json.dumps(
        {"about": about, "program": fingerprint(PROGRAMS, name), "outcomes": outcomes}, indent=0
    )
    (out / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    odd = {k: v for k, v in outcomes.items() if v not in ("ran", "made")}
    shown = "; ".join(f"{k}: {v}" for k, v in list(odd.items())[:12])
    return f"{name}: {total} launches, {len(odd)} odd {shown[:700]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "recordings")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--child")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.child:
        return child(options.child, options.start, options.out)
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        parser.exit(1, f"no CUDA driver here: {error}\n")
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.names or sorted(p.stem for p in PROGRAMS.glob("*.json"))
    begin = time.monotonic()
    with ThreadPoolExecutor(options.workers) as pool:
        for line in pool.map(lambda n: record(n, options.out), names):
            print(f"{time.monotonic() - begin:6.1f} s  {line}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Loads a kernel into the GPU at hand and launches it on the caller's arrays.

The first launch on given arrays checks everything (`tkc.backend.bind`), encodes the tensor maps and keeps the result as
a plan; a launch on arrays at the same addresses with the same shapes then costs a look-up and one driver call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tkc.backend import cuda, lists, ptxas_log
from tkc.backend.arrays import CUDA, ITEM_BYTES, View, mark, stream_handle, view
from tkc.backend.bind import (
    Bound,
    PointerValue,
    ScalarValue,
    ScratchValue,
    TensorMapsValue,
    TensorMapValue,
    bind,
    clusters_for,
    number,
)
from tkc.backend.cuda import Driver, DriverError
from tkc.backend.gather import gather
from tkc.backend.tensormap import BoundMap
from tkc.diagnostics import Diagnostic, Note, TkcError
from tkc.ir.isa.targets import TARGETS, runs_on
from tkc.ir.isa.tensormap import MAP_BYTES

PLAN_LIMIT = 256
"""Plans kept for each kernel; the oldest goes first."""

_STICKY = ("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED",
           "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_LAUNCH_TIMEOUT",
           "CUDA_ERROR_ASSERT", "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_INVALID_PC")  # fmt: skip
"""Errors that a kernel leaves behind and that every later call of the context returns."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A kernel in one context: the function's handle, and the device that the context is on."""

    context: int
    device: int
    function: Any


@dataclass(frozen=True, slots=True)
class _Plan:
    """One launch, ready to go. `config` is None where nothing is launched; `zero` are arrays to fill instead. `memory`
    is what it has allocated, in its context."""

    loaded: _Loaded
    config: Any
    params: Any
    keep: tuple[Any, ...]
    wait: tuple[int, ...]
    zero: tuple[View, ...]
    memory: tuple[int, ...] = ()


class Launcher:
    """One kernel of a package, for every GPU and context that it is launched in."""

    def __init__(
        self,
        kernel: Mapping[str, Any],
        ptx: str | None,
        cubin: bytes | None = None,
        *,
        allow: Collection[str] = frozenset(),
        driver: Driver | None = None,
    ) -> None:
        """`allow` names assembler notices to put up with, should ptxas be needed; `driver` replaces the machine's."""
        self.kernel, self.ptx, self.cubin, self.allow = kernel, ptx, cubin, allow
        self._driver = driver
        self._arguments = [
            (a["name"], a["dtype"] if a.get("scalar") else None) for a in kernel["arguments"]
        ]
        self._listed = {a["name"] for a in kernel["arguments"] if a.get("list")}
        self._loaded: dict[int, _Loaded] = {}
        self._plans: dict[Any, _Plan] = {}

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            self._driver = cuda.driver()
        return self._driver

    def launch(self, given: Sequence[Any], named: Mapping[str, Any], stream: Any = None) -> None:
        """Launches on `stream` (see `stream_handle`) and returns at once.

        Arguments as in the contract, in order or by name; sizes that no array tells, by name. Raises TkcError, before
        anything is launched: TK401..TK408, TK414, TK207, TK501 for the arguments; TK409, TK410, TK210 for the machine.
        """
        driver = self.driver
        symbols: dict[str, int] = {}
        if named or len(given) != len(self._arguments):
            given, symbols = gather(self.kernel, given, named)
        handle = stream_handle(stream, given)
        marks = tuple(
            [
                self._mark(value, name, handle) if dtype is None else number(dtype, value, name)
                for value, (name, dtype) in zip(given, self._arguments, strict=True)
            ]
        )
        current = driver.current()
        key = (current, handle, marks, tuple(symbols.items()))
        plan = self._plans.get(key)
        if plan is None:
            views = [
                self._view(value, name, handle) if dtype is None else m
                for value, m, (name, dtype) in zip(given, marks, self._arguments, strict=True)
            ]
            plan = self._plan(current, handle, views, symbols)
            if len(self._plans) >= PLAN_LIMIT:
                self._forget(next(iter(self._plans)))
            self._plans[key] = plan
        if plan.loaded.context == current:
            self._run(plan, handle)
        else:
            with driver.context(plan.loaded.context):
                self._run(plan, handle)

    def _mark(self, value: Any, name: str, handle: int) -> Any:
        return (lists.marks if name in self._listed else mark)(value, name, handle)

    def _view(self, value: Any, name: str, handle: int) -> View | lists.Views:
        return (lists.views if name in self._listed else view)(value, name, handle)

    def _forget(self, key: Any) -> None:
        """Drops a plan; what it has allocated goes once its launches are done, as the driver waits for them."""
        plan = self._plans.pop(key, None)
        if plan is not None and plan.memory:
            with self.driver.context(plan.loaded.context):
                for address in plan.memory:
                    self.driver.free(address)

    def _run(self, plan: _Plan, handle: int) -> None:
        try:
            for earlier in plan.wait:
                self.driver.wait(handle, earlier)
            if plan.config is not None:
                self.driver.launch(plan.config, plan.loaded.function, plan.params)
            for array in plan.zero:
                _zero_fill(self.driver, array, handle)
        except DriverError as error:
            raise self._failed(error, plan) from None

    def synchronize(self, stream: Any = None) -> None:
        """Waits for the work on `stream`; an error that a kernel left behind comes out as TkcError TK410."""
        try:
            self.driver.synchronize(stream_handle(stream))
        except DriverError as error:
            raise _driver_failure(self.kernel["entry"], error) from None

    # What a plan is made of

    def _plan(
        self, current: int, handle: int, views: Sequence[Any], symbols: Mapping[str, int]
    ) -> _Plan:
        driver = self.driver
        arrays = {
            name: v
            for given, (argument, dtype) in zip(views, self._arguments, strict=True)
            if dtype is None
            for name, v in lists.named(argument, given)
        }
        device = self._device(arrays, current)
        self._check_target(device)
        context = (
            current if current and driver.device_of(current) == device else driver.primary(device)
        )
        try:
            with driver.context(context):
                return self._plan_in(context, device, handle, views, symbols, arrays)
        except DriverError as error:
            raise _driver_failure(self.kernel["entry"], error) from None

    def _plan_in(
        self,
        context: int,
        device: int,
        handle: int,
        views: Sequence[Any],
        symbols: Mapping[str, int],
        arrays: Mapping[str, View],
    ) -> _Plan:
        driver, kernel = self.driver, self.kernel
        empty = any(0 in v.shape for v in arrays.values())
        spare = driver.scratch(context) if empty else 0

        def facts(name: str) -> int:
            if name == "sm_count":
                return driver.sm_count(device)
            one = self._config(kernel["cluster"]["size"], 0)
            return driver.max_clusters(self._load(context, device).function.value, one, device)

        bound = bind(kernel, views, symbols, facts, spare)
        wait = tuple(
            dict.fromkeys(
                v.stream
                for v in arrays.values()
                if v.stream is not None and _differ(v.stream, handle)
            )
        )
        if bound.action != "launch":
            zero = tuple(arrays[n] for n in kernel["outputs"]) if bound.action == "zero" else ()
            return _Plan(_Loaded(context, device, None), None, None, (), wait, zero)
        loaded, config = self._load(context, device), self._config(bound.grid, handle)
        memory: list[int] = []
        try:
            keep = self._values(bound, memory, handle)
        except BaseException:
            for address in memory:
                driver.free(address)
            raise
        params = cuda.params([b for b in keep if not isinstance(b, cuda.Sent)])
        return _Plan(loaded, config, params, keep, wait, (), tuple(memory))

    def _values(self, bound: Bound, memory: list[int], handle: int) -> tuple[Any, ...]:
        """The parameters as buffers. What is put in global memory for them is noted in `memory`; its bytes are sent in
        the stream's order, and kept."""
        buffers: list[Any] = []
        for value in bound.values:
            if isinstance(value, TensorMapsValue | ScratchValue):
                size = (
                    value.bytes if isinstance(value, ScratchValue) else MAP_BYTES * len(value.maps)
                )
                memory.append(self.driver.allocate(size))
                buffers.append(cuda.address(memory[-1]))
                if isinstance(value, TensorMapsValue):
                    encoded = b"".join(bytes(self._encode(value, one)) for one in value.maps)
                    buffers.append(self.driver.send(memory[-1], encoded, handle))
            elif isinstance(value, ScalarValue):
                buffers.append(cuda.buffer(value.data))
            elif isinstance(value, PointerValue):
                buffers.append(cuda.address(value.address))
            else:
                buffers.append(self._encode(value, value.map))
        return tuple(buffers)

    def _encode(self, value: TensorMapValue | TensorMapsValue, one: BoundMap) -> Any:
        try:
            return self.driver.encode(one)
        except DriverError as error:
            raise TkcError.at(
                "TK207",
                f"the driver refuses the tensor map of {value.argument}: {error.name}; {one}",
            ) from None

    def _config(self, grid: Sequence[int], handle: int) -> Any:
        kernel = self.kernel
        cluster, flags = kernel["cluster"], kernel["attributes"]
        attributes: list[tuple[int, Sequence[int]]] = []
        size, preferred = clusters_for(cluster, grid)
        if cluster["size"] != [1, 1, 1] or cluster.get("preferred"):
            attributes.append((cuda.CLUSTER, size))
        if preferred is not None:
            attributes.append((cuda.PREFERRED_CLUSTER, preferred))
        if flags.get("dependent"):
            attributes.append((cuda.DEPENDENT, (1,)))
        if flags.get("cooperative"):
            attributes.append((cuda.COOPERATIVE, (1,)))
        return cuda.config(grid, kernel["block"], kernel["shared_bytes"], handle, attributes)

    # Where it runs

    def _device(self, arrays: Mapping[str, View], current: int) -> int:
        """The one GPU that holds every array. Raises TkcError TK404 for each that is elsewhere."""
        found: list[Diagnostic] = []
        where: dict[str, int] = {}
        for name, array in arrays.items():
            device: int | None = array.device
            if array.kind != CUDA:
                place = "on the CPU" if array.kind == "cpu" else f"in {array.kind}"
                found.append(
                    Diagnostic(
                        "TK404",
                        f"{name} is {place}; the kernel needs it on a GPU",
                        help="pass a copy on the GPU",
                    )
                )
                continue
            if array.device < 0:
                device = self.driver.pointer_device(array.address) if array.address else None
                if device is None and array.address and 0 not in array.shape:
                    found.append(
                        Diagnostic("TK404", f"{name} at {array.address:#x} is not memory of a GPU")
                    )
            if device is not None:
                where[name] = device
                first = next(iter(where))
                if where[first] != device:
                    found.append(
                        Diagnostic(
                            "TK404", f"{name} is on GPU {device}, {first} on GPU {where[first]}"
                        )
                    )
        if found:
            raise TkcError(tuple(found))
        if where:
            return next(iter(where.values()))
        return self.driver.device_of(current) if current else 0

    def _check_target(self, device: int) -> None:
        target = TARGETS.get(self.kernel["target"])
        if target is None:
            raise TkcError.at("TK408", f"target {self.kernel['target']} is not known here")
        major, minor = self.driver.capability(device)
        if not runs_on(target, (major, minor)):
            raise TkcError.at(
                "TK408",
                f"{self.kernel['entry']} is compiled for {target.name}; GPU {device}, {self.driver.name(device)},"
                f" has compute capability {major}.{minor}",
                help=f"compile with --target {_targets_for((major, minor))}",
            )

    def _load(self, context: int, device: int) -> _Loaded:
        loaded = self._loaded.get(context)
        if loaded is None:
            kernel = self.kernel
            limit = self.driver.max_shared_bytes(device)
            if kernel["shared_bytes"] > limit:
                raise TkcError.at(
                    "TK410",
                    f"{kernel['entry']} needs {kernel['shared_bytes']} bytes of shared memory;"
                    f" GPU {device} gives a CTA {limit}",
                )
            function = self.driver.function(self._module(device), kernel["entry"])
            x, y, z = kernel["cluster"]["preferred"] or kernel["cluster"]["size"]
            self.driver.prepare(function, kernel["shared_bytes"], x * y * z)
            loaded = self._loaded[context] = _Loaded(context, device, cuda.c_void_p(function))
        return loaded

    def _module(self, device: int) -> int:
        """Loads the cubin, else the PTX by the driver's own assembler, else a cubin made by ptxas."""
        if self.cubin is not None:
            return self.driver.load(self.cubin)
        if self.ptx is None:
            raise TkcError.at("TK411", "the package has neither PTX nor a cubin")
        version = self.driver.version()
        tool = f"the CUDA {version // 1000}.{version % 1000 // 10} driver"
        try:
            return self.driver.load(self.ptx.encode())
        except DriverError as error:
            if error.name == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
                return self.driver.load(self._assembled(device, tool))
            report = ptxas_log.read(error.log)
            if report.errors:
                raise ptxas_log.refusal(report, self.ptx, tool) from None
            raise

    def _assembled(self, device: int, tool: str) -> bytes:
        from tkc.backend.assemble import assemble

        major, minor = self.driver.capability(device)
        bound_to_chip = self.kernel["target"][-1] in "af"
        target = self.kernel["target"] if bound_to_chip else f"sm_{major}{minor}"
        try:
            return assemble(self.ptx or "", target, allow=self.allow).cubin
        except TkcError as error:
            note = Note(
                f"{tool} does not take .version {self.kernel['ptx_version']}, so a cubin was needed"
            )
            first = error.diagnostics[0]
            with_note = Diagnostic(
                first.code,
                first.message,
                first.location,
                first.severity,
                (*first.notes, note),
                first.fix,
                first.help,
            )
            raise TkcError((with_note, *error.diagnostics[1:]), error.sources) from None

    def _failed(self, error: DriverError, plan: _Plan) -> TkcError:
        """TK410 for a launch, with the numbers that it was made with."""
        failure = _driver_failure(self.kernel["entry"], error)
        first = failure.diagnostics[0]
        notes = list(first.notes)
        if plan.config is not None and error.name not in _STICKY:
            grid, block = tuple(plan.config.grid), tuple(plan.config.block)
            notes.append(
                Note(
                    f"grid {grid}, block {block}, {plan.config.shared_bytes} bytes of dynamic shared memory"
                )
            )
            size = self.kernel["cluster"]["size"]
            if size != [1, 1, 1]:
                notes.append(Note(self._clusters_that_fit(plan, size[0] * size[1] * size[2])))
        return TkcError((Diagnostic(first.code, first.message, notes=tuple(notes)),))

    def _clusters_that_fit(self, plan: _Plan, ctas: int) -> str:
        try:
            count = self.driver.max_clusters(
                plan.loaded.function.value, plan.config, plan.loaded.device
            )
        except DriverError as error:
            return f"clusters of {ctas} CTAs do not fit: {error.name}"
        return f"{count} clusters of {ctas} CTAs fit on the GPU at once"


def _driver_failure(entry: str, error: DriverError) -> TkcError:
    notes = (
        (Note("an earlier kernel failed, and the context is lost with it; start a new process"),)
        if error.name in _STICKY
        else ()
    )
    return TkcError.at(
        "TK410", f"{entry}: {error.call} failed: {error.name}, {error.text}", None, *notes
    )


def _targets_for(capability: tuple[int, int]) -> str:
    fit = [t.name for t in TARGETS.values() if t.capability == capability and t.suffix == "a"]
    return fit[0] if fit else f"sm_{capability[0]}{capability[1]}"


def _differ(one: int, other: int) -> bool:
    """Whether two stream numbers are different streams; 0 and 1 both name the legacy default stream."""
    return max(one, 1) != max(other, 1)


def _zero_fill(driver: Driver, array: View, stream: int) -> None:
    """Zero-fills an array whose innermost axis is contiguous: one driver call for each index of the outer axes."""
    if 0 in array.shape:
        return
    size = ITEM_BYTES[array.dtype]
    axes = sorted(
        ((s, n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1), reverse=True
    )
    width = axes.pop()[1] * size if axes and axes[-1][0] == size else size
    pitch, rows = axes.pop() if axes else (width, 1)
    for index in product(*(range(n) for _, n in axes)):
        start = array.address + sum(i * s for i, (s, _) in zip(index, axes, strict=True))
        driver.zero(start, pitch, width, rows, stream)

"""A compiled kernel: its PTX and launch contract, and what can be done with them; each room is loaded when first used.

`load` brings one back from its contract file. Launching imports neither xdsl nor lark nor numpy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tkc.diagnostics import TkcError, nearest

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tkc.backend.arrays import View
    from tkc.backend.assemble import Assembly
    from tkc.backend.bind import Bound
    from tkc.backend.launch import Launcher
    from tkc.backend.tensormap import BoundMap
    from tkc.job import Compiled

EMULATED_SMS = 132
"""`sm_count` of an emulated launch that does not say otherwise: an H200's."""


DEVICE_ALIGN = 256
"""What cudaMalloc aligns memory to, at least."""


class Kernel:
    """One kernel, compiled. Made by `tkc.compile` and `tkc.load`."""

    def __init__(
        self,
        contract: Mapping[str, Any],
        ptx: str | None,
        *,
        cubin: bytes | None = None,
        module: Callable[[str | None], ModuleOp] | None = None,
        allow: Collection[str] = frozenset(),
    ) -> None:
        """`contract` is a KERNEL of `tkc.backend.package`; `module` gives the IR after a pass, where it can be had.

        `allow` names assembler notices to put up with in `cubin`, `sass`, and a launch that needs ptxas.
        """
        self.contract = dict(contract)
        self.allow = frozenset(allow)
        self._ptx = ptx
        self._cubin = cubin
        self._module = module
        self._assembly: Assembly | None = None
        self._launcher: Launcher | None = None

    @classmethod
    def of(cls, compiled: Compiled) -> Kernel:
        """The kernel that a run of the driver made. Raises TkcError TK120 where it made several."""
        job = compiled.job

        def module(after: str | None) -> ModuleOp:
            if after is None and compiled.module is not None:
                return compiled.module
            return compiled.again(after)

        kernels = compiled.contract["kernels"]
        return cls(choose(kernels, job.kernel, job.file), compiled.ptx, module=module)

    @property
    def name(self) -> str:
        """The kernel's name, which is its PTX entry."""
        return self.contract["entry"]

    @property
    def target(self) -> str:
        """Such as "sm_100a"."""
        return self.contract["target"]

    @property
    def params(self) -> dict[str, Any]:
        """Compile-time values, such as {"BM": 128}."""
        return dict(self.contract["params"])

    @property
    def ptx(self) -> str:
        """The PTX text; of a package that holds a cubin alone, TkcError TK411."""
        if self._ptx is None:
            raise TkcError.at(
                "TK411",
                f"the package of {self.name} holds no PTX, as one of a cubin; `-o NAME.ptx` makes one that does",
            )
        return self._ptx

    def __repr__(self) -> str:
        names = ", ".join(a["name"] for a in self.contract["arguments"])
        return f"<Kernel {self.name}({names}) for {self.target}>"

    def assembly(self) -> Assembly:
        """The cubin with registers, notices and the assembler's log; made once. Raises as `assemble`."""
        if self._assembly is None:
            from tkc.backend.assemble import assemble

            self._assembly = assemble(self.ptx, self.target, allow=self.allow)
        return self._assembly

    def cubin(self) -> bytes:
        """The machine code for `target`: the package's own, else assembled here. Raises as `assemble`."""
        if self._cubin is None:
            self._cubin = self.assembly().cubin
        return self._cubin

    def sass(self) -> str:
        """The disassembled machine code. Raises TkcError TK212 where no disassembler is."""
        from tkc.backend.sass import sass

        return sass(self.cubin())

    def module(self, after: str | None = None) -> ModuleOp:
        """The IR after the pass called `after` ("frontend": before any; None: after the last).

        Raises TkcError TK119 for a pass that did not run, TK110 for a loaded kernel, which has no IR.
        """
        if self._module is None:
            raise TkcError.at(
                "TK110",
                f"{self.name} was loaded from a package, which holds no IR; compile it to see its passes",
            )
        return self._module(after)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes `folder/<name>.ptx`, `.json`, and `.cubin` where one was made; returns the contract's path."""
        from tkc.backend.package import write_package

        contract: Mapping[str, Any] = {"kernels": [self.contract]}
        if self._assembly is not None:
            from tkc.backend.package import with_assembly

            contract = with_assembly(contract, self._assembly.registers, self._assembly.tool)
        return write_package(Path(folder) / self.name, contract, ptx=self._ptx, cubin=self._cubin)

    def launch(self, *arrays: Any, stream: Any = None, **symbols: Any) -> None:
        """Launches on the GPU that holds `arrays` and returns at once.

        Arrays speak DLPack or the CUDA array interface; arguments may be given by name; `symbols` are sizes that no
        array tells. `stream`: None is the current stream of the arrays' library, else the legacy default stream.
        Raises TkcError TK401..TK410, TK414 before anything is launched.
        """
        self.launcher().launch(arrays, symbols, stream)

    def launcher(self) -> Launcher:
        """The launcher, which keeps loaded modules and plans; made once."""
        if self._launcher is None:
            from tkc.backend.launch import Launcher

            self._launcher = Launcher(self.contract, self._ptx, self._cubin, allow=self.allow)
        return self._launcher

    def emulate(
        self,
        *arrays: Any,
        schedule: str = "eager",
        seed: int = 0,
        model: str = "practice",
        sm_count: int = EMULATED_SMS,
        max_steps: int | None = None,
        races: bool = True,
        runs: int = 1,
        **symbols: Any,
    ) -> Any:
        """Runs on the CPU, on NumPy arrays, and returns the emulator's Report.

        An array wrapped in `tkc.emulator.Poisoned` counts as never written. `sm_count` is what the launch grid is made
        for. Without `races` no happens-before record is kept. `runs` launches with as many seeds. Raises TkcError
        TK401..TK407, TK414.
        """
        launch = self.emulation(*arrays, sm_count=sm_count, **symbols)
        if launch is None:
            from tkc.emulator import Report

            return Report(ended=True)
        return _public().emulate(
            self.ptx,
            **launch,
            schedule=schedule,
            seed=seed,
            model=model,
            max_steps=max_steps,
            races=races,
            runs=runs,
        )

    def emulation(
        self, *arrays: Any, sm_count: int = EMULATED_SMS, **symbols: Any
    ) -> dict[str, Any] | None:
        """What `tkc.emulate` is to be called with beside the text; None where a size of 0 leaves nothing to launch.

        Outputs are then already as a launch leaves them. Raises as `emulate`.
        """
        from tkc.backend.arrays import view
        from tkc.backend.bind import bind, number
        from tkc.backend.gather import gather

        values, sizes = gather(self.contract, arrays, symbols)
        arguments = self.contract["arguments"]
        plain = [_plain(v) for v in values]
        views = [
            number(a["dtype"], v, a["name"])
            if a.get("scalar")
            else _list_on_device(v, a["name"])
            if a.get("list")
            else _on_device(view(v, a["name"]), v)
            for a, v in zip(arguments, plain, strict=True)
        ]
        x, y, z = self.contract["cluster"]["size"]
        facts = {"sm_count": sm_count, "max_clusters": sm_count // (x * y * z)}
        bound = bind(self.contract, views, sizes, facts.__getitem__)
        if bound.action != "launch":
            given = {a["name"]: v for a, v in zip(arguments, plain, strict=True)}
            for name in self.contract["outputs"] if bound.action == "zero" else ():
                for array in (
                    given[name] if isinstance(given[name], list | tuple) else [given[name]]
                ):
                    array[...] = 0
            return None
        return {
            "entry": self.name,
            "grid": bound.grid,
            "block": tuple(self.contract["block"]),
            **self._clusters(bound.grid),
            "shared_bytes": self.contract["shared_bytes"],
            "args": emulator_args(
                bound, {a["name"]: v for a, v in zip(arguments, values, strict=True)}
            ),
            "sm_count": sm_count,
            "dependent": bool(self.contract.get("attributes", {}).get("dependent")),
        }

    def _clusters(self, grid: Sequence[int]) -> dict[str, Any]:
        """The clusters that the launch asks for."""
        from tkc.backend.bind import clusters_for

        size, preferred = clusters_for(self.contract["cluster"], grid)
        larger = {} if preferred is None else {"preferred": tuple(preferred)}
        return {"cluster": tuple(size), **larger}


def _plain(value: Any) -> Any:
    """An array without `Poisoned` round it, or a list of such."""
    from tkc.emulator import Poisoned

    if isinstance(value, list | tuple):
        given = cast("Sequence[Any]", value)
        return [_plain(v) for v in given]
    return value.array if isinstance(value, Poisoned) else value


def _list_on_device(value: Any, name: str) -> Any:
    """The views of a list's arrays, as if a device had allocated each."""
    from tkc.backend.lists import Views, views

    seen = views(value, name)
    return Views(tuple(_on_device(v, a) for v, a in zip(seen.arrays, value, strict=True)))


def _on_device(seen: View, array: Any) -> View:
    """A view as if a device had allocated the memory that the array is a part of: a host aligns memory less."""
    whole = array
    while hasattr(getattr(whole, "base", None), "__array_interface__"):
        whole = whole.base
    start = getattr(whole, "__array_interface__", {"data": (0, False)})["data"][0]
    return seen._replace(address=DEVICE_ALIGN + seen.address - start if start else seen.address)


def emulator_args(bound: Bound, given: Mapping[str, Any]) -> list[Any]:
    """The kernel's parameters as `tkc.emulate` takes them: TensorMaps over the arrays, arrays for pointers, numbers."""
    import numpy as np

    from tkc.backend.bind import PointerValue, ScalarValue, ScratchValue, TensorMapsValue
    from tkc.emulator import Poisoned, TensorMaps
    from tkc.ir.isa.dtypes import DTYPES

    args: list[Any] = []
    for value in bound.values:
        if isinstance(value, ScalarValue):
            short = DTYPES[value.dtype].bits == 16  # a float of 16 bits goes as its bits
            args.append(int.from_bytes(value.data, "little") if short else value.value)
        elif isinstance(value, PointerValue):
            if value.offset:
                raise TkcError.at(
                    "TK110",
                    f"the emulator takes no pointer {value.offset} bytes into {value.argument}",
                )
            array = given[value.argument]
            if isinstance(
                array, np.generic
            ):  # of which the emulator would make a number, not memory
                array = np.asarray(given[value.argument])
            args.append(array)
        elif isinstance(value, ScratchValue):
            args.append(Poisoned(np.empty(value.bytes, np.uint8)))
        elif isinstance(value, TensorMapsValue):
            arrays = zip(value.maps, _each(given[value.argument]), strict=True)
            args.append(TensorMaps([_map(value.spec, one, array, 0) for one, array in arrays]))
        else:
            args.append(_map(value.spec, value.map, given[value.argument], value.offset))
    return args


def _each(value: Any) -> Any:
    """The arrays of a list: an array that stands for one is taken apart, poisoned or not."""
    from tkc.emulator import Poisoned

    return [Poisoned(v) for v in value.array] if isinstance(value, Poisoned) else value


def _map(spec: Mapping[str, Any], bound: BoundMap, array: Any, offset: int) -> Any:
    """A tensor map over an array, as the emulator takes it."""
    tiled = bound.tiled
    return _public().TensorMap(
        array,
        dtype=spec.get("type", spec["dtype"]),
        sizes=tiled.sizes,
        strides=tiled.strides,
        box=tiled.box,
        element_strides=tiled.element_strides,
        interleave=tiled.interleave,
        swizzle=tiled.swizzle,
        l2_promotion=bound.l2_promotion,
        fill=tiled.fill,
        offset=offset,
    )


def _public() -> Any:
    """The public names; the package imports this module, so it is fetched when a kernel needs it."""
    from importlib import import_module

    return import_module("tkc")


def load(path: str | os.PathLike[str], kernel: str | None = None) -> Kernel:
    """The kernel of a contract file (.json), or the one called `kernel` where it holds several.

    Raises TkcError TK411 for what is wrong with the files, TK120 for the choice of the kernel.
    """
    from tkc.backend.package import read_package

    package = read_package(path)
    chosen = choose(package.kernels, kernel, str(path))
    return Kernel(chosen, package.ptx, cubin=package.cubin)


def choose(kernels: Sequence[Mapping[str, Any]], name: str | None, where: str) -> Mapping[str, Any]:
    """The kernel called `name` of a contract, or its only one; TkcError TK120 where `where` has no such kernel."""
    names = [k["entry"] for k in kernels]
    if name is None:
        if len(kernels) > 1:
            raise TkcError.at(
                "TK120", f"{where} holds {len(names)} kernels, choose one: {', '.join(names)}"
            )
        return kernels[0]
    if name not in names:
        near = nearest(name, names)
        hint = f"; did you mean {near}?" if near else f"; there are {', '.join(names)}"
        raise TkcError.at("TK120", f"{where} holds no kernel {name}{hint}")
    return kernels[names.index(name)]

"""Explicit synchronisation to operations: of the tile level where tiles are named, else of the stage level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr, i1, i32
from xdsl.ir import Attribute, Operation, Region, SSAValue

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
from tkc.frontend import always
from tkc.frontend.sizes import label
from tkc.frontend.syntax import Span
from tkc.ir.interned import integer
from tkc.ir.stage import ops as s
from tkc.ir.stage.debugging import AssertOp, PrintOp
from tkc.ir.stage.elements import (
    AtomicOp,
    CopiesArriveOp,
    CopiesCommitOp,
    CopiesWaitOp,
    CopyElementsOp,
    LoadElementOp,
    StoreElementOp,
)
from tkc.ir.stage.explicit import (
    ClusterBarrierOp,
    FenceOp,
    GridLaunchOp,
    GridWaitOp,
    IdentityOp,
    MmaCommitOp,
    MmaFenceOp,
    NamedBarrierOp,
    RegistersOp,
    TryWaitOp,
    WhileOp,
)
from tkc.ir.stage.numbers import TYPES
from tkc.ir.stage.types import BarriersType
from tkc.ir.syntax import segments
from tkc.ir.tile import explicit as T
from tkc.ir.tile import ops as t
from tkc.ir.tile.scales import CopyScalesOp, ScaledMmaOp
from tkc.ir.tile.types import AccumType, BlockType, RegsType

if TYPE_CHECKING:
    from tkc.frontend.lower import _Kernel as Kernel


UNITS = {"rank": "rank", "unit": "index", "units": "count"}
"""What a CTA is, as `stage.unit` calls it."""


def barrier(k: Kernel, d: X.Barrier) -> SSAValue:
    """A declaration of barriers."""
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(d.name),
        "depth": integer(d.depth),
        "count": integer(d.count),
    }
    return k.value(s.BarriersOp, d.span, (), BarriersType(), properties, name=d.name)


# values


def place(k: Kernel, x: X.Place) -> SSAValue:
    """`a[slot]` as a slot of the tile."""
    tile = k.values[x.tile.name]
    index = k.expression(x.index)
    return k.value(T.SlotOp, x.span, [tile, index], tile.type, name=f"{x.tile.name}_slot")


def part(k: Kernel, x: X.Part) -> SSAValue:
    type = BlockType.of(x.size, label(x.extent))
    if not x.block:
        return k.value(T.BlockAtOp, x.span, [k.expression(x.index)], type)
    properties: dict[str, Attribute] = {"count": integer(x.count)}
    operands = [k.values[x.block], k.expression(x.index)]
    return k.value(T.PartAtOp, x.span, operands, type, properties)


def value(k: Kernel, x: Any) -> SSAValue:
    """A value that only explicit code has."""
    match x:
        case X.Number():
            return k.size(x.size, x.span)
        case X.Identity() if x.which in UNITS:
            of: dict[str, Attribute] = {"which": StringAttr(UNITS[x.which])}
            return k.value(s.UnitOp, x.span, (), i32, of, name=x.which)
        case X.Identity():
            which: dict[str, Attribute] = {"which": StringAttr(x.which)}
            return k.value(IdentityOp, x.span, (), i32, which, name=x.which)
        case X.BlockNumber():
            return k.value(T.BlockNumberOp, x.span, [k.values[x.block]], i32)
        case X.Element():
            properties = _ordered(x)
            if x.constant:
                properties["constant"] = UnitAttr()
            return k.value(LoadElementOp, x.span, _element(k, x.of), scalar(x.type), properties)
        case X.Atomic():
            return _atomic(k, x)
        case X.Attempt():
            operands, properties = _awaits(k, x, "try")
            return k.value(TryWaitOp, x.span, operands, i1, properties)
        case X.Choose():
            return _choose(k, x)
        case _:
            return _read(k, x)


def scalar(type: P.Scalar) -> Attribute:
    return TYPES[type.dtype]


def _choose(k: Kernel, x: X.Choose) -> SSAValue:
    def side(value: P.Value) -> Region:
        def fill(_: Sequence[SSAValue]) -> None:
            outer, k.made = k.made, dict(k.made)
            k.emit(s.YieldOp, x.span, [k.expression(value)])
            k.made = outer

        return k.region((), fill)

    condition = k.expression(x.condition)
    regions = [side(x.then), side(x.otherwise)]
    return k.emit(s.IfOp, x.span, [condition], [scalar(x.type)], region=regions).results[0]


def _element(k: Kernel, x: X.Spot | P.Slice) -> list[SSAValue]:
    """A tensor or a slot, and its indices."""
    if isinstance(x, X.Spot):
        return [place(k, x.place), *(k.expression(i) for i in x.indices)]
    return [k.values[x.tensor], *(k.index(i, x.span) for i in x.indices)]


def _ordered(x: X.Element | X.Atomic | X.StoreElement) -> dict[str, Attribute]:
    """The order and scope of an access, which each thread that comes to it makes."""
    return _named(sem=x.sem, scope=x.scope)


def _atomic(k: Kernel, x: X.Atomic) -> SSAValue:
    of, *indices = _element(k, x.of)
    given = [k.expression(v) for v in x.given]
    properties = {
        "kind": StringAttr(x.kind),
        **_ordered(x),
        **segments(1, len(given), len(indices)),
    }
    operands = [of, *given, *indices]
    return k.value(AtomicOp, x.span, operands, scalar(x.type), properties)


def _read(k: Kernel, x: X.ReadPlace) -> SSAValue:
    slot = place(k, x.place)
    type = RegsType.of(x.type.dtype, x.type.shape)
    column = k.size(0, x.span) if x.column is None else k.expression(x.column)
    nonzero = [] if x.nonzero is None else [k.expression(x.nonzero)]
    return k.value(
        T.ReadColumnsOp, x.span, [slot, column, *nonzero], type, name=f"{x.place.tile.name}_values"
    )


# statements


def statement(k: Kernel, x: Any) -> None:
    """One statement of explicit code."""
    STATEMENTS[type(x)](k, x)


def _entry(k: Kernel, x: X.Entry) -> list[SSAValue]:
    return [k.values[x.barrier.name], k.expression(x.index)]


def _wait(k: Kernel, x: X.Wait) -> None:
    operands, properties = _awaits(k, x, "wait")
    k.emit(s.MbarrierWaitOp, x.span, operands, properties={"by": StringAttr(x.by), **properties})


def _awaits(
    k: Kernel, x: X.Wait | X.Attempt, does: str
) -> tuple[list[SSAValue], dict[str, Attribute]]:
    """The barrier and the phase that are asked for, and how."""
    properties: dict[str, Attribute] = {"id": k.site(f"{does}.{x.entry.barrier.name}")}
    if (x.sem, x.scope) != ("acquire", "cta"):
        properties |= {"sem": StringAttr(x.sem), "scope": StringAttr(x.scope)}
    return [*_entry(k, x.entry), k.expression(x.parity)], properties


def _arrive(k: Kernel, x: X.Arrive) -> None:
    properties: dict[str, Attribute] = {
        "by": StringAttr(x.by),
        "id": k.site(f"arrive.{x.entry.barrier.name}"),
    }
    if x.count != 1:
        properties["count"] = integer(x.count)
    if (x.sem, x.scope) != ("release", "cta"):
        properties |= {"sem": StringAttr(x.sem), "scope": StringAttr(x.scope)}
    operands = [*_entry(k, x.entry), *_some(k, x.rank)]
    k.emit(s.MbarrierArriveOp, x.span, operands, properties=properties)


def _some(k: Kernel, x: P.Value | None) -> list[SSAValue]:
    return [] if x is None else [k.expression(x)]


def _expect(k: Kernel, x: X.Expect) -> None:
    properties: dict[str, Attribute] = {
        "bytes": integer(x.bytes),
        "by": StringAttr("one"),
        "id": k.site(f"expect.{x.entry.barrier.name}"),
    }
    operands = [*_entry(k, x.entry), *_some(k, x.rank)]
    k.emit(s.MbarrierExpectOp, x.span, operands, properties=properties)


def _load(k: Kernel, x: X.Load) -> None:
    source = k.place(x.source)
    mask, rank = _some(k, x.mask), _some(k, x.rank)
    operands = [source, place(k, x.destination), *_entry(k, x.entry), *mask, *rank]
    properties = {**_named(hint=x.hint), **segments(1, 1, 1, 1, len(mask), len(rank))}
    if x.bulk:
        properties["bulk"] = UnitAttr()
    k.emit(T.TmaLoadOp, x.span, operands, properties=properties)


def _prefetch(k: Kernel, x: X.Prefetch) -> None:
    k.emit(T.TmaPrefetchOp, x.span, [k.place(x.source)], properties=_named(hint=x.hint))


def _named(**texts: str) -> dict[str, Attribute]:
    return {name: StringAttr(text) for name, text in texts.items() if text}


def _store(k: Kernel, x: X.Store) -> None:
    destination = k.place(x.destination)
    properties = _named(reduce=x.reduce, hint=x.hint)
    if x.bulk:
        properties["bulk"] = UnitAttr()
    k.emit(T.TmaStoreOp, x.span, [place(k, x.source), destination], properties=properties)


def _fill(k: Kernel, x: X.Fill) -> None:
    source = k.expression(x.source)
    k.emit(t.CopyOp, x.span, [source, place(k, x.destination)])


def _store_element(k: Kernel, x: X.StoreElement) -> None:
    operands = [k.expression(x.value), *_element(k, x.of)]
    k.emit(StoreElementOp, x.span, operands, properties=_ordered(x))


def _do(k: Kernel, x: X.Do) -> None:
    k.expression(x.value)


def _print(k: Kernel, x: X.Print) -> None:
    format: dict[str, Attribute] = {"format": StringAttr(x.format)}
    k.emit(PrintOp, x.span, [k.expression(v) for v in x.values], properties=format)


def _assert(k: Kernel, x: X.Assert) -> None:
    told: dict[str, Attribute] = {"told": StringAttr(x.told), "by": StringAttr(x.by)}
    k.emit(AssertOp, x.span, [k.expression(x.condition)], properties=told)


def _commit(k: Kernel, x: X.CommitEntry) -> None:
    properties: dict[str, Attribute] = {"id": k.site(f"commit.{x.entry.barrier.name}")}
    if x.reads:
        properties["reads"] = UnitAttr()
    operands = [*_entry(k, x.entry), *_some(k, x.mask)]
    k.emit(s.Tcgen05CommitOp, x.span, operands, properties=properties)


_GROUPS: dict[str, type[Any]] = {
    "commit stores": s.BulkCommitOp,
    "wait stores": s.BulkWaitOp,
    "commit products": MmaCommitOp,
    "wait products": T.ProductsWaitOp,
    "fence products": MmaFenceOp,
    "commit copies": CopiesCommitOp,
    "wait copies": CopiesWaitOp,
}


def _group(k: Kernel, x: X.Group) -> None:
    properties: dict[str, Attribute] = {"id": k.site(x.what.replace(" ", "."))}
    if x.what.startswith("wait"):
        properties["pending"] = integer(x.pending)
    if x.read:
        properties["read"] = UnitAttr()
    k.emit(_GROUPS[x.what], x.span, properties=properties)


def _fence(k: Kernel, x: X.Fence) -> None:
    properties: dict[str, Attribute] = {"id": k.site("fence")}
    if x.kind == "proxy" and x.of != "alias":
        properties |= {"space": StringAttr(x.of), "guards": ArrayAttr([]), "by": StringAttr(x.by)}
        k.emit(s.ProxyFenceOp, x.span, properties=properties)
    elif x.kind == "tcgen05":
        properties |= {"side": StringAttr(x.of), "by": StringAttr(x.by)}
        k.emit(s.Tcgen05FenceOp, x.span, properties=properties)
    else:
        properties |= {"sem": StringAttr(x.kind), "scope": StringAttr(x.of)}
        k.emit(FenceOp, x.span, properties=properties)


def _sync(k: Kernel, x: X.Sync) -> None:
    properties: dict[str, Attribute] = {"id": k.site(f"sync.{x.what}")}
    if x.what == "role":
        k.emit(s.RoleBarrierOp, x.span, properties=properties)
    elif x.what == "warp":
        k.emit(s.WarpSyncOp, x.span, properties=properties)
    else:
        properties["number"] = integer(x.number)
        if x.threads:
            properties["threads"] = integer(x.threads)
        if not x.waits:
            properties["arrives"] = UnitAttr()
        k.emit(NamedBarrierOp, x.span, properties=properties)


def _cluster(k: Kernel, x: X.ClusterBarrier) -> None:
    properties: dict[str, Attribute] = {"does": StringAttr(x.does), "id": k.site("cluster")}
    k.emit(ClusterBarrierOp, x.span, properties={**properties, **_named(sem=x.sem)})


def _grid(k: Kernel, x: X.Grid) -> None:
    properties: dict[str, Attribute] = {"id": k.site(f"pdl.{x.does}"), "by": StringAttr(x.by)}
    k.emit(GridWaitOp if x.does == "wait" else GridLaunchOp, x.span, properties=properties)


def product(
    k: Kernel, span: Span, d: SSAValue, a: SSAValue, b: SSAValue, how: dict[str, Attribute]
) -> None:
    """A product of two shared tiles, or of one in tensor memory and a shared one."""
    if not isinstance(a.type, AccumType):
        k.emit(t.MmaOp, span, [d, a, b], properties=how)
        return
    from tkc.ir.tile.tensor_operands import TensorMmaOp  # few kernels have one

    rest = {name: value for name, value in how.items() if name != "trans_a"}
    k.emit(TensorMmaOp, span, [d, a, b], properties=rest)


def _product(k: Kernel, x: X.Product) -> None:
    d = place(k, x.d)
    a, b = place(k, x.a), place(k, x.b)
    if x.keep is not None:
        k.emit(T.RestartOp, x.span, [d, k.expression(x.keep)])
    pair: dict[str, Attribute] = {"pair": UnitAttr()} if x.pair else {}
    if x.scales is not None:
        of_a, of_b = (place(k, scales) for scales in x.scales)
        k.emit(ScaledMmaOp, x.span, [d, a, of_a, b, of_b], properties=pair)
        return
    properties: dict[str, Attribute] = {
        "trans_a": integer(int(x.a.transposed)),
        "trans_b": integer(int(x.b.transposed)),
        "alone": UnitAttr(),
        **pair,
    }
    product(k, x.span, d, a, b, properties)


def _multiply(k: Kernel, s: P.Multiply) -> None:
    """A product that is spelled out, of tiles in an open pipe."""
    assert s.spelled is not None
    accumulator, keep = s.spelled
    d = place(k, accumulator)
    a, b = (k.values[x] if isinstance(x, str) else place(k, x) for x in (s.a, s.b))
    if keep is not None:
        k.emit(T.RestartOp, s.span, [d, k.expression(keep)])
    properties: dict[str, Attribute] = {
        "trans_a": integer(int(s.transpose_a)),
        "trans_b": integer(int(s.transpose_b)),
        "alone": UnitAttr(),
    }
    product(k, s.span, d, a, b, properties)


def _copy_scales(k: Kernel, x: X.CopyPlaces) -> None:
    pair: dict[str, Attribute] = {"pair": UnitAttr()} if x.pair else {}
    k.emit(CopyScalesOp, x.span, [place(k, x.source), place(k, x.destination)], properties=pair)


def _cluster_copy(k: Kernel, x: X.ClusterCopy) -> None:
    places = [place(k, x.source), place(k, x.destination)]
    k.emit(T.ClusterCopyOp, x.span, [*places, *_entry(k, x.entry), k.expression(x.rank)])


def _registers(k: Kernel, x: X.Registers) -> None:
    properties: dict[str, Attribute] = {"action": StringAttr(x.action), "count": integer(x.count)}
    k.emit(RegistersOp, x.span, properties=properties)


# regions

Fill = Callable[[Sequence[SSAValue]], None]


def _yielding(k: Kernel, body: P.Body, names: Sequence[str], span: Span) -> Fill:
    """Fills a region with a body, whose first names become the region's last arguments, and which yields them."""

    def fill(arguments: Sequence[SSAValue]) -> None:
        outer = dict(k.values)
        if arguments:
            k.values.update(zip(names, arguments[len(arguments) - len(names) :], strict=True))
        k.body(body)
        k.emit(s.YieldOp, span, [k.values[n] for n in names])
        k.values = outer

    return fill


def _arguments(k: Kernel, names: Sequence[str], span: Span) -> list[tuple[str, Attribute, Span]]:
    return [(n, k.values[n].type, span) for n in names]


def _elect(k: Kernel, x: X.Elect) -> None:
    scope: dict[str, Attribute] = {"scope": StringAttr(x.scope)}
    elected = k.value(s.ElectedOp, x.span, (), i1, scope, name="elected")
    region = k.region((), _yielding(k, x.body, (), x.span))
    k.emit(s.IfOp, x.span, [elected], region=region)


def _if(k: Kernel, x: X.If) -> None:
    names = k.flow.names(x)
    condition = k.expression(x.condition)
    holds = always.known(condition, k.counters)
    if holds is not None:
        outer = dict(k.values)
        k.body(x.then if holds else x.otherwise)
        k.values = outer | {n: k.values[n] for n in names}
        return
    types: list[Attribute] = []
    then = k.region((), _yielding(k, x.then, names, x.span))
    last = then.block.last_op
    assert last is not None
    types += [v.type for v in last.operands]
    regions = [then]
    if x.otherwise or names:
        regions.append(k.region((), _yielding(k, x.otherwise, names, x.span)))
    op = k.emit(s.IfOp, x.span, [condition], types, region=regions)
    k.bind(names, op)


def _while(k: Kernel, x: X.While) -> None:
    names = k.flow.names(x)
    inits = [k.values[n] for n in names]
    arguments = _arguments(k, names, x.span)

    def test(given: Sequence[SSAValue]) -> None:
        outer = dict(k.values)
        k.values.update(zip(names, given, strict=True))
        k.emit(s.YieldOp, x.span, [k.expression(x.condition)])
        k.values = outer

    regions = [k.region(arguments, test), k.region(arguments, _yielding(k, x.body, names, x.span))]
    op = k.emit(WhileOp, x.span, inits, [v.type for v in inits], region=regions)
    k.bind(names, op)


def _range(k: Kernel, x: X.Range) -> None:
    names = k.flow.names(x)
    bounds = [k.expression(e) for e in (x.lower, x.upper, x.step)]
    inits = [k.values[n] for n in names]
    arguments = [(x.variable, i32, x.span), *_arguments(k, names, x.span)]
    inner = _yielding(k, x.body, names, x.span)

    def fill(given: Sequence[SSAValue]) -> None:
        outer = k.values.get(x.variable)
        k.values[x.variable] = given[0]
        if isinstance(x.step, X.Number) and isinstance(x.step.size, int) and x.step.size > 0:
            k.counters[given[0]] = bounds[0], bounds[1]
        inner(given)
        if outer is not None:
            k.values[x.variable] = outer

    region = k.region(arguments, fill)
    op = k.emit(s.ForOp, x.span, [*bounds, *inits], [v.type for v in inits], region=region)
    k.bind(names, op)


def turn(k: Kernel, x: P.Transfer, names: Sequence[str], make: Any) -> Operation:
    """The item where it is the role's turn; elsewhere it passes, and variables stay as they are."""
    kind, pipes, types, body = make
    assert x.turn is not None
    index, count = x.turn
    which: dict[str, Attribute] = {
        "index": integer(index),
        "count": integer(count),
    }
    mine = k.value(t.TurnOp, x.span, pipes, i1, which, name="turn")

    def take(_: Sequence[SSAValue]) -> None:
        made = k.emit(kind, x.span, pipes, types, region=body)
        k.emit(s.YieldOp, x.span, list(made.results))

    def skip(_: Sequence[SSAValue]) -> None:
        k.emit(t.SkipOp, x.span, pipes)
        k.emit(s.YieldOp, x.span, [k.values[n] for n in names])

    regions = [k.region((), take), k.region((), skip)]
    return k.emit(s.IfOp, x.span, [mine], types, region=regions)


def _copy_elements(k: Kernel, x: X.CopyElements) -> None:
    tensor, *start = _element(k, x.source)
    tile, *indices = _element(k, x.of)
    properties = {"bytes": integer(x.bytes), **segments(1, len(start), 1, len(indices))}
    k.emit(CopyElementsOp, x.span, [tensor, *start, tile, *indices], properties=properties)


def _arrive_copies(k: Kernel, x: X.ArriveCopies) -> None:
    properties: dict[str, Attribute] = {"id": k.site(f"arrive.{x.entry.barrier.name}")}
    if x.uncounted:
        properties["uncounted"] = UnitAttr()
    k.emit(CopiesArriveOp, x.span, _entry(k, x.entry), properties=properties)


STATEMENTS: dict[type, Callable[[Kernel, Any], None]] = {
    X.Wait: _wait, X.Arrive: _arrive, X.Expect: _expect, X.Load: _load, X.Store: _store, X.Fill: _fill,
    X.CommitEntry: _commit, X.Group: _group, X.Fence: _fence, X.Sync: _sync, X.Product: _product,
    P.Multiply: _multiply,
    X.CopyPlaces: _copy_scales, X.CopyElements: _copy_elements, X.ArriveCopies: _arrive_copies,
    X.ClusterBarrier: _cluster, X.ClusterCopy: _cluster_copy, X.Grid: _grid, X.Prefetch: _prefetch,
    X.StoreElement: _store_element, X.Do: _do, X.Print: _print, X.Assert: _assert,
    X.Registers: _registers, X.Elect: _elect, X.If: _if, X.While: _while, X.Range: _range,
}  # fmt: skip

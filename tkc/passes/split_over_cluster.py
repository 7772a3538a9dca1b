"""Split the work of a cluster over its CTAs, before anything asks how large a CTA's tiles are.

Before: a kernel's launch says `cluster` or `pair`; a schedule's item is one CTA's (`cluster`) or both CTAs' (`pair`).
After: an item is the whole cluster's, and each CTA's share of it is a `tile.share`. In a pair, tiles have the extents
that one CTA holds (R15). Copies that are the same in all CTAs say `multicast`, products of a pair `pair`.
Here because: layouts, depths and warps are chosen for the tiles of one CTA; afterwards a cluster differs from one CTA
only in where its barriers are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
    UnitAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tkc.analysis.roles import accumulator_home, slot_owner, slots_of
from tkc.diagnostics import Diagnostic, Note, Severity, TargetError, TkcError, report
from tkc.ir.isa.layouts import SCALE_ATOM_ROWS
from tkc.ir.isa.targets import Feature, Target, targets_with
from tkc.ir.locations import location_of
from tkc.ir.stage.elements import AtomicOp, LoadElementOp
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.structure import PAIR, ForOp, IfOp, UnitOp, YieldOp
from tkc.ir.stage.types import Home
from tkc.ir.target import target_of
from tkc.ir.tile import ops as t
from tkc.ir.tile.explicit import ReadColumnsOp, SlotOp, TmaStoreOp
from tkc.ir.tile.loops import ForPartsOp, ForSpanOp, ShareOp
from tkc.ir.tile.scales import CopyScalesOp, ScaledMmaOp
from tkc.ir.tile.tensor_operands import TensorMmaOp
from tkc.ir.tile.types import AccumType, BlockType, RegsType, ScaleAttr, SharedType, SliceType
from tkc.ir.tile.vectors import LoadOp, MaskOp, ReduceOp, ReshapeOp, TotalOp, TransposeOp

PAIR_ROWS = 256
"""Rows of a pair's product of which each CTA holds one in each lane of its tensor memory (PTX 9.7.18.10.5.1)."""


@dataclass(frozen=True)
class SplitOverClusterPass(ModulePass):
    """`split-over-cluster`."""

    name = "split-over-cluster"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, t.KernelOp)]:
            check_sizes(kernel, target_of(op))
            if {"pair", "cluster"} <= {*kernel.launch.data}:
                split_pairs(kernel, target_of(op))
            elif "pair" in kernel.launch.data:
                split_pair(kernel, target_of(op))
            elif "cluster" in kernel.launch.data:
                split_schedules(kernel, target_of(op), ctas_of(kernel))


def check_sizes(kernel: t.KernelOp, target: Target) -> None:
    """Clusters that the target takes, and what fixed ones cost: some of its multiprocessors have no part in one."""
    sizes = {
        c: kernel.launch.data[c]
        for c in ("cluster", "minimum", "preferred")
        if c in kernel.launch.data
    }
    for clause, size in sizes.items():
        assert isinstance(size, IntegerAttr)
        ctas = size.value.data
        if ctas > target.max_cluster:
            raise TargetError.at(
                "TK202",
                f"a cluster of {ctas} CTAs: {target.name} takes {target.max_cluster}",
                location_of(kernel),
            )
        fixed = "minimum" if "minimum" in sizes else "cluster"
        if clause == fixed:
            _tell_idle(kernel, target, ctas)
    if "preferred" in sizes and not target.has({Feature.PREFERRED_CLUSTER}):
        kernel.launch = DictionaryAttr(
            {c: v for c, v in kernel.launch.data.items() if c != "preferred"}
        )
        report(
            Diagnostic(
                "TK219",
                f"{target.name} has no {Feature.PREFERRED_CLUSTER}: clusters have the smaller size",
                location_of(kernel),
                Severity.REMARK,
            )
        )


def _tell_idle(kernel: t.KernelOp, target: Target, ctas: int) -> None:
    known = target.residency
    active = known.active.get(ctas) if known is not None else None
    if known is None or active is None:
        return
    idle = known.multiprocessors - active
    report(
        Diagnostic(
            "TK230",
            f"clusters of {ctas} CTAs leave {idle} of the {known.multiprocessors} multiprocessors of a "
            f"{known.gpu} idle ({active} have work, {active / known.multiprocessors:.0%})",
            location_of(kernel),
            Severity.WARNING,
            help=f"smaller clusters, or `cluster(2, preferred = {ctas})`, which fills the rest with clusters of 2",
        )
    )


def _require_clusters(kernel: t.KernelOp, target: Target) -> None:
    if not target.has({Feature.CLUSTER}):
        raise TargetError.at(
            "TK202",
            f"a cluster needs {Feature.CLUSTER}; {target.name} has none",
            location_of(kernel),
        )


# A cluster: each CTA has an item of its own --------------------------------------------------------------------------


def ctas_of(kernel: t.KernelOp) -> int:
    """CTAs of a cluster, as the launch says."""
    count = kernel.launch.data["cluster"]
    assert isinstance(count, IntegerAttr)
    return count.value.data


def split_schedules(kernel: t.KernelOp, target: Target, ctas: int, of: str | None = None) -> None:
    """Items of a schedule become the cluster's: as many blocks of one axis as it has CTAs, or pairs where they are
    `of` such."""
    _require_clusters(kernel, target)
    for schedule in [o for o in kernel.body.block.ops if isinstance(o, t.ScheduleOp)]:
        _widen(schedule, ctas, of)
    for copy in [o for o in kernel.walk() if isinstance(o, t.CopyOp) and o.multicast is not None]:
        _check_equal(copy)
    for loop in [o for o in kernel.walk() if isinstance(o, ForPartsOp)]:
        if _by_rank(loop.within):
            raise TkcError.at(
                "TK110",
                "a loop over the blocks of a block that differs between the CTAs of a cluster is not supported yet",
                location_of(loop),
            )


def _widen(schedule: t.ScheduleOp, ctas: int, of: str | None) -> None:
    """`ctas` blocks of the axis that the CTAs lie across make one item; in a loop each CTA takes its share of them."""
    assert schedule.across is not None
    axis = schedule.across.value.data
    sizes = [n.value.data for n in schedule.sizes]
    size = sizes[axis]
    sizes[axis] *= ctas
    schedule.properties["sizes"] = ArrayAttr([IntegerAttr(n, i32) for n in sizes])
    if axis == len(sizes) - 2:  # bands of rows cover as much as they did
        group = max(1, schedule.group.value.data // ctas)
        schedule.properties["group"] = IntegerAttr(group, i32)
    for loop in [u.operation for u in schedule.work.uses]:
        assert isinstance(loop, t.ForTilesOp)
        block = loop.body.block.args[axis]
        assert isinstance(block.type, BlockType)
        small, extent = block.type, block.type.extent.data
        whole = Rewriter.replace_value_with_new_type(block, BlockType.of(size * ctas, extent))
        share = ShareOp.create(operands=[whole], properties=_share_of(of), result_types=[small])
        share.location = loop.location
        share.part.name_hint, whole.name_hint = whole.name_hint, None
        whole.replace_uses_with_if(share.part, lambda use, new=share: use.operation is not new)
        first = loop.body.block.first_op
        assert first is not None
        loop.body.block.insert_op_before(share, first)


def _share_of(of: str | None) -> dict[str, Attribute]:
    return {} if of is None else {"of": StringAttr(of)}


def _by_rank(value: SSAValue) -> bool:
    """Whether a value may differ between the CTAs of a cluster: it is made of a share, of the CTA's rank, of what
    the kernel writes, or of a tile's elements."""
    todo, seen = [value], {value}
    while todo:
        at = todo.pop()
        made = at.owner
        match made:
            case ShareOp() | AtomicOp() | TotalOp() | UnitOp(which=StringAttr(data="rank")):
                return True
            case LoadElementOp() if made.constant is None:
                return True
            case Block():
                loop = made.parent_op()
                known = isinstance(loop, ForSpanOp | ForPartsOp | ForOp | WhileOp)
                if isinstance(
                    loop, t.ForTilesOp | t.ForBlocksOp
                ):  # what it carries, not what it counts
                    known = at.index >= len(made.args) - len(loop.results)  # type: ignore[union-attr]
                sources = _sources(loop) if known else []
            case _:
                sources = _sources(made)
        new = [v for v in sources if v not in seen]
        seen.update(new)
        todo += new
    return False


def _sources(op: Operation) -> list[SSAValue]:
    """What an operation's values are made of: of one with regions, what these hand on, too."""
    ends = [r.block.last_op for r in op.regions if r.blocks]
    return [
        *op.operands,
        *(v for end in ends if isinstance(end, YieldOp | t.YieldOp) for v in end.operands),
    ]


def _check_equal(copy: t.CopyOp) -> None:
    """A slice that is loaded for all CTAs has the same indices in all of them, and is loaded as often (R15)."""
    slice = copy.source.owner
    assert isinstance(slice, t.SliceOp)
    for index in slice.indices:
        if _by_rank(index):
            name = f"block {index.name_hint}" if index.name_hint else "this block"
            raise TkcError.at(
                "TK109",
                f"{name} differs between the CTAs of the cluster, so one copy cannot serve them all; "
                "a copy without `multicast` fits",
                location_of(copy),
            )
    around = copy.parent_op()
    while around is not None and not isinstance(around, t.RoleOp):
        tests = [v for v in around.operands if v.type in (i1, i32)]
        if isinstance(around, WhileOp):
            tests = (
                list(around.test.block.last_op.operands[:1]) if around.test.block.last_op else []
            )
        loops = IfOp | ForOp | WhileOp | ForPartsOp | ForSpanOp
        if isinstance(around, loops) and any(map(_by_rank, tests)):
            raise TkcError.at(
                "TK109",
                "this copy is for the whole cluster, and not all of its CTAs come to it",
                location_of(copy),
                Note("this differs between the CTAs", location_of(around)),
            )
        around = around.parent_op()


# A pair: both CTAs work on one item ----------------------------------------------------------------------------------


def split_pairs(kernel: t.KernelOp, target: Target) -> None:
    """A cluster of pairs: items become the cluster's, and each pair's share of one the two CTAs' of the pair."""
    if accumulator_home(target) is not Home.TENSOR:
        raise TargetError.at(
            "TK202",
            f"a cluster of pairs needs {Feature.TCGEN05}; {target.name} has none",
            location_of(kernel),
            help=targets_with({Feature.TCGEN05}),
        )
    split_schedules(kernel, target, ctas_of(kernel) // PAIR, "pair")
    split_pair(kernel, target, "half")


def split_pair(kernel: t.KernelOp, target: Target, of: str | None = None) -> None:
    """Each CTA of the pair gets half of each accumulator's rows, and what it takes of everything else for that."""
    _require_clusters(kernel, target)
    for op in [o for o in kernel.walk() if isinstance(o, TensorMmaOp)]:
        raise TkcError.at(
            "TK110",
            "the product of a pair with an operand in tensor memory is not supported yet: a `shared` tile is one",
            location_of(op),
        )
    for op in [o for o in kernel.walk() if isinstance(o, SlotOp)]:
        _check_slot(op)
    split = Split(kernel, accumulator_home(target) is Home.TENSOR, of)
    for mma in [o for o in kernel.walk() if isinstance(o, t.MmaOp | ScaledMmaOp)]:
        split.product(mma)
    split.spread()
    split.check()
    split.apply()
    if split.joint:
        from tkc.passes.splitting.leaders import part_leaders

        part_leaders(kernel)
    launch = dict(kernel.launch.data)
    launch.setdefault("cluster", IntegerAttr(PAIR, i32))
    if not split.joint:
        del launch["pair"]
    kernel.launch = DictionaryAttr(launch)


STAGED = (t.CopyOp, t.ReadOp, ReadColumnsOp, TmaStoreOp)
"""What uses a pair's slot that the program numbers: registers on their way out, of which each CTA has half."""


def _check_slot(op: SlotOp) -> None:
    """TK110 where both CTAs of a pair would have to agree about a slot: its bytes, barriers and elements are of one."""
    for use in op.slot.uses:
        if not isinstance(use.operation, STAGED) or not isinstance(op.tile.type, SharedType):
            raise TkcError.at(
                "TK110",
                "slots by number in a pair, whose tiles are split over its CTAs, are not supported yet but for what "
                "registers store (`c[i] <- x`, `store C[m, n] <- c[i]`); `launch cluster(2)` with tiles of one CTA, "
                "and `mma ..., pair`, fit",
                location_of(use.operation),
            )


Shaped = AccumType | SharedType | RegsType | SliceType


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, Shaped)
    return tuple(int(n) for n in value.type.shape)


@dataclass
class Split:
    """Which axis of which value is split over the CTAs; `joint`: products take the operands of both CTAs."""

    kernel: t.KernelOp
    joint: bool
    of: str | None = None
    axes: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    whole: list[SSAValue] = field(default_factory=list[SSAValue])
    scaled_whole: list[SSAValue] = field(default_factory=list[SSAValue])
    """Tiles of which each CTA has half of the rows but all of the scales, where they have scales."""
    scaled_half: list[SSAValue] = field(default_factory=list[SSAValue])
    """Tiles of which each CTA has half of both."""
    todo: list[SSAValue] = field(default_factory=list[SSAValue])

    def product(self, mma: t.MmaOp | ScaledMmaOp) -> None:
        """Rows of d and a are split; columns of b where the product takes both CTAs' halves, else b is in both.

        Scales lie along K, and each CTA has all of b's (PTX 9.7.18.10.7): so has its tile of b.
        """
        plain = isinstance(mma, t.MmaOp)
        self.mark(mma.d, 0, mma)
        self.mark(mma.a, mma.trans_a.value.data if plain else 0, mma)
        if self.joint:
            self.mark(mma.b, 1 - mma.trans_b.value.data if plain else 0, mma)
            self.scaled_whole += slots_of(slot_owner(mma.b))
            self.scaled_half.append(mma.a)
            mma.pair = UnitAttr()
        else:
            self.whole += slots_of(slot_owner(mma.b))

    def mark(self, value: SSAValue, axis: int, op: Operation) -> None:
        """The value is split along an axis; TK110 where it already is along another."""
        known = self.axes.setdefault(value, axis)
        if known != axis:
            raise TkcError.at(
                "TK110",
                "a tile that the two CTAs of a pair would split both by rows and by columns is not supported yet",
                location_of(op),
            )
        if value not in self.todo:
            self.todo.append(value)

    def spread(self) -> None:
        """What is joined to a value that is split is split, until nothing changes."""
        done: dict[SSAValue, None] = {}
        while self.todo:
            value = self.todo.pop()
            if value in done:
                continue
            done[value] = None
            axis = self.axes[value]
            if isinstance(value.type, SharedType | AccumType):
                for slot in slots_of(slot_owner(value)):
                    if slot not in self.axes:
                        self.mark(slot, axis, self.kernel)
            elif isinstance(value.owner, Operation):
                self._through(value.owner, value, axis)
            for joined in _carried_with(value):
                self.mark(joined, axis, self.kernel)
            for use in list(value.uses):
                self._through(use.operation, value, axis)

    def _through(self, op: Operation, value: SSAValue, axis: int) -> None:
        """Marks what an operation joins to one of its operands or results."""
        match op:
            case t.CopyOp():
                self.mark(op.destination if value is op.source else op.source, axis, op)
            case CopyScalesOp():
                self._scales(op, value)
            case t.ReadOp() | ReadColumnsOp():
                self.mark(op.value if value is op.tile else op.tile, axis, op)
            case TmaStoreOp():
                self.mark(op.destination if value is op.source else op.source, axis, op)
            case LoadOp():
                self.mark(op.value if value is op.slice else op.slice, axis, op)
            case t.CastOp() | MaskOp():
                self.mark(op.value if value is op.source else op.source, axis, op)
                if isinstance(op, MaskOp) and op.otherwise is not None:
                    self.mark(op.otherwise, axis, op)
            case TransposeOp():
                self.mark(op.value if value is op.source else op.source, 1 - axis, op)
            case ReshapeOp():
                other = op.value if value is op.source else op.source
                place = [i for i, n in enumerate(_shape(value)) if n != 1].index(axis)
                self.mark(other, [i for i, n in enumerate(_shape(other)) if n != 1][place], op)
            case t.MapOp():
                for x in (*op.operands_, op.value):
                    if isinstance(x.type, RegsType) and _shape(x)[axis] != 1:
                        self.mark(x, axis, op)
            case ReduceOp():
                if axis == op.axis:
                    raise TkcError.at(
                        "TK110",
                        "a reduction along the axis that a pair splits is not supported yet",
                        location_of(op),
                    )
                self.mark(op.value if value is op.source else op.source, axis, op)
            case TotalOp():
                raise TkcError.at(
                    "TK110",
                    "a number of a tile whose rows a cluster splits is not supported yet: each CTA has its own rows",
                    location_of(op),
                )
            case _:
                pass

    def _scales(self, copy: CopyScalesOp, value: SSAValue) -> None:
        """Scales of a tile that is split by rows are split so, too, unless each CTA has all of them."""
        copy.pair = UnitAttr() if self.joint else None
        if value is copy.destination:
            return
        if value not in self.scaled_whole:
            self.mark(copy.destination, 0, copy)

    def check(self) -> None:
        """Extents that two CTAs can share, and stores that only one of them makes."""
        for accum in [o for o in self.kernel.body.block.ops if isinstance(o, t.AccumOp)]:
            rows = _shape(accum.tile)[0]
            if self.joint and accum.tile in self.axes and rows % PAIR_ROWS:
                raise TkcError.at(
                    "TK203",
                    f"accumulator {accum.sym_name.data} has {rows} rows; a pair's product takes a multiple of "
                    f"{PAIR_ROWS}",
                    location_of(accum),
                )
        for value in self.scaled_half:
            scale = value.type.scale if isinstance(value.type, SharedType) else NoneAttr()
            if isinstance(scale, ScaleAttr) and value in self.scaled_whole:
                raise TkcError.at(
                    "TK110",
                    "a block-scaled tile that is an operand of products on both sides, of whose scales a CTA of a pair "
                    "has half for one side and all for the other, is not supported yet",
                    location_of(slot_owner(value).owner),  # type: ignore[arg-type]
                )
        for value in self.whole:
            if value in self.axes:
                raise TkcError.at(
                    "TK110",
                    "a tile that is an operand of products on both sides, of which each CTA of a pair has half of the "
                    "rows but all of the columns, is not supported yet",
                    location_of(slot_owner(value).owner),  # type: ignore[arg-type]
                )
        for value, axis in self.axes.items():
            scale = value.type.scale if isinstance(value.type, SharedType) else NoneAttr()
            rows = _shape(value)[0]
            if (
                isinstance(scale, ScaleAttr)
                and value not in self.scaled_whole
                and rows % (PAIR * SCALE_ATOM_ROWS)
            ):
                raise TkcError.at(
                    "TK203",
                    f"a tile of {rows} rows with block scales: each CTA of a pair has half of them, and scales come in "
                    f"{SCALE_ATOM_ROWS} rows, so a pair takes a multiple of {PAIR * SCALE_ATOM_ROWS}",
                    location_of(slot_owner(value).owner),  # type: ignore[arg-type]
                )
            if _shape(value)[axis] % PAIR:
                raise TkcError.at(
                    "TK104",
                    f"{value.type} is split over a pair along an axis of {_shape(value)[axis]}, which is odd",
                    location_of(self.kernel),
                )
        for copy in [o for o in self.kernel.walk() if isinstance(o, t.CopyOp | TmaStoreOp)]:
            if isinstance(copy.destination.type, SliceType) and copy.destination not in self.axes:
                raise TkcError.at(
                    "TK110",
                    "both CTAs of a pair would store this: only what comes of an accumulator's rows is split over "
                    "them; anything else is not supported yet",
                    location_of(copy),
                    Note("the kernel is launched in pairs", location_of(self.kernel)),
                )

    def apply(self) -> None:
        for value, axis in self.axes.items():
            if isinstance(value.owner, t.SliceOp):
                _take_share(value.owner, axis, self.of)
            if isinstance(value.owner, MaskOp):
                _mask_share(value.owner, axis, self.of)
            half = _halved(value.type, axis, value in self.scaled_whole)
            Rewriter.replace_value_with_new_type(value, half)
        for slot in self.whole:
            for use in slot.uses:
                if isinstance(use.operation, t.CopyOp) and isinstance(
                    use.operation.source.type, SliceType
                ):
                    use.operation.multicast = UnitAttr()


def _carried_with(value: SSAValue) -> list[SSAValue]:
    """The values that a loop or block makes of this one, or it of them: initial, carried, yielded, resulting."""
    found: list[SSAValue] = []

    def of(op: Operation, index: int) -> None:
        """What value number `index` of an operation with regions is, in all its places."""
        carried = len(op.results)
        found.append(op.results[index])
        for number, region in enumerate(op.regions):
            args, last = region.block.args, region.block.last_op
            assert last is not None
            if not (isinstance(op, WhileOp) and number == 0):  # which yields its condition
                found.append(last.operands[index])
            if not isinstance(op, t.PutOp | t.GetOp | IfOp):
                found.append(args[len(args) - carried + index])
        if not isinstance(op, t.PutOp | t.GetOp | IfOp):
            found.append(op.operands[len(op.operands) - carried + index])

    if not isinstance(value.type, RegsType):
        return found
    if isinstance(value.owner, Operation):
        if value.owner.regions:
            of(value.owner, value.index)  # type: ignore[attr-defined]
    elif (op := value.owner.parent_op()) is not None:
        of(op, value.index - len(value.owner.args) + len(op.results))  # type: ignore[attr-defined]
    for use in value.uses:
        op = use.operation
        if isinstance(op, t.YieldOp | YieldOp) and (outer := op.parent_op()) is not None:
            of(outer, use.index)
        elif op.regions:
            of(op, use.index - len(op.operands) + len(op.results))
    return found


def _take_share(slice: t.SliceOp, axis: int, of: str | None) -> None:
    """The CTA's share of the block that indexes a slice's axis."""
    blocks = [i for i, index in enumerate(slice.indices) if isinstance(index.type, BlockType)]
    slice.operands[1 + blocks[axis]] = _own_block(slice.indices[blocks[axis]], slice, of)


def _mask_share(mask: MaskOp, axis: int, of: str | None) -> None:
    """The CTA's share of the block that an axis of a masked tile is."""
    block = (mask.row, mask.column)[axis]
    if block is not None:
        place = 1 if axis == 0 or mask.row is None else 2
        mask.operands[place] = _own_block(block, mask, of)


def _own_block(index: SSAValue, op: Operation, of: str | None) -> SSAValue:
    """The CTA's share of a block, made before an operation."""
    assert isinstance(index.type, BlockType)
    half = BlockType.of(index.type.size.data // PAIR, index.type.extent.data)
    share = ShareOp.create(operands=[index], properties=_share_of(of), result_types=[half])
    share.location = op.location
    share.part.name_hint = index.name_hint
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(share, op)
    return share.part


def _halved(type: Attribute, axis: int, all_scales: bool) -> Attribute:
    assert isinstance(type, Shaped)
    shape = [int(n) // PAIR if i == axis else int(n) for i, n in enumerate(type.shape)]
    scale = type.scale if isinstance(type, SharedType | SliceType) else NoneAttr()
    if all_scales and isinstance(scale, ScaleAttr):
        scale = ScaleAttr.of(*scale.kind, int(type.shape[0]))
    match type:
        case SharedType():
            return SharedType.of(type.dtype.data, shape, type.depth.data, type.swizzle.data, scale)
        case AccumType():
            return AccumType.of(type.dtype.data, shape, type.depth.data)
        case RegsType():
            return RegsType.of(type.dtype.data, shape)
        case SliceType():
            return SliceType.of(type.dtype.data, shape, scale)

"""Whether an item of an accumulator got any product (R7): where not, who reads it takes zeros instead.

The role that makes the products knows it by making them. Who reads finds it from the conditions and loops, which are
the same in both roles (R6): those of the kernel's own level are found once a kernel, all others are computed again
where the item is got, in loops that do nothing else where it takes loops.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tkc.analysis.guards import varies
from tkc.analysis.roles import slot_owner
from tkc.analysis.sharing import block_of, shares_place
from tkc.diagnostics import TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.numbers import NumberOp
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.stage.types import Home
from tkc.ir.tile import ops as t
from tkc.ir.tile.explicit import BlockNumberOp, PartAtOp
from tkc.ir.tile.loops import ForPartsOp, ForSpanOp, IndexOp, PartOp, ShareOp
from tkc.ir.tile.scales import ScaledMmaOp
from tkc.ir.tile.tensor_operands import TensorMmaOp
from tkc.passes.placement.state import Placement

Product = t.MmaOp | ScaledMmaOp | TensorMmaOp
Blocks = t.ForBlocksOp | ForSpanOp
Loop = t.ForTilesOp | Blocks | ForPartsOp | s.ForOp
FORMULAS = (SizeOp, ConstOp, ArithOp, NumberOp, PartOp, ShareOp, IndexOp, PartAtOp, BlockNumberOp)
"""What conditions and bounds are made of, where all roles can compute them."""


def nonzero(p: Placement, read: t.ReadOp) -> list[SSAValue]:
    """Whether the item that is read got any product: nothing where it surely did, else a condition."""
    known = p.role.sums.get(read.tile)
    if known is not None:
        return [known]
    if block_of(read.tile) is not None and shares_place(slot_owner(read.tile)):
        from tkc.passes.placement.keeping import products_of

        return _joined(p, products_of(p, read.tile, read))
    products = _products(p, read.tile)
    if products is None:
        return []
    if not products and block_of(read.tile) is not None:  # the put clears it, and that is all
        return [p.emit.arith("lt", p.emit.const(0), p.emit.const(0))]
    return _joined(p, products)


def check_condition(p: Placement, product: Product) -> None:
    """TK121 where only some threads would come to a product whose synchronisation is the compiler's."""
    spelled_out = isinstance(product, t.MmaOp | TensorMmaOp) and product.alone is not None
    if spelled_out or block_of(product.d) is None:
        return
    for op in _round(product):
        if isinstance(op, s.IfOp) and varies(p.values[op.condition]):
            raise TkcError.at(
                "TK121",
                "this condition is another one in each thread, and a product is of all threads of its role: conditions "
                "of sizes, arguments, blocks and their numbers are the same in all",
                location_of(product),
            )


def check_written(p: Placement, product: Product) -> None:
    """TK110 where products go to tensor memory that threads of the same role write in the same block, for which they
    would have to meet."""
    numbered = isinstance(product.d.owner, Operation)
    if p.home is not Home.TENSOR or numbered or not _is_set(product.d):
        return
    raise TkcError.at(
        "TK110",
        f"not supported yet on {p.target.name}: a product into an accumulator that registers are written to in the "
        "same block: it begins with 0, and what is added stands where it is read, as in `read(d) + x`; or one role "
        "writes it in a put, and another gets it and adds the products",
        location_of(product),
    )


def find(p: Placement, get: t.GetOp) -> None:
    """Computes the conditions of a get's items that are not of the kernel's own level, where the get begins."""
    for slot in get.body.block.args:
        read = next((u.operation for u in slot.uses if isinstance(u.operation, t.ReadOp)), None)
        if not isinstance(slot_owner(slot).type, t.AccumType) or read is None:
            continue
        if shares_place(slot_owner(slot)):
            continue
        products = _products(p, slot)
        if products is None:
            continue
        if all(_simple(p, product) for product in products) or any(map(_surely, products)):
            continue  # found where it is read
        p.role.sums[slot] = _again(p, get, products)


def _products(p: Placement, slot: SSAValue) -> list[Product] | None:
    """The products of an item: of all puts where their conditions are the same, else of the put that corresponds; None
    where registers are written to it."""
    accum = slot_owner(slot)
    by_put: dict[SSAValue, list[Product]] = {}
    for op in p.kernel.walk():
        if isinstance(
            op, t.PutOp
        ):  # of another producer, which fills other tiles, nothing is asked
            slots = (x for x in op.body.block.args if slot_owner(x) is accum)
            by_put |= {x: [] for x in slots if x.uses.get_length()}
        elif isinstance(op, Product) and slot_owner(op.d) is accum:
            by_put.setdefault(op.d, []).append(op)
    found = [op for ops in by_put.values() for op in ops]
    sure = [_is_set(put) or any(map(_surely, ops)) for put, ops in by_put.items()]
    if len(by_put) < 2 or all(sure):
        return None if any(map(_is_set, by_put)) else found
    alike = {frozenset(tuple(_trips(op)) for op in ops) for ops in by_put.values()}
    if len(alike) == 1 and all(_simple(p, op) for op in found) and not any(sure):
        return found
    put = _corresponding(p, slot, list(by_put))
    return None if _is_set(put) else by_put[put]


def _is_set(put: SSAValue) -> bool:
    """Whether registers are written to a slot of a put."""
    users = (use.operation for use in put.uses)
    return any(isinstance(op, t.CopyOp) and op.destination is put for op in users)


def _corresponding(p: Placement, slot: SSAValue, puts: list[SSAValue]) -> SSAValue:
    """Of several puts of one pipe, the slot of the one whose items this get has: they come in one order (R6)."""
    get = block_of(slot)
    accum = slot_owner(slot)
    gets = [
        arg
        for op in p.kernel.walk()
        if isinstance(op, t.GetOp) and _role(op) is _role(get)
        for arg in op.body.block.args
        if slot_owner(arg) is accum
    ]
    put = puts[gets.index(slot)] if len(gets) == len(puts) else None
    if put is None or _placed(get) != _placed(block_of(put)):
        raise TkcError.at(
            "TK110",
            f"not supported yet: items of a pipe are put in {len(puts)} places, whose products may be none under "
            f"unlike conditions, and got in {len(gets)}: as many gets, in the same loops, conditions and order, tell "
            "which is which",
            location_of(get),
        )
    return put


def _role(op: Operation | None) -> Operation | None:
    while op is not None and not isinstance(op, t.RoleOp):
        op = op.parent_op()
    return op


def _round(op: Operation | None) -> Iterable[Operation]:
    """What stands round an operation in its role, inside out."""
    parent = op.parent_op() if op is not None else None
    while parent is not None and not isinstance(parent, t.RoleOp):
        yield parent
        parent = parent.parent_op()


def _loops(op: Operation | None) -> list[Operation]:
    """The loops round an item, from the outermost on."""
    found = [one for one in _round(op) if not isinstance(one, t.PutOp | t.GetOp | s.IfOp)]
    return found[::-1]


def _placed(op: Operation | None) -> Hashable:
    """The loops and conditions round an item as formulas: equal for a put and its get that are written alike."""
    loops = {one: depth for depth, one in enumerate(_loops(op))}
    known: dict[SSAValue, Hashable] = {}

    def formula(value: SSAValue) -> Hashable:
        todo = [value]
        while todo:
            x = todo[-1]
            if isinstance(x, BlockArgument):
                owner = x.owner.parent_op()
                known[x] = (loops.get(owner, owner), x.index)  # type: ignore[arg-type]
            elif left := [o for o in x.owner.operands if o not in known]:  # type: ignore[union-attr]
                todo += left
                continue
            else:
                made = x.owner
                assert isinstance(made, Operation)
                own = tuple((name, str(what)) for name, what in sorted(made.properties.items()))
                known[x] = (made.name, own, *(known[o] for o in made.operands))
            todo.pop()
        return known[value]

    found: list[Hashable] = []
    at = op
    for one in _round(op):
        if not isinstance(one, t.PutOp | t.GetOp):
            arm = isinstance(one, s.IfOp) and at is not None and _first_arm(one, at)
            own = {name: str(what) for name, what in one.properties.items()}
            found.append((one.name, arm, *sorted(own.items()), *map(formula, one.operands)))
        at = one
    return tuple(found)


def _first_arm(op: s.IfOp, inside: Operation) -> bool:
    """Whether an operation stands in the first arm of a condition."""
    at = inside
    while at.parent_op() is not op:
        parent = at.parent_op()
        assert parent is not None
        at = parent
    return at.parent_region() is op.then


def _path(product: Product) -> list[Operation]:
    """What stands between an item and a product in it and may leave it out, from the outermost on."""
    found: list[Operation] = []
    for parent in _round(product):
        if isinstance(parent, t.PutOp) and product.d.owner is parent.body.block:
            break
        if not isinstance(parent, t.PutOp | t.GetOp):
            found.append(parent)
    return found[::-1]


# Conditions of the kernel's own level --------------------------------------------------------------------------------


def _trips(product: Product) -> list[SSAValue]:
    """The extents of the loops between an item and a product in it: none of them empty, and the product runs."""
    return [op.extent for op in reversed(_path(product)) if isinstance(op, Blocks)]


def _surely(product: Product) -> bool:
    return all(isinstance(op, ForPartsOp) for op in _path(product))


def _simple(p: Placement, product: Product) -> bool:
    """Whether no more than extents that the kernel knows from the start say that the product runs."""
    for op in _path(product):
        if isinstance(op, ForPartsOp):
            continue
        if not isinstance(op, Blocks) or (isinstance(op, ForSpanOp) and op.some is None):
            return False
        if not _at_kernel_level(p, op.extent):
            return False
    return True


def _at_kernel_level(p: Placement, value: SSAValue) -> bool:
    block = value.owner if isinstance(value, BlockArgument) else value.owner.parent_block()  # type: ignore[union-attr]
    return block is p.kernel.body.block


def _joined(p: Placement, products: Iterable[Product]) -> list[SSAValue]:
    result: SSAValue | None = None
    for op in products:
        if _surely(op):
            return []
        if not _simple(p, op):
            raise TkcError.at(
                "TK110",
                "not supported yet: a sum that several pipes share, or that is read outside of a get, of products "
                "that a condition or a `where` may leave out: `where` with one block wherever the axis has one, "
                "such as `causal.any(m, j)`, fits, or the condition round the put and the gets",
                location_of(op),
            )
        condition: SSAValue | None = None
        for extent in _trips(op):
            some = p.some(p.values[extent])
            condition = some if condition is None else p.emit.arith("and", condition, some)
        assert condition is not None
        if result is None:
            result = condition
        elif result is not condition:
            result = p.emit.arith("or", result, condition)
    return [] if result is None else [result]


# Conditions computed again -------------------------------------------------------------------------------------------


def _again(p: Placement, get: t.GetOp, products: list[Product]) -> SSAValue:
    """A condition in the role of a get, from conditions and bounds of the role of the put."""
    before = p.values
    p.values = dict(before)
    try:
        found: SSAValue | None = None
        for product in products:
            one = _Again(p, get, product).some(_path(product))
            found = one if found is None else p.emit.arith("or", found, one)
        assert found is not None
        return p.emit.arith("lt", p.emit.const(0), found, hint="some")
    finally:
        p.values = before


class _Again:
    """Places formulas of the putting role in another, with the loop variables of that."""

    def __init__(self, p: Placement, get: t.GetOp, product: Product) -> None:
        self.p = p
        self.product = product
        self.placed: set[SSAValue] = set()
        put = block_of(product.d)
        here, there = _loops(get), _loops(put)
        if _placed(get) != _placed(put):
            self._fail(
                "loops or conditions round the put are written otherwise than those round the get"
            )
        for mine, its in zip(here, there, strict=True):
            if isinstance(its, Loop) and isinstance(mine, Loop):
                count = len(its.body.block.args) - len(its.results)
                for old, new in zip(
                    its.body.block.args[:count], mine.body.block.args, strict=False
                ):
                    self._bind(old, p.values[new])

    def _fail(self, why: str) -> None:
        raise TkcError.at(
            "TK110",
            f"not supported yet: whether the item gets any product is not known where it is read: {why}; conditions "
            "and bounds of sizes, arguments, blocks, their numbers and `const` tensors are, or the condition stands "
            "round the put and the get",
            location_of(self.product),
        )

    def _bind(self, old: SSAValue, new: SSAValue) -> None:
        self.p.values[old] = new
        self.placed.add(old)

    def _value(self, value: SSAValue) -> SSAValue:
        """A formula, computed here."""
        from tkc.passes.placement.statements import statement

        todo = [value]
        while todo:
            x = todo[-1]
            if x in self.placed or _at_kernel_level(self.p, x):
                todo.pop()
                continue
            op = x.owner
            same = isinstance(op, LoadElementOp) and op.constant is not None
            if not isinstance(op, FORMULAS) and not same:
                self._fail("it depends on what only the role of the products knows")
            assert isinstance(op, Operation)
            left = [
                o for o in op.operands if o not in self.placed and not _at_kernel_level(self.p, o)
            ]
            if left:
                todo += left
                continue
            statement(self.p, op)
            self.placed.update(op.results)
            todo.pop()
        return self.p.values[value]

    def some(self, path: list[Operation]) -> SSAValue:
        """1 where all loops and conditions of a path let the product run at least once, else 0."""
        emit = self.p.emit
        if not path:
            return emit.const(1)
        op, rest = path[0], path[1:]
        if isinstance(op, ForPartsOp) and not self._needs(rest, op):
            return self.some(rest)
        if isinstance(op, s.IfOp):
            holds = self._value(op.condition)
            inside = _first_arm(op, rest[0] if rest else self.product)
            return self._where(holds, rest, not inside)
        if isinstance(op, WhileOp) and not self._needs(rest, op):
            return self._where(self._begins(op), rest, False)
        if not isinstance(op, Loop) or isinstance(op, t.ForTilesOp):
            self._fail("it stands in a loop of another kind")
        assert isinstance(op, Loop)
        first, last, step = self._bounds(op)
        if not self._needs(rest, op):
            return self._where(emit.arith("lt", first, last), rest, False)
        body = Block(arg_types=[i32, i32])
        with emit.inside(body):
            self._bind(op.body.block.args[0], body.args[0])
            one = emit.arith("or", body.args[1], self.some(rest))
            emit.add(s.YieldOp.create(operands=[one]))
        loop = s.ForOp.create(
            operands=[first, last, step, emit.const(0)], regions=[Region(body)], result_types=[i32]
        )
        return emit.value(loop)

    def _begins(self, op: WhileOp) -> SSAValue:
        """Whether a `while` turns once."""
        for old, new in zip(op.test.block.args, op.inits, strict=True):
            self._bind(old, self._value(new))
        last = op.test.block.last_op
        assert last is not None
        return self._value(last.operands[0])

    def _where(self, holds: SSAValue, rest: list[Operation], otherwise: bool) -> SSAValue:
        emit = self.p.emit
        arms: list[Region] = []
        for runs in (not otherwise, otherwise):
            body = Block()
            with emit.inside(body):
                made = self.some(rest) if runs else emit.const(0)
                emit.add(s.YieldOp.create(operands=[made]))
            arms.append(Region(body))
        return emit.value(s.IfOp.create(operands=[holds], regions=arms, result_types=[i32]))

    def _bounds(self, op: t.ForBlocksOp | ForSpanOp | ForPartsOp | s.ForOp) -> tuple[SSAValue, ...]:
        from tkc.passes.placement.statements import bounds

        operands = op.operands[:3] if isinstance(op, s.ForOp) else op.operands
        for value in operands:
            if value not in op.results:
                self._value(value)
        return bounds(self.p, op)

    def _needs(self, rest: list[Operation], loop: Operation) -> bool:
        """Whether what is left of a path is computed of a loop's variables."""
        todo = [o for op in rest for o in op.operands]
        seen: set[SSAValue] = set()
        while todo:
            x = todo.pop()
            if x in seen:
                continue
            seen.add(x)
            if isinstance(x, BlockArgument):
                if x.owner.parent_op() is loop:
                    return True
            elif isinstance(x.owner, Operation):
                todo += x.owner.operands
        return False

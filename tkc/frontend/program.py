"""The checked program: every name resolved, every shape and dtype known, ready to become operations."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tkc.frontend.sizes import Size
from tkc.frontend.syntax import Span
from tkc.ir.tile.types import OPERAND

if TYPE_CHECKING:
    from collections.abc import Iterable

    Reshaped: TypeAlias = "Reduce | Total | Fill | Reshape | Transpose | Keep | Where"
    Value: TypeAlias = "Constant | Given | Held | Variable | Read | Load | Cast | Apply | Reshaped"
    Statement: TypeAlias = "Set | Clear | Multiply | Move | Each | Blocks | Transfer"
    Body: TypeAlias = "tuple[Statement, ...]"
else:  # NamedTuple would compile each annotation that is text
    Value = Statement = Body = object

# --- types of register values ---


class Regs(NamedTuple):
    """A tile in registers, a vector `[n]`, or one that knows its place: one row `[1, n]` or one column `[n, 1]`."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


class Scalar(NamedTuple):
    """One number that every thread holds."""

    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype} scalar"


Type = Regs | Scalar

# --- declarations ---


class Tensor(NamedTuple):
    """`scale`: the dtype of its block scales, and the elements of a block. Nobody writes a `const` one. One that is
    `listed` is as many tensors as its first axis says. `major`: the contiguous axis where it is not the last."""

    name: str
    dtype: str
    dims: tuple[int | str, ...]
    span: Span
    scale: tuple[str, int] | None = None
    const: bool = False
    listed: bool = False
    major: int | None = None


class Maps(NamedTuple):
    """`maps A: edited * 2`: so many tensor maps of a list, which the kernel itself keeps for the group at hand."""

    tensor: Tensor
    depth: int
    span: Span


class Held(NamedTuple):
    """The one element of a tensor without axes, which a role reads once, when it begins."""

    name: str
    type: Scalar
    span: Span


class Given(NamedTuple):
    """A scalar argument: a value, too, where it is f32."""

    name: str
    type: Scalar
    span: Span


class Axis(NamedTuple):
    """`blocks(extent, size)`, or, `single`, an extent alone: its variable is an integer."""

    extent: Size
    size: int
    single: bool = False


class Bounds(NamedTuple):
    """The first block of a loop and the one past its last; `some`: there is one wherever the axis has one; `far`: what
    `last` is of items that have blocks at all."""

    first: Value
    last: Value
    some: bool
    far: Value


class Order(NamedTuple):
    """`order = longest_first`: all items of one block of an axis before those of the next, or of the one before it."""

    axis: int
    descending: bool


class Schedule(NamedTuple):
    name: str
    axes: tuple[Axis, ...]
    group: int
    span: Span
    across: int | None = None
    serpentine: bool = False
    order: Order | None = None


class Tile(NamedTuple):
    """A ring of shared tiles, or of accumulators; one of accumulators that has a `scale` holds block scales. `within`:
    the tile in whose place it is. `scale_rows`: how many rows' scales it has, where these are more than its own."""

    name: str
    accumulator: bool
    dtype: str
    shape: tuple[int, ...]
    depth: int
    span: Span
    scale: tuple[str, int] | None = None
    within: str | None = None
    scale_rows: int = 0

    @property
    def operand(self) -> bool:
        """Whether it lies in tensor memory for products to take as their first operand."""
        return self.accumulator and self.scale is None and self.dtype == OPERAND


class Pipe(NamedTuple):
    """`after`: the pipes by which the last item of a slot goes on, and whose release a put awaits, too."""

    name: str
    tiles: tuple[Tile, ...]
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    span: Span
    turns: bool = False
    after: tuple[str, ...] = ()


# --- values ---


class Constant(NamedTuple):
    """An f32 constant."""

    value: float
    span: Span
    type: Scalar = Scalar("f32")


class Variable(NamedTuple):
    name: str
    type: Type
    span: Span


class Read(NamedTuple):
    tile: str
    type: Regs
    span: Span


class Cast(NamedTuple):
    operand: Value
    type: Regs
    span: Span


class Apply(NamedTuple):
    """An operation by the kinds of `tile.map`, or, where its type is a scalar, of `stage.arith`."""

    kind: str
    operands: tuple[Value, ...]
    type: Type
    span: Span


class Part(NamedTuple):
    """`m.part(i, n)`: the i-th n-th of a loop's block."""

    block: str
    index: int
    count: int


class Load(NamedTuple):
    """`read(bias[n])`."""

    slice: "Slice"
    type: Regs
    span: Span


class Reduce(NamedTuple):
    """`row_sum(x)`, `col_sum(x)`: a kind of `tile.reduce`; its type has 1 where it is reduced. `block` is the loop
    variable that the columns of x are a block of."""

    kind: str
    operand: Value
    type: Regs
    span: Span
    block: str | Part | None = None
    extent: Size | None = None


class Total(NamedTuple):
    """`tile_sum(x)`: a number of one value a row, by a kind of `tile.total`."""

    kind: str
    operand: Value
    span: Span
    type: Scalar = Scalar("f32")


class Test(NamedTuple):
    """A condition on where an element stands: the sum of position times factor, over blocks of the given sizes, is less
    than `limit`, or one of the `others` holds."""

    terms: tuple[tuple[str | Part, int, int], ...]
    limit: Value
    span: Span
    others: tuple["Test", ...] = ()


POSITIONS = Scalar("positions")
"""The type of `f32(n)` of a block, which is a tile where one stands beside it."""


class Positions(NamedTuple):
    """`f32(m - n)`: of the one test the sum of positions times factor, less its limit; it stands beside no tile yet."""

    tests: tuple[Test, ...]
    span: Span
    type: Scalar = POSITIONS


class Beside(NamedTuple):
    """An elementwise operation on positions, before it stands beside a tile."""

    kind: str
    operands: tuple[Value, ...]
    span: Span
    type: Scalar = POSITIONS


class Keep(NamedTuple):
    """`x if n <= m else 0` of a tile: a number where a test does not hold, before the blocks are known as axes; or
    `positions` of its elements as numbers."""

    operand: Value
    tests: tuple[Test, ...]
    fill: float
    type: Regs
    span: Span
    positions: bool = False


class Where(NamedTuple):
    """The operand where a test holds, which says which block each axis is of and with what factor; elsewhere
    `otherwise`, the same operand by another test, or where there is none `fill`. With `positions` the sum less the
    limit, as numbers."""

    operand: Value
    blocks: tuple[str | Part | None, str | Part | None]
    factors: tuple[int, int]
    limit: Value
    fill: float
    type: Regs
    span: Span
    otherwise: "Where | None" = None
    positions: bool = False


class Fill(NamedTuple):
    """A scalar in every element."""

    scalar: Value
    type: Regs
    span: Span


class Reshape(NamedTuple):
    """The same elements, with axes of 1 put in or left out."""

    operand: Value
    type: Regs
    span: Span


class Transpose(NamedTuple):
    """`x.T` of a register tile, which goes to a copy."""

    operand: Value
    type: Regs
    span: Span


class Slice(NamedTuple):
    """`A[m, k]`: an index is the name of a block variable, a part of one, or a size in a tuple of one."""

    tensor: str
    indices: tuple[str | Part | tuple[Size], ...]
    dtype: str
    shape: tuple[int, ...]
    span: Span
    scale: tuple[str, int] | None = None


# --- statements ---


class Set(NamedTuple):
    name: str
    value: Value
    span: Span


class Mask(NamedTuple):
    """`mask x where j <= m`: elements of a variable that fail a test count as nothing (R24)."""

    name: str
    tests: tuple[Test, ...]
    span: Span


class Clear(NamedTuple):
    """`d = 0`."""

    tile: str
    span: Span


class Stay(NamedTuple):
    """`keep d`: a put that leaves a tile as it is."""

    tile: str
    span: Span


class Multiply(NamedTuple):
    """`d += a @ b`, each operand with whether it is transposed; `fresh` where it is `d = a @ b`.

    `spelled` is of `mma d[i] += a @ b, keep`: the slot of the accumulator, which `d` does not name, and the condition;
    an operand that is no name is then a slot that the program numbers.
    """

    d: str
    a: Any
    transpose_a: bool
    b: Any
    transpose_b: bool
    fresh: bool
    span: Span
    scales: tuple[str, str] | None = None
    spelled: tuple[Any, Value | None] | None = None


class CopyScales(NamedTuple):
    """`sa <- a.scales`: block scales from a shared tile to tensor memory."""

    destination: str
    source: str
    span: Span


class Move(NamedTuple):
    """`destination <- source`, or `+=` where `add`; a str is a shared tile. `multicast`: for the whole cluster.
    `hint`: a priority in the L2 cache."""

    destination: Slice | str
    source: Slice | str | Value
    span: Span
    add: bool = False
    multicast: bool = False
    hint: str = ""


class Each(NamedTuple):
    """`for m, n in work:`."""

    schedule: Schedule
    variables: tuple[str, ...]
    body: Body
    span: Span


class Blocks(NamedTuple):
    """`for k in blocks(K, BK):`; `within` is the block in whose place the extent stands, `bounds` those of a schedule
    with arguments."""

    axis: Axis
    variable: str
    body: Body
    span: Span
    within: str | None = None
    bounds: Bounds | None = None


class Transfer(NamedTuple):
    """`put` or `get` of pipes; `tiles` are the names that the body knows their tiles by, pipe by pipe.

    `turn`: which of how many roles this one is, where items go to one after another and others pass.
    """

    direction: str
    pipes: tuple[Pipe, ...]
    tiles: tuple[str, ...]
    body: Body
    span: Span
    turn: tuple[int, int] | None = None


class Role(NamedTuple):
    name: str
    warps: int | None
    registers: int | None
    body: Body
    span: Span


class Require(NamedTuple):
    """What the launch must find true: an expression of the contract, and what to say where it is not."""

    test: Any
    message: str


class Kernel(NamedTuple):
    name: str
    arguments: tuple[Tensor | Given, ...]
    params: dict[str, int]
    launch: tuple[str, ...]
    declarations: tuple[Schedule | Tile | Pipe | Maps, ...]
    roles: tuple[Role, ...]
    span: Span
    requires: tuple[Require, ...] = ()
    ctas: int = 1
    sizes: Mapping[str, int] = MappingProxyType({})
    """CTAs of clusters that hold several units: the `minimum` of all, and `preferred` where as many are free."""


class Product(NamedTuple):
    """`a @ b`, each tile with whether it is transposed; `scales` where the program says where those are."""

    a: Tile
    transpose_a: bool
    b: Tile
    transpose_b: bool
    shape: tuple[int, int]
    span: Span
    scales: tuple[Tile, Tile] | None = None


class Scales(NamedTuple):
    """`a.scales`, `a[slot].scales`: the block scales in a slot of a shared tile."""

    tile: Any
    span: Span


class Scaled(NamedTuple):
    """`a.scaled(sa)`, `a[slot].scaled(sa[slot])`: a tile whose block scales are in a slot of tensor memory."""

    tile: Any
    scales: Any
    span: Span


class Transposed(NamedTuple):
    tile: Tile | Scaled
    span: Span


def bodies(s: Any) -> "tuple[Body, ...]":
    """The bodies in a statement: of a loop, a put or get, an election, or the two of a condition."""
    if hasattr(s, "body"):
        return (s.body,)
    return (s.then, s.otherwise) if hasattr(s, "otherwise") else ()


def set_in(inside: "Iterable[Body]") -> set[str]:
    """The variables that bodies set."""
    found: set[str] = set()
    for body in inside:
        for s in body:
            if isinstance(s, Set):
                found.add(s.name)
            found |= set_in(bodies(s))
    return found

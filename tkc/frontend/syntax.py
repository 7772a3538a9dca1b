"""The syntax tree: what was written and where, before any name has a meaning.

Named tuples rather than dataclasses: as frozen, and a sixth of the cost at start-up (0.06 ms a class). Annotations are
evaluated, since NamedTuple would compile each that is text. Positions count from 1; `end_column` is one past the last
character.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    Expression: TypeAlias = (
        "Name | Integer | Real | Text | Unary | Binary | Choice | Call | Index | Attribute"
    )
    Simple: TypeAlias = "Copy | Assign | Update | Evaluate | Words"
    Compound: TypeAlias = "Role | For | Transfer | Branch"
    Statement: TypeAlias = (
        "Assertion | Return | Param | Launch | Schedule | Declare | Pipe | Maps | Compound | Simple"
    )
    Block: TypeAlias = "tuple[Statement, ...]"
else:
    Expression = Statement = Block = object


class Span(NamedTuple):
    """From a first character to one past the last."""

    line: int
    column: int
    end_line: int
    end_column: int


class Elsewhere(Span):
    """A place in another file than the kernel's: `source` is that file."""

    source: Any


class Word(NamedTuple):
    """A name where it stands as one: declared, or named by a statement."""

    text: str
    span: Span


# --- expressions ---


class Name(NamedTuple):
    text: str
    span: Span


class Text(NamedTuple):
    """`"a text"`: what `print` and `assert` say."""

    text: str
    span: Span


class Integer(NamedTuple):
    value: int
    span: Span


class Real(NamedTuple):
    value: float
    span: Span


class Unary(NamedTuple):
    """`-x`, `+x`, `not x`."""

    operator: str
    operand: Expression
    span: Span


class Binary(NamedTuple):
    """`x + y`, `x @ y`, `x < y`, `x and y`."""

    operator: str
    left: Expression
    right: Expression
    span: Span


class Choice(NamedTuple):
    """`x if condition else y`."""

    then: Expression
    condition: Expression
    otherwise: Expression
    span: Span


class Argument(NamedTuple):
    """`x` or `name = x`, in a call, an index or a `for`."""

    name: Word | None
    value: Expression


class Call(NamedTuple):
    function: Expression
    arguments: tuple[Argument, ...]
    span: Span


class Index(NamedTuple):
    """`A[m, k]`, and `tile[bf16, BM, BK]`: types are expressions."""

    base: Expression
    arguments: tuple[Argument, ...]
    span: Span


class Attribute(NamedTuple):
    base: Expression
    name: Word
    span: Span


class Reference(NamedTuple):
    """`s` or `s[i]`: a tile, pipe or role, or one of several."""

    name: Word
    part: Expression | None
    span: Span


# --- statements ---


class Instead(NamedTuple):
    """`on(sm_90) 128` of a param: its value for some families of chips; of none for all others."""

    families: tuple[Word, ...]
    value: Expression
    span: Span


class Binding(NamedTuple):
    """`BN = 256, on(sm_90) 128`; `instead` are the values that `chips.chosen` did not take, once it has run."""

    name: Word
    value: Expression
    instead: tuple[Instead, ...] = ()


class Param(NamedTuple):
    """`param BM = 128, BN = 256`."""

    bindings: tuple[Binding, ...]
    span: Span


class Launch(NamedTuple):
    """`launch persistent`."""

    clauses: tuple[Expression, ...]
    span: Span


class Schedule(NamedTuple):
    """`schedule work: m, n in tiles(...)`, `schedule keys(m): j in blocks(...) where ...`."""

    name: Word
    given: tuple[Word, ...]
    axes: tuple[Word, ...]
    value: Expression
    where: Expression | None
    span: Span


class Declare(NamedTuple):
    """`shared a, b: tile[...] * 4` and `accum p[2]: tile[...] in s`; `kind` is the first word."""

    kind: str
    names: tuple[Reference, ...]
    type: Expression
    within: Reference | None
    span: Span


class Pipe(NamedTuple):
    """`pipe inputs(a, b): load -> math`; `turns` are the two words that may follow."""

    name: Reference
    tiles: tuple[Reference, ...]
    producers: tuple[Reference, ...]
    consumers: tuple[Reference, ...]
    turns: tuple[Word, Word] | None
    span: Span


class Maps(NamedTuple):
    """`maps A, C: edited * 2`."""

    names: tuple[Word, ...]
    value: Expression
    span: Span


class Setting(NamedTuple):
    """`warps 4`, `on(sm_90) warps 8`; of all chips where there are no `families`."""

    name: Word
    value: Expression
    families: tuple[Word, ...] = ()


class Copies(NamedTuple):
    """`[i in 0, 1]` of a role."""

    variable: Word
    values: tuple[Expression, ...]


class Role(NamedTuple):
    """`role soft[i in 0, 1], warps 4:`; `span` is the header's, `instead` what `chips.chosen` did not take."""

    name: Word
    copies: Copies | None
    settings: tuple[Setting, ...]
    body: Block
    span: Span
    instead: tuple[Setting, ...] = ()


class For(NamedTuple):
    """`for m, n in work:`; `span` is the header's."""

    variables: tuple[Word, ...]
    over: tuple[Argument, ...]
    body: Block
    span: Span


class Item(NamedTuple):
    """`inputs as k` in a put or get; `direction` is the word, repeated from the item before where left out."""

    direction: str
    pipe: Reference
    alias: Word | None
    span: Span


class Transfer(NamedTuple):
    """`put r0, r1:` or `get inputs:`; `span` is the header's."""

    items: tuple[Item, ...]
    body: Block
    span: Span


class Branch(NamedTuple):
    """`if … elif … else`: `span` is the word's."""

    arms: tuple[tuple[Expression, Block], ...]
    otherwise: Block | None
    span: Span


class Copy(NamedTuple):
    """`destination <- source, hint`."""

    target: Expression
    source: Expression
    hints: tuple[Expression, ...]
    span: Span


class Assign(NamedTuple):
    target: Expression
    value: Expression
    span: Span


class Update(NamedTuple):
    """`d += a @ b.T`."""

    target: Expression
    operator: str
    value: Expression
    span: Span


class Evaluate(NamedTuple):
    """An expression alone on its line."""

    value: Expression
    span: Span


class Words(NamedTuple):
    """`keep o`, `mask x where c`."""

    first: Word
    second: Word
    where: Expression | None
    span: Span


class Assertion(NamedTuple):
    """`assert K % 8 == 0, "K is a multiple of 8"`; `text` is "" where there is none."""

    condition: Expression
    text: str
    span: Span


class Return(NamedTuple):
    """`return x`, at the end of a function."""

    value: Expression
    span: Span


class Define(NamedTuple):
    """`def act(x, b):`; `span` is the header's."""

    name: Word
    parameters: tuple[Word, ...]
    body: Block
    span: Span


class Import(NamedTuple):
    """`from gates import swiglu`."""

    module: Word
    names: tuple[Word, ...]
    span: Span


class Parameter(NamedTuple):
    """`A: const global[bf16, M, K]`."""

    name: Word
    const: Word | None
    type: Expression


class Kernel(NamedTuple):
    """`span` is the header's."""

    name: Word
    parameters: tuple[Parameter, ...]
    body: Block
    span: Span


class File(NamedTuple):
    kernels: tuple[Kernel, ...]
    functions: tuple[Define, ...] = ()
    imports: tuple[Import, ...] = ()


def has_families(kernel: Kernel) -> bool:
    """Whether several tiles, pipes or roles have one name, as in `shared q[2]`."""
    return any(
        (isinstance(s, Declare) and any(r.part is not None for r in s.names))
        or (isinstance(s, Pipe) and s.name.part is not None)
        or (isinstance(s, Role) and s.copies is not None)
        for s in kernel.body
    )


def says_on(kernel: Kernel) -> bool:
    """Whether a value of the kernel is of some chips alone."""
    return any(
        (isinstance(s, Param) and any(b.instead for b in s.bindings))
        or (isinstance(s, Role) and any(x.families for x in s.settings))
        for s in kernel.body
    )


def _bodies(s: Any) -> tuple[Block, ...]:
    if isinstance(s, Branch):
        return (*(body for _, body in s.arms), s.otherwise or ())
    body = getattr(s, "body", None)
    return (body,) if isinstance(body, tuple) else ()


def items_in(body: Block) -> Iterator[Span]:
    """The puts and gets of a block, wherever in it."""
    for s in body:
        if isinstance(s, Transfer):
            yield s.span
        for inner in _bodies(s):
            yield from items_in(inner)

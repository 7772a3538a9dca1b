"""What names mean at a place in a kernel, and how a mistake about one is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from tkc.diagnostics import Edit, Location, Note, nearest
from tkc.frontend.program import Axis, Bounds, Pipe
from tkc.frontend.sizes import Size
from tkc.frontend.source import Source
from tkc.frontend.syntax import Span, Word
from tkc.ir.tile.types import DTYPES

FUNCTIONS: dict[str, int] = {
    "exp": 1, "exp2": 1, "log": 1, "log2": 1, "sqrt": 1, "rsqrt": 1, "rcp": 1, "tanh": 1, "abs": 1, "min": 2, "max": 2,
    "finite": 1, "guard_div": 2, "relu": 1, "sigmoid": 1, "silu": 1, "gelu": 1, "sin": 1, "cos": 1, "erf": 1,
    "cdiv": 2, "read": 1,
    "row_max": 1, "row_min": 1, "row_sum": 1, "col_max": 1, "col_min": 1, "col_sum": 1,
    "tile_max": 1, "tile_min": 1, "tile_sum": 1,
    "row": 1, "column": 1, "full": 1,
}  # fmt: skip
"""Functions and how many arguments each takes; dtypes are functions of one, too."""

LATER = (
    "copy", "transpose", "iota",
    "where", "range", "chain", "list", "reduce", "elect", "barrier",
)  # fmt: skip
"""Functions of the language to come, answered by TK110 rather than as unknown."""

RESERVED = {
    *DTYPES,
    *FUNCTIONS,
    "global",
    "tile",
    "vector",
    "blocks",
    "tiles",
    "inf",
    "sm_count",
    "max_clusters",
    "WARP_SZ",
} - {"full"}
"""Plain names to the grammar that a program may not give another meaning; `full`, everybody's barrier, it may."""


MAX_MESSAGE = 400
"""Characters of a message; only absurdly long names need more."""

REGISTER = "register value"
"""What a register variable is, in words."""


UNKNOWN = "unknown name"
"""What a name is that has been reported once: its next uses are silent, and it may still be defined."""


class Int(NamedTuple):
    """An integer expression's value."""

    size: Size
    span: Span


class Block(NamedTuple):
    """A loop's variable over blocks, or a part of one: its number, and how many there are. `bounds` of the loop, where
    they are not those of the axis."""

    name: str
    axis: Axis
    span: Span
    part: tuple[int, int] | None = None
    bounds: Bounds | None = None


class Index(NamedTuple):
    """A loop's variable over the elements of an axis: an integer that only the loop knows."""

    name: str
    axis: Axis
    span: Span


class Unknown(NamedTuple):
    """What a name means whose definition was wrong: uses of it are not reported again."""

    span: Span


class Failed(Exception):
    """What was wrong has been reported."""


class Entry(NamedTuple):
    """`what` is the kind in words: "shared tile", "pipe"."""

    what: str
    meaning: Any
    span: Span


class Owned(NamedTuple):
    """A tile inside a put or get: by which word, of which pipe, and how many loops and conditions stand round it."""

    direction: str
    pipe: Pipe
    loops: int
    span: Span
    conditions: int = 0


def article(phrase: str) -> str:
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"


def plural(n: int, noun: str, nouns: str = "") -> str:
    return f"{n} {noun if n == 1 else nouns or noun + 's'}"


def listed(names: Iterable[str]) -> str:
    """`a`, `b` and `c`."""
    quoted = [f"`{n}`" for n in names]
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]])) if quoted else "nothing"


class Scope:
    """The names of one kernel, and the state of the walk over a role's body.

    `owned` are the tiles of the puts and gets round a statement; `written` the tiles that the put has written;
    `cleared` the accumulators that a `= 0` dominates; `loops` the loops round a statement; `unset` the variables that
    only a finished loop has set; `lenient` counts the wrong headers round a statement, inside which no tile is known to
    be owned or not; `failed` counts wrong statements; `coming` are all names that the kernel declares; `functions` are
    those of the file, `calls` the ones being evaluated; `conditional` counts the run-time conditions round a statement;
    `inside` a role, threads have numbers; `broken`: a declaration was wrong; of a pipe of
    several producers and a tile of it, `writers` are the roles with a put that writes it, `silent` those with one that
    does not; `multicast` asks whether a copy may serve
    a whole cluster of `ctas`; `alone` says which threads of those that reach a statement an election lets run it: one,
    or a lane of each warp.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.names: dict[str, Entry] = {}
        self.owned: dict[str, Owned] = {}
        self.pipe_of: dict[str, Pipe] = {}
        self.pipes_of: dict[str, list[Pipe]] = {}
        self.together: set[str] = set()
        """Tiles in the place of others, and those others."""
        self.written: set[str] = set()
        self.misused: set[str] = set()
        """Operands of products that were taken for accumulators, which is said once."""
        self.cleared: set[str] = set()
        self.loops: list[Span] = []
        self.unset: dict[str, Span] = {}
        self.lenient = 0
        self.failed = 0
        self.coming: dict[str, Span] = {}
        self.functions: Mapping[str, Any] = {}
        self.calls: list[str] = []
        self.conditional = 0
        self.inside = False
        self.ctas = 1
        self.alone = ""
        self.variable: set[str] = set()
        """Tensors without `const` of which it has been told that roles decide by their elements."""
        self.followed: set[str] = set()
        """Schedules with arguments that some loop goes through, which has looked at their conditions."""
        self.broken = False
        self.writers: dict[tuple[str, str], dict[str, Owned]] = {}
        self.silent: dict[tuple[str, str], dict[str, Owned]] = {}
        self.multicast: Callable[[Span], bool] | None = None
        self.scales_of: dict[str, dict[str, Span]] = {}
        """Of each tile for scales, those whose scales are copied there, and where."""
        self.scaled_with: dict[str, dict[str, Span]] = {}
        """Of each tile for scales, those that products multiply by them, and where."""

    # reporting

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        *notes: Note,
        fix: Edit | None = None,
        help: str | None = None,
    ) -> None:
        told = message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…"
        self.source.found.error(code, told, self.place(span), *notes, fix=fix, help=help)

    def mend(
        self, code: str, message: str, span: Span, *notes: Note, at: Span, text: str
    ) -> NoReturn:
        """Fails where a text in the place of what stands at `at` is what is meant."""
        edit = self.source.edit(at, text)
        self.error(code, message, span, *notes, fix=edit, help=None if edit else text)
        raise Failed

    def later(self, what: str, span: Span, *notes: Note) -> None:
        """The construct belongs to the language and cannot be compiled yet."""
        self.error("TK110", f"not supported yet: {what}", span, *notes)

    def place(self, span: Span) -> Location:
        return self.source.place(span)

    def in_file(self, source: Source, message: str, span: Span) -> Note:
        """A note at a place in another file."""
        return Note(message, source.place(span))

    def note(self, message: str, span: Span) -> Note:
        return Note(message, self.place(span))

    # names

    def define(self, word: Word, what: str, meaning: Any) -> bool:
        """Gives the name a meaning; reports TK103 where it has one."""
        name = word.text
        if name in RESERVED:
            self.error(
                "TK103",
                f"`{name}` is a word of the language: give the {what} another name",
                word.span,
            )
            return False
        old = self.names.get(name)
        if old is not None and old.what != UNKNOWN:
            self.error(
                "TK103",
                f"`{name}` is defined twice: {article(what)} here, {article(old.what)} before",
                word.span,
                self.note(f"`{name}` is first defined here", old.span),
            )
            return False
        self.names[name] = Entry(what, meaning, word.span)
        return True

    def find(self, name: str, span: Span, kinds: tuple[str, ...] = ()) -> Any:
        """The meaning; reports TK102 where there is none and gives Unknown. `kinds`: what would fit here, in words."""
        entry = self.names.get(name)
        if entry is not None:
            return entry.meaning
        if name in self.unset:
            self.error(
                "TK102",
                f"`{name}` is set only inside a loop or under a condition, and so may not be: give it a value before",
                span,
                self.note(f"`{name}` is set here", self.unset[name]),
            )
            return Unknown(span)
        if name in self.coming:
            below = self.note(f"`{name}` is defined here", self.coming[name])
            self.error("TK102", f"`{name}` is used before it is defined", span, below)
        else:
            self.unknown(name, span, kinds)
        self.names[name] = Entry(UNKNOWN, Unknown(span), span)
        return Unknown(span)

    def unknown(
        self, name: str, span: Span, kinds: tuple[str, ...] = (), also: Iterable[str] = ()
    ) -> None:
        apart = (UNKNOWN,) if kinds else (UNKNOWN, "role", "pipe", "schedule")
        known = [
            n
            for n, e in self.names.items()
            if e.what not in apart and (not kinds or e.what in kinds)
        ]
        near = nearest(name, [*known, *also])
        noun = " or ".join(kinds) if kinds else "name"
        message = f"no {noun} `{name}`" if kinds else f"unknown name `{name}`"
        if near is not None:
            kind = self.names[near].what if near in self.names else "word"
            message += f"; did you mean the {kind} `{near}`"
        elif known and kinds:
            message += f"; there {'is' if len(known) == 1 else 'are'} {listed(known)}"
        notes = ()
        if near is not None and near in self.names:
            notes = (self.note(f"`{near}` is defined here", self.names[near].span),)
        self.error("TK102", message, span, *notes)

    def several(self, tile: str) -> bool:
        """Whether a tile rides in several pipes, so that what it holds outlives a block."""
        return len(self.pipes_of.get(tile, ())) > 1

    def shares(self, tile: str) -> bool:
        """Whether a tile rides in several pipes, or has its place with others."""
        return self.several(tile) or tile in self.together

    def ends(self, pipe: Pipe) -> str:
        return f"{', '.join(pipe.producers)} -> {', '.join(pipe.consumers)}"

"""The syntax tree of explicit synchronisation: barriers, commands such as `wait full[slot], phase`, elections."""

from typing import NamedTuple

from tkc.frontend.syntax import Argument, Block, Call, Expression, Name, Span, Word, Words

COMMANDS = (
    "wait", "arrive", "expect", "load", "store", "prefetch", "commit", "fence", "sync", "mma", "copy", "registers",
)  # fmt: skip
"""Words that begin a command. They are no keywords: roles are called `load` and `store`."""


class Barrier(NamedTuple):
    """`barrier full * STAGES, count = 1`."""

    name: Word
    depth: Expression | None
    options: tuple[Argument, ...]
    span: Span


class Subject(NamedTuple):
    """What a command is about: a place (`full[slot]`), alone or with an operator and a value, one or two words, or a
    value alone (`1 + i`)."""

    operator: str
    place: Expression | None
    value: Expression | None
    words: tuple[Word, ...]
    span: Span


class Command(NamedTuple):
    """`load a[slot] <- A[m, k], full[slot]`: a word, what it is about, options."""

    word: Word
    subject: Subject
    options: tuple[Argument, ...]
    span: Span


class Elect(NamedTuple):
    """`elect:` or `elect warp:`; `span` is the header's."""

    scope: Word | None
    body: Block
    span: Span


class While(NamedTuple):
    """`while condition:`; `span` is the header's."""

    condition: Expression
    body: Block
    span: Span


def command(
    word: Word, subject: Subject, options: tuple[Argument, ...], span: Span
) -> Command | Words:
    """The command; two words that are none stay words (`keep o`, `mask x where c`)."""
    place = subject.place
    bare = place is not None and not subject.operator and not options
    if bare and word.text not in COMMANDS and hasattr(place, "text"):
        return Words(word, Word(place.text, place.span), subject.value, span)  # type: ignore[union-attr]
    return Command(word, subject, options, span)


def is_print(e: Expression) -> bool:
    """Whether an expression is `print(...)`, where the program calls nothing else so."""
    return isinstance(e, Call) and isinstance(e.function, Name) and e.function.text == "print"

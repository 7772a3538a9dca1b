"""Syntax slips, explained by example: each row is a wrong line and what to say when the parser stops in the same place.

The parser is run over the examples once; where it stopped (its state and the token's kind) finds the row. What no
example covers is told as what was found and what was expected.
"""

from __future__ import annotations

from functools import cache
from itertools import takewhile
from typing import Any

from lark.exceptions import UnexpectedToken
from lark.lexer import PatternStr

from tkc.diagnostics import Location, nearest
from tkc.frontend.automaton import Token
from tkc.frontend.build import over, span_of
from tkc.frontend.explicit_syntax import COMMANDS
from tkc.frontend.layout import Layout
from tkc.frontend.source import Source, clipped
from tkc.frontend.synonyms import elsewhere
from tkc.frontend.tokens import parser, tokenize

_COPY = "a copy is written `destination <- source`"
_ENDS = "the ends of a pipe are written `producer -> consumer`"
_DECLARE = "a tile is declared as `{} name: tile[dtype, rows, columns] * slots`"
_SCHEDULE = "a schedule is declared as `schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))`"
_FOR = "a loop is written `for m, n in work:` or `for k in blocks(K, BK):`"
_KERNEL = "a kernel begins as `kernel name(A: global[bf16, M, K], scale: f32):`"
_ROLE = "a role begins as `role load:` or `role store, warps 4, registers 232:`"
_PIPE = "a pipe is declared as `pipe inputs(a, b): load -> math`"
_PARAM = "a param is declared as `param BM = 128, BN = 256`"
_BARRIER = "barriers are declared as `barrier full * STAGES, count = 1`"
_FILE = "a file holds kernels, functions and imports, each at the left margin"

OUTSIDE: dict[str, str] = {
    "kernel:": _KERNEL,
    "kernel (A: f32):": _KERNEL,
    "kernel k:": _KERNEL,
    "kernel k(A):": "an argument has a type: `A: global[bf16, M, K]` or `scale: f32`",
    "kernel k(A, B: f32):": "an argument has a type: `A: global[bf16, M, K]` or `scale: f32`",
    "kernel k(A = f32):": "an argument has a type: `A: global[bf16, M, K]` or `scale: f32`",
    "kernel k(A: f32 B: f32):": "arguments are separated by commas",
    "kernel k() -> f32:": "a kernel returns nothing: its results are copied to tensors",
    "k(A: f32):": _FILE,
    "param X = 1": _FILE,
    "shared a: tile[f32]": _FILE,
    "accum a: tile[f32]": _FILE,
    "pipe p(a): b -> c": _FILE,
    "role load:": _FILE,
    "schedule w: m in tiles(1)": _FILE,
    "launch persistent": _FILE,
    "for m in work:": _FILE,
    "put p:": _FILE,
    "get p:": _FILE,
    "// a": "a comment begins with `#`",
}
"""Lines at the left margin."""

INSIDE: dict[str, str] = {
    "kernel k():": "a kernel stands at the left margin, not inside another",
    "param BM 128": _PARAM,
    "param BM: 128": _PARAM,
    "param BM, BN": _PARAM,
    "param BM": _PARAM,
    "param": _PARAM,
    "launch": "a launch names its clauses: `launch persistent`",
    "launch:": "a launch names its clauses: `launch persistent`",
    "schedule m, n in tiles(1)": _SCHEDULE,
    "schedule work in tiles(1)": _SCHEDULE,
    "schedule work = tiles(1)": _SCHEDULE,
    "schedule work: m, n = tiles(1)": _SCHEDULE,
    "schedule work: tiles(1)": _SCHEDULE,
    "schedule work: m, n": _SCHEDULE,
    "schedule work": _SCHEDULE,
    "shared a = tile[f32]": _DECLARE.format("shared"),
    "shared a tile[f32]": _DECLARE.format("shared"),
    "shared a": _DECLARE.format("shared"),
    "shared tile[f32] a": _DECLARE.format("shared"),
    "shared": _DECLARE.format("shared"),
    "accum a = tile[f32]": _DECLARE.format("accum"),
    "accum a tile[f32]": _DECLARE.format("accum"),
    "accum a": _DECLARE.format("accum"),
    "accum tile[f32] a": _DECLARE.format("accum"),
    "accum": _DECLARE.format("accum"),
    "pipe p: load -> math": _PIPE,
    "pipe p(a) load -> math": _PIPE,
    "pipe p(a) = load -> math": _PIPE,
    "pipe p(a)": _PIPE,
    "pipe p": _PIPE,
    "pipe p(a):": _ENDS,
    "pipe p(a): load": _ENDS,
    "pipe p(a): load <- math": _ENDS,
    "pipe p(a): load = math": _ENDS,
    "pipe p(a): load - math": _ENDS,
    "pipe p(a): load math": _ENDS,
    "pipe p(a): load, math": _ENDS,
    "pipe p(a): load > math": _ENDS,
    "pipe p(a): load: math": _ENDS,
    "role load()": _ROLE,
    "role load warps 4:": "a role's settings follow a comma: `role load, warps 4:`",
    "role load, warps = 4:": "a role's setting is a word and a value: `role load, warps 4:`",
    "role load, warps: 4": "a role's setting is a word and a value: `role load, warps 4:`",
    "role load = 1": _ROLE,
    "role:": _ROLE,
    "for m, n = work:": _FOR,
    "for m:": _FOR,
    "for:": _FOR,
    "for (m, n) in work:": "loop variables stand without brackets: `for m, n in work:`",
    "for m in:": _FOR,
    "put:": "a put names its pipes: `put inputs:`",
    "get:": "a get names its pipes: `get inputs:`",
    "put inputs()": "a put names its pipes and no more: `put inputs:`",
    "A[m, k] -> a": _COPY,
    "else:": "`else` without an `if` above it",
    "elif x:": "`elif` without an `if` above it",
    "// a": "a comment begins with `#`",
    "x := 1": "a register value is set by `x = ...` and a copy made by `x <- ...`, neither with `:`",
    "x =": "a value is missing after `=`",
    "x <-": "a source is missing after `<-`",
    "x += ": "a value is missing after `+=`",
    "x = y = 2": "`=` stands once in a line",
    "x = where(a, b, c)": "a choice is written `x if x > 0 else y`",
    "return": "`return` stands in a function of values, with its value: a role runs to its end, where "
    "the kernel's last barriers wait for it",
    "x++": "the language has no `++`: it is `i = i + 1`",
    "barrier:": _BARRIER,
    "barrier full = 1": _BARRIER,
    "barrier full[2]": _BARRIER,
    "barrier full(1)": _BARRIER,
    "while:": "a loop on a condition is written `while condition:`",
    "elect thread, 1:": "an election is `elect:` (one thread of the role) or `elect warp:` (a lane of each warp)",
    "elect (1):": "an election is `elect:` (one thread of the role) or `elect warp:` (a lane of each warp)",
    "if elect:": "an election is `elect:` (one thread of the role) or `elect warp:` (a lane of each warp), no `if`",
    "x = a if b": "a choice is written `x if condition else y`",
}
"""Lines in a kernel."""

DOUBLED = {
    "STAR": "the language has no `**`: a square is `x * x`",
    "AMP": "no operator `&&`: `and` joins conditions, `&` the bits of integers",
}
"""What is wrong with a sign that stands there twice, wherever it does."""


@cache
def _examples() -> dict[tuple[str, int, str, str], str]:
    """(the line's first token, parser state, kind of token, its text) and the same without the text: what to say."""
    found: dict[tuple[str, int, str, str], str] = {}
    for text, message in [
        *OUTSIDE.items(),
        *((f"kernel k():\n {line}", m) for line, m in INSIDE.items()),
    ]:
        stopped = stop(text)
        assert stopped is not None, text
        session, line, at = stopped
        where = (line[0].type, session.parser_state.position, line[at].type)
        found.setdefault((*where, str(line[at])), message)
        found.setdefault((*where, ""), message)
    return found


def stop(text: str) -> tuple[Any, list[Token], int] | None:
    """Where the parser stops in a text: its state, the logical line and the token's place in it."""
    source = Source(text, "")
    session = parser().parse_interactive()
    session.parser_state.parse_conf.callbacks = {}
    line: list[Token] = []
    for token in Layout(source).run(tokenize(source)):
        line.append(token)
        try:
            session.feed_token(token)
        except UnexpectedToken:
            return session, line, len(line) - 1
        if token.type in ("_NEWLINE", "_INDENT"):
            line = []
    return None


# --- words for tokens ---

_NAMES = {
    "NAME": "a name", "INTEGER": "a number", "FLOAT": "a number", "TEXT": "a text", "_NEWLINE": "the end of the line",
    "_INDENT": "an indented block", "_DEDENT": "the end of the block", "$END": "the end of the file",
    "LPAR": "`(`", "RPAR": "`)`", "LSQB": "`[`", "RSQB": "`]`", "COLON": "`:`", "COMMA": "`,`", "EQUAL": "`=`",
    "SEMICOLON": "`;`", "DOT": "`.`", "COMPARE": "a comparison", "UPDATE": "`+=`", "AT": "`@`", "STAR": "`*`",
    "SLASH": "`/`", "FLOOR": "`//`", "PERCENT": "`%`", "PLUS": "`+`", "MINUS": "`-`",
    "CARET": "`^`", "AMP": "`&`", "SHIFT": "a shift",
}  # fmt: skip
_STARTS = {"NAME", "INTEGER", "FLOAT", "LPAR", "MINUS", "PLUS"}
_OPERATORS = {
    "OR",
    "AND",
    "COMPARE",
    "PLUS",
    "MINUS",
    "STAR",
    "SLASH",
    "FLOOR",
    "PERCENT",
    "AT",
    "CARET",
    "AMP",
    "SHIFT",
    "IF",
}
_STATEMENTS = {
    "PARAM",
    "LAUNCH",
    "SCHEDULE",
    "SHARED",
    "ACCUM",
    "PIPE",
    "MAPS",
    "ROLE",
    "FOR",
    "PUT",
    "GET",
    "IF",
    "BARRIER",
    "ELECT",
    "WHILE",
}
MAX_EXPECTED = 6


def _literal(kind: str) -> str | None:
    """The text of a token that has only one."""
    pattern = next((t.pattern for t in parser().terminals if t.name == kind), None)
    return pattern.value if isinstance(pattern, PatternStr) else None


def _name(kind: str) -> str:
    text = _literal(kind)
    return f"`{text}`" if text is not None else _NAMES.get(kind, kind.strip("_").lower())


def expected(accepts: set[str]) -> str:
    """At most six things, in words, widest first."""
    rest = set(accepts)
    words: list[str] = []
    if _STATEMENTS <= rest:
        words.append("a statement")
        rest -= _STATEMENTS | _STARTS | {"NOT", "TEXT"}
    if _STARTS <= rest:
        words.append("an expression")
        rest -= _STARTS | {"NOT", "TEXT"}
    if _OPERATORS - {"IF"} <= rest:
        words.append("an operator")
        rest -= _OPERATORS | {"LPAR", "LSQB", "DOT"}
    words += sorted({_name(kind) for kind in rest}, key=lambda w: (w.startswith("`"), w))
    if len(words) > MAX_EXPECTED:
        words = words[:MAX_EXPECTED]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" or {words[-1]}"


# --- explanations ---


def explain(source: Source, session: Any, line: list[Token], at: int) -> None:
    """Reports why the parser, standing where `session` says, cannot take token `at` of the logical line."""
    token = line[at]
    accepts = session.accepts()
    place = source.at(token)
    if token.type in ("_NEWLINE", "$END") and at:
        before = line[at - 1]
        column = before.end_column or 1
        place = Location(source.file, before.end_line or 0, column, column + 1)
    examples = _examples()
    where = (line[0].type, session.parser_state.position, token.type)
    head = str(line[0])
    keywords = [w for w in map(_literal, _STATEMENTS) if w]
    message = examples.get((*where, str(token)))
    if at and token.type in DOUBLED and line[at - 1].type == token.type:
        message, place = DOUBLED[token.type], _both(source, line[at - 1], token)
    if message is None:
        message = _elsewhere(line[: at + 1])
        place = source.at(line[0]) if message else place
        message = message or _command(line, at, accepts)
    if message is None and token.type == "_NEWLINE" and "COLON" in accepts:
        message = f"missing `:` at the end of `{source.excerpt(over(span_of(line[0]), span_of(line[at - 1])))}`"
    if (
        message is None
        and line[0].type == "NAME"
        and at
        and head not in ("mask", "keep", *COMMANDS)
        and (
            line[1].type == "NAME"
            or (at == 1 and token.type != "_NEWLINE" and "COMMA" not in accepts)
        )
    ):
        near = nearest(head, keywords)
        if near is not None:
            place = source.at(line[0])
            message = f"no statement begins with `{head}`; did you mean `{near}`"
    if (
        message is None
        and "NAME" in accepts
        and _literal(token.type) == str(token)
        and str(token).isalpha()
    ):
        message = f"`{token}` is a word of the language and cannot be a name"
    if message is None:
        message = examples.get((*where, ""))
    if message is None:
        found = "the line ends" if token.type == "_NEWLINE" else f"unexpected {_found(token)}"
        message = f"{found}, expected {expected(accepts)}"
        if any(t.type == "FLOOR" for t in line[:at]):
            message += "; a comment begins with `#`"
    source.error(message, place)


def _elsewhere(line: list[Token]) -> str | None:
    """What a statement of PTX, such as `fence.proxy.async.shared` or `bar.sync 1, 128`, is here."""
    words = "".join(takewhile(lambda t: t == "." or t[:1].isalpha(), line))
    meant = elsewhere(words) if "." in words else ""
    return f"no statement `{words}`: {meant}" if meant else None


def _command(line: list[Token], at: int, accepts: set[str]) -> str | None:
    """What a command lacks where the parser stops in it."""
    head, token = str(line[0]), line[at]
    if at and head in COMMANDS and "COMMA" in accepts and token.type in ("NAME", "INTEGER"):
        return f"missing `,` before `{token}`"
    if head == "print":
        return 'a line is printed by `print("k is", k.index, x)`'
    if head == "mma" and token == "=":
        return "`mma` adds, and counts d as 0 where `keep` does not hold: `mma d += a[slot] @ b[slot].T, keep`"
    if head not in COMMANDS and at == 2 and line[1].type == "NAME" and token == "=":
        return f"a register value is set by `{line[1]} = ...`, without a type before it"
    return None


def _both(source: Source, first: Token, second: Token) -> Location:
    """From the one token to the end of the other, which stand in one line."""
    start, end = source.at(first), source.at(second)
    return Location(source.file, start.line, start.column, end.end_column)


def _found(token: Token) -> str:
    return f"`{clipped(token)}`" if token.strip() else _NAMES.get(token.type, token.type)

"""The LALR tables of the grammar: shipped beside it, else cached for the user, else built anew.

Building them takes Lark about 85 ms, loading 6 ms. `python -m tkc.frontend.tables` writes the shipped file again; it
serves the Lark version that made it, and another version builds its own once and keeps it in the user's cache folder.
What an `Automaton` reads of it is of no version.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import NonTerminal, Rule, RuleOptions, Terminal
from lark.lexer import PatternRE, PatternStr, TerminalDef
from lark.parsers.lalr_analysis import IntParseTable, Reduce, Shift
from lark.parsers.lalr_parser import LALR_Parser, _Parser  # pyright: ignore[reportPrivateUsage]

from tkc.frontend.automaton import GRAMMAR, SHIPPED, digest


def key(grammar: str) -> str:
    """What a table file must have been made from: the grammar's text and Lark's version (the form is Lark's own)."""
    return digest(f"{lark.__version__}\n{grammar}".encode())


def build(grammar: str) -> Lark:
    """One lexer serves all parser states: a keyword is one everywhere, so errors name real tokens."""
    return Lark(grammar, parser="lalr", lexer="basic")


def encode(parser: Any, grammar: str) -> str:
    """The tables as text: a line with the key and the digests of the grammar and of the rest, then JSON: what an
    `Automaton` reads, what Lark does, and one parser state a line for both.

    Lark numbers states and tokens in an order that differs from run to run; here they follow the names of the tokens.
    """
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    table = data["parser"]["parser"]
    names, states = table["tokens"], table["states"]
    actions = {
        i: sorted((names[t], shift_or_reduce, to) for t, (shift_or_reduce, to) in states[i].items())
        for i in states
    }
    order = [table["start_states"]["start"]]
    for i in order:
        order += [to for _, reduces, to in actions[i] if not reduces and to not in order]
    state_number = {state: n for n, state in enumerate(order)}
    token_number = {name: n for n, name in enumerate(sorted(names.values()))}
    rows = [
        [
            x
            for name, reduces, to in actions[i]
            for x in (token_number[name], reduces, to["@"] if reduces else state_number[to])
        ]
        for i in order
    ]
    table |= {
        "states": None,
        "tokens": list(token_number),
        "start_states": {"start": state_number[table["start_states"]["start"]]},
        "end_states": {"start": state_number[table["end_states"]["start"]]},
    }
    head = {
        "tokens": table["tokens"],
        "start": table["start_states"]["start"],
        "end": table["end_states"]["start"],
        "rules": [_made_of(of) if of["__type__"] == "Rule" else None for of in memo.values()],
        **_lexer(parser.parser.lexer),
    }
    parts = [
        json.dumps(part, separators=(",", ":"), sort_keys=True)
        for part in (head, data, list(memo.values()), *rows)
    ]
    body = "[" + ",\n".join(parts) + "]\n"
    return f"{key(grammar)} {digest(grammar.encode())} {digest(body.encode())}\n{body}"


def _lexer(lexer: Any) -> dict[str, Any]:
    """One expression for all tokens, the words that are no names, and which tokens are left out or may end lines."""
    scanner = lexer.scanner
    (expression,) = scanner._mres
    words = {
        kind: {word.pattern.value: word.name for word in unless.scanner.terminals}
        for kind, unless in lexer.callback.items()
    }
    return {
        "pattern": expression.pattern,
        "words": words,
        "ignored": sorted(lexer.ignore_types),
        "breaks": sorted(lexer.newline_types),
    }


def _made_of(rule: dict[str, Any]) -> list[Any]:
    """A rule for an `Automaton`: what it makes, of how many, by which method, whether a single child stands for it, and
    of which children; these as Lark's tree builder takes them."""
    expansion: list[Any] = rule["expansion"]
    origin, options = rule["origin"]["name"], rule["options"]
    missing: list[bool] = options["empty_indices"] or [False] * len(expansion)
    children: list[int | None] = []
    symbols = iter(enumerate(expansion))
    for nothing in missing:
        if nothing:
            children.append(None)
            continue
        i, symbol = next(symbols)
        terminal = symbol["__type__"] == "Terminal"
        if options["keep_all_tokens"] or not (terminal and symbol["filter_out"]):
            children.append(i if terminal or not symbol["name"].startswith("_") else ~i)
    called = rule["alias"] or options["template_source"] or origin
    alone = options["expand1"] and not rule["alias"]
    as_given = children == [*range(len(expansion))]
    return [origin, len(expansion), called, alone, None if as_given else children]


def _sound(text: str, key: str) -> bool:
    """Whether a file has the tables of a key, whole."""
    head, _, body = text.partition("\n")
    told = head.split(" ")
    return len(told) == 3 and [told[0], told[2]] == [key, digest(body.encode())]


def decode(text: str, key: str, transformer: Any) -> Lark | None:
    """The parser that the text holds; None where the text is of another key, cut short or damaged."""
    if not _sound(text, key):
        return None
    parts: list[Any] = json.loads(text.partition("\n")[2])
    data: dict[str, Any] = parts[1]
    memo = _objects(parts[2])
    rows: list[list[int]] = parts[3:]
    table: dict[str, Any] = data["parser"]["parser"]
    tokens: list[str] = table["tokens"]
    table["states"] = {
        i: {
            tokens[token]: (Reduce, memo[to]) if reduces else (Shift, to)
            for token, reduces, to in zip(row[::3], row[1::3], row[2::3], strict=True)
        }
        for i, row in enumerate(rows)
    }
    lark_class: Any = Lark
    return lark_class._load_from_dict(
        data, memo, transformer=transformer, _plugins={"LALR_Parser": _ReadyParser}
    )


class _ReadyParser(LALR_Parser):
    """A parser of a table that is made already; Lark would make one of the table's text."""

    @classmethod
    def deserialize(cls, data: Any, memo: Any, callbacks: Any, debug: bool = False) -> _ReadyParser:
        made = cls.__new__(cls)
        made._parse_table = IntParseTable(data["states"], data["start_states"], data["end_states"])
        made.parser = _Parser(made._parse_table, callbacks, debug)
        return made


def _objects(texts: list[Any]) -> dict[int, Any]:
    """The rules and terminals, as Lark's `deserialize` makes them of the same, but each symbol once."""
    symbols: dict[tuple[Any, ...], Any] = {}

    def symbol(text: dict[str, Any]) -> Any:
        key = (text["name"], text.get("filter_out"))
        if key not in symbols:
            terminal = text["__type__"] == "Terminal"
            symbols[key] = Terminal(*key) if terminal else NonTerminal(text["name"])
        return symbols[key]

    def rule(text: dict[str, Any]) -> Rule:
        options = RuleOptions(**{k: v for k, v in text["options"].items() if k != "__type__"})
        expansion = [symbol(s) for s in text["expansion"]]
        return Rule(symbol(text["origin"]), expansion, text["order"], text["alias"], options)

    def terminal(text: dict[str, Any]) -> TerminalDef:
        pattern = text["pattern"]
        kind = PatternStr if pattern["__type__"] == "PatternStr" else PatternRE
        made = kind(pattern["value"], pattern["flags"], pattern["raw"])
        if "_width" in pattern:
            vars(made)["_width"] = pattern["_width"]
        return TerminalDef(text["name"], made, text["priority"])

    return {
        i: rule(text) if text["__type__"] == "Rule" else terminal(text)
        for i, text in enumerate(texts)
    }


def cache_file(key: str) -> Path | None:
    """Where tables of a key are kept; None where there is no home to keep them in."""
    root = os.environ.get("TKC_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.path.expanduser(root)
    return None if home.startswith("~") else Path(home, "tkc", f"grammar-{key[:16]}.json")


def _read(path: Path) -> str:
    """The file's text; empty where there is none, or none that can be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _write(path: Path, text: str) -> None:
    """Writes the file whole or not at all, whoever else writes it; a folder that refuses costs time, no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        return


def text() -> str:
    """Sound tables of the grammar in Lark's form."""
    grammar = GRAMMAR.read_text(encoding="utf-8")
    wanted = key(grammar)
    cached = cache_file(wanted)
    for path in (SHIPPED, cached):
        found = _read(path) if path else ""
        if _sound(found, wanted):
            return found
    made = encode(build(grammar), grammar)
    if cached is not None:
        _write(cached, made)
    return made


def load(transformer: Any) -> Lark:
    """The grammar's parser, with the transformer's methods called as rules reduce."""
    parser = decode(text(), key(GRAMMAR.read_text(encoding="utf-8")), transformer)
    assert parser is not None
    return parser


def main() -> None:
    """Writes the shipped tables."""
    grammar = GRAMMAR.read_text(encoding="utf-8")
    SHIPPED.write_text(encode(build(grammar), grammar), encoding="utf-8")


if __name__ == "__main__":
    main()

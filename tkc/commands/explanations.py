"""Pages on codes: what one means, with a program that gets it and one that does not."""

from __future__ import annotations

from importlib.resources import files

from tkc.diagnostics import CODES, Note, TkcError, nearest


def codes() -> list[str]:
    """The codes that have a page, in order."""
    folder = files("tkc") / "explanations"
    return sorted(f.name.removesuffix(".md") for f in folder.iterdir() if f.name.endswith(".md"))


def page(code: str) -> str:
    """The page of a code; where it has none, what the table of codes says of it."""
    code = code.upper()
    if code in codes():
        return (files("tkc") / "explanations" / f"{code}.md").read_text(encoding="utf-8").rstrip()
    if code in CODES:
        return f"{code}: {CODES[code]}"
    near = nearest(code, list(CODES))
    hint = f"; did you mean {near}?" if near else ""
    known = codes()
    raise TkcError.at(
        "TK120",
        f"no code is called {code}{hint}",
        None,
        Note(f"codes are {known[0]} to {known[-1]}"),
    )

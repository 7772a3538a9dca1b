"""`from gates import swiglu`: functions of other files, found beside the program or in the search path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tkc.frontend.syntax as S
from tkc.diagnostics import Note, nearest
from tkc.frontend.inline import Function
from tkc.frontend.parse import parse
from tkc.frontend.scope import FUNCTIONS, RESERVED, listed
from tkc.frontend.source import Source

SUFFIX = ".tk"

Functions = dict[str, Function | None]
"""By name; None where an import has failed, which is reported once."""


class Imports:
    """The files read so far, by path; `search` are the folders after the importing file's own."""

    def __init__(self, search: Sequence[str]) -> None:
        self.search = [Path(p) for p in search]
        self.files: dict[Path, Functions] = {}
        self.texts: dict[str, str] = {}
        self.reading: list[Path] = []
        """The files whose functions are being found, each imported by the one before."""

    def functions(self, source: Source, tree: S.File) -> Functions:
        """The functions that a file defines and imports."""
        self.reading.append(Path(source.file).resolve())
        try:
            return self._functions(source, tree)
        finally:
            self.reading.pop()

    def _functions(self, source: Source, tree: S.File) -> Functions:
        found: Functions = {}
        for statement in tree.imports:
            there = self._read(source, statement)
            for word in statement.names:
                function = there.get(word.text) if there is not None else None
                if there is None or (function is None and word.text in there):
                    found[word.text] = None  # reported, and its uses are not
                elif function is None:
                    found[word.text] = None
                    near = nearest(word.text, list(there))
                    hint = f"; did you mean `{near}`" if near else f"; it has {listed(there)}"
                    source.found.error(
                        "TK102",
                        f"{statement.module.text}{SUFFIX} has no function `{word.text}`{hint}",
                        source.place(word.span),
                    )
                else:
                    self._add(found, word, function, source)
        for define in tree.functions:
            self._add(found, define.name, Function(define, source, found), source)
        return found

    def _add(self, found: Functions, word: S.Word, function: Function, source: Source) -> None:
        name = word.text
        if name in RESERVED or name in FUNCTIONS:
            source.found.error(
                "TK103",
                f"`{name}` is a word of the language: give the function another name",
                source.place(word.span),
            )
        elif (before := found.get(name)) is not None:
            note = Note("defined here, too", before.source.place(before.define.name.span))
            source.found.error(
                "TK103", f"function `{name}` is defined twice", source.place(word.span), note
            )
        else:
            found[name] = function

    def _read(self, source: Source, statement: S.Import) -> Functions | None:
        """The functions of the imported file; None, reported, where there is no such file or it is wrong."""
        name = statement.module.text + SUFFIX
        folders = list(dict.fromkeys([Path(source.file).parent, *self.search]))
        path = next((f / name for f in folders if (f / name).is_file()), None)
        place = source.place(statement.module.span)
        if path is None:
            where = ", ".join(f"`{f}`" for f in folders)
            source.found.error("TK112", f"no file `{name}` in {where}", place)
            return None
        known = path.resolve()
        if known in self.reading:
            round = [p.name for p in (*self.reading[self.reading.index(known) :], known)]
            told = (
                "imports itself"
                if len(round) == 2
                else f"is imported by itself: {' -> '.join(round)}"
            )
            hint = "; its own functions need no import" if len(round) == 2 else ""
            source.found.error("TK112", f"{name} {told}{hint}", place)
            return None
        if known in self.files:
            return self.files[known]
        self.files[known] = {}
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            source.found.error("TK112", f"`{path}` cannot be read: {error}", place)
            return None
        there = Source(text, str(path))
        there.found = source.found
        self.texts[there.file] = there.text
        tree = parse(there)
        if tree is None:
            return None
        self.files[known] = self.functions(there, tree)
        return self.files[known]

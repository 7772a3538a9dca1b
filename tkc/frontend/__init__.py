"""The tile language: from a program's text to the tile dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tkc.diagnostics import Diagnostic, Location, TkcError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tkc.frontend.inline import Function
    from tkc.frontend.source import Source
    from tkc.frontend.syntax import Kernel

__all__ = ["compile_source"]


def compile_source(
    text: str,
    file: str,
    *,
    params: Mapping[str, int] | None = None,
    kernel: str | None = None,
    search: Sequence[str] = (),
    target: str | None = None,
) -> ModuleOp:
    """A module with one `tile.kernel` for each kernel of the program, or for the one named.

    `file` is the name in locations and messages, and imports are looked for beside it, then in the folders `search`;
    `params` override the program's, as `-D` does; `target` takes the values that `on(sm_90)` and the like set for it,
    where `params` do not (without one, those for all other chips). Raises TkcError with every mistake found.
    """
    from tkc.frontend.parse import parse
    from tkc.frontend.source import Source

    source = Source(text, file)
    tree = parse(source)
    checked = []
    sources = {file: source.text}
    if tree is not None:
        from tkc.frontend.check import check_kernel

        functions: dict[str, Function | None] = {}
        if tree.functions or tree.imports:
            from tkc.frontend.imports import Imports

            imports = Imports(search)
            functions = imports.functions(source, tree)
            sources |= imports.texts
        if tree.functions:
            from tkc.frontend.uncalled import check_uncalled

            check_uncalled(source, tree, functions)
        kernels = _chosen(source, tree.kernels, kernel)
        _check_overrides(source, kernels, params or {})
        kernels = _for_target(source, kernels, target)
        kernels = _spliced(source, kernels, functions)
        kernels = _expanded(source, kernels, params or {})
        if functions or "ahead" in source.text:
            kernels = _separated(source, kernels, functions)
        checked = [check_kernel(source, k, params or {}, functions) for k in kernels]
    if source.found.diagnostics:
        found = sorted(source.found.diagnostics, key=_order)
        raise TkcError(tuple(dict.fromkeys(found)), sources)
    from tkc.frontend.lower import lower_file

    return lower_file(file, [k for k in checked if k is not None])


def _for_target(
    source: Source, kernels: tuple[Kernel, ...], target: str | None
) -> tuple[Kernel, ...]:
    """The kernels with the values that the target takes."""
    from tkc.frontend.syntax import says_on

    if not any(map(says_on, kernels)):
        return kernels
    from tkc.frontend.chips import chosen

    return tuple(chosen(source, k, target) if says_on(k) else k for k in kernels)


def _spliced(
    source: Source, kernels: tuple[Kernel, ...], functions: dict[str, Function | None]
) -> tuple[Kernel, ...]:
    """The kernels with the statements of the functions that they call; a wrong one is left out."""
    if not functions:
        return kernels
    from tkc.frontend.splice import has_statements, splice

    if not any(map(has_statements, functions.values())):
        return kernels
    made = [splice(source, k, functions) for k in kernels]
    return tuple(k for k in made if k is not None)


def _expanded(
    source: Source, kernels: tuple[Kernel, ...], params: Mapping[str, int]
) -> tuple[Kernel, ...]:
    """The kernels with several tiles, pipes or roles of one name written out; a wrong one is left out."""
    from tkc.frontend.syntax import has_families

    if not any(map(has_families, kernels)):
        return kernels
    from tkc.frontend.expand import expand

    made = [expand(source, k, params) if has_families(k) else k for k in kernels]
    return tuple(k for k in made if k is not None)


def _separated(
    source: Source, kernels: tuple[Kernel, ...], functions: dict[str, Function | None]
) -> tuple[Kernel, ...]:
    """The kernels with a role of its own for what a loop runs ahead; a wrong one is left out."""
    from tkc.frontend.ahead import runs_ahead, separate

    made = [separate(source, k, functions) if runs_ahead(k) else k for k in kernels]
    return tuple(k for k in made if k is not None)


def _order(diagnostic: Diagnostic) -> tuple[int, int]:
    at = diagnostic.location
    return (at.line, at.column) if at else (0, 0)


def _chosen(source: Source, kernels: tuple[Kernel, ...], name: str | None) -> tuple[Kernel, ...]:
    """The kernels to compile."""
    from tkc.diagnostics import Note, nearest

    found = source.found
    if not kernels:
        found.error(
            "TK113",
            "the program is empty: expected `kernel name(...):`",
            Location(source.file, 1, 1),
        )
    first: dict[str, Kernel] = {}
    for kernel in kernels:
        word = kernel.name
        if word.text in first:
            before = Note("the first of that name", source.place(first[word.text].name.span))
            found.error(
                "TK103", f"kernel `{word.text}` is defined twice", source.place(word.span), before
            )
        first.setdefault(word.text, kernel)
    if name is None or not kernels:
        return kernels
    if name not in first:
        near = nearest(name, list(first))
        hint = f"; did you mean `{near}`" if near else ""
        known = ", ".join(f"`{n}`" for n in first)
        found.error(
            "TK102", f"no kernel `{name}`{hint}; the program has {known}", Location(source.file)
        )
        return ()
    return (first[name],)


def _check_overrides(
    source: Source, kernels: tuple[Kernel, ...], params: Mapping[str, int]
) -> None:
    """A name that no kernel has as a param is a mistake."""
    from tkc.diagnostics import nearest
    from tkc.frontend.syntax import Param

    known = [
        b.name.text for k in kernels for s in k.body if isinstance(s, Param) for b in s.bindings
    ]
    for name in params:
        if kernels and name not in known:
            near = nearest(name, known)
            hint = f"; did you mean `{near}`" if near else ""
            has = ", ".join(f"`{n}`" for n in dict.fromkeys(known)) or "none"
            where = source.place(kernels[0].name.span)
            source.found.error("TK111", f"no param `{name}`{hint}; the params are {has}", where)

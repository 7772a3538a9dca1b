"""Programs applying many instructions to each element: thread i takes word i of each input, row r of `out` is op r."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from generate.writing import GLOBAL_INDEX, Json, Program, joined, out, u32

Op = tuple[str, str]
"""(label, instructions); in them {a} {b} {c} are inputs, {d} the result, {t} {u} scratch registers of its width."""

_PREFIX = {"b8": "h", "b16": "h", "b32": "r", "b64": "d"}
_BYTES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}


def _register(width: str, number: int) -> str:
    return f"%{_PREFIX[width]}{number}"


def pointwise(
    program: Program,
    name: str,
    inputs: Sequence[str],
    result: str,
    ops: Iterable[Op],
    threads: int = 128,
) -> list[str]:
    """Adds the entry; its parameters are the inputs, `out`, and the number of elements. Returns the labels."""
    names = "abc"[: len(inputs)]
    chosen = list(ops)
    operands = {n: _register(w, 10 + i) for i, (n, w) in enumerate(zip(names, inputs, strict=True))}
    operands |= {"d": _register(result, 20), "t": _register(result, 21), "u": _register(result, 22)}
    operands |= {
        "w": "%r30",
        "x": "%r31",
        "h": "%h30",
        "k": "%h31",
        "l": "%d30",
        "m": "%d31",
        "p": "%p1",
        "q": "%p2",
    }
    load = [
        f"ld.param.u64 %d{i}, [{n}];\nmul.wide.u32 %d9, %r0, {_BYTES[w]};\nadd.u64 %d9, %d{i}, %d9;\n"
        f"ld.global.{w} {operands[n]}, [%d9];"
        for i, (n, w) in enumerate(zip(names, inputs, strict=True))
    ]
    size = _BYTES[result]
    start = (
        f"ld.param.u64 %d5, [out];\nld.param.u32 %r3, [n];\nmul.wide.u32 %d9, %r0, {size};\nadd.u64 %d5, %d5, %d9;\n"
        f"mul.wide.u32 %d6, %r3, {size};"
    )
    work = [
        f"// {label}\n{text.format(**operands)}\nst.global.{result} [%d5], {operands['d']};\nadd.u64 %d5, %d5, %d6;"
        for label, text in chosen
    ]
    params = {**dict.fromkeys(names, "u64"), "out": "u64", "n": "u32"}
    program.entry(name, params, joined(GLOBAL_INDEX, *load, start, *work), threads)
    return [label for label, _ in chosen]


def apply(
    program: Program,
    name: str,
    entry: str,
    labels: Sequence[str],
    inputs: Mapping[str, Json],
    result: str,
    n: int,
    threads: int = 128,
    **more: object,
) -> None:
    """Adds a launch of a pointwise entry over `n` elements."""
    if n % threads:
        raise ValueError(f"{name}: {n} elements are no whole number of CTAs")
    buffers = {**inputs, "out": out(result, n * len(labels), 0)}
    program.launch(
        name,
        entry,
        [*inputs, "out", u32(n)],
        buffers,
        grid=n // threads,
        block=threads,
        rows=list(labels),
        **more,
    )


def crossed(kinds: Sequence[str], of: str, n: int, seed: int, dtype: str) -> dict[str, Json]:
    """Inputs a, b, c: special values of a format crossed, then random ones."""
    from generate.writing import buffer

    return {
        name: buffer(dtype, n, "cross", of=of, place=i, seed=seed + 10 * i)
        for i, name in enumerate("abc"[: len(kinds)])
    }

"""Stores of one role to one place come in the program's order, and others wait for nobody, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from programs import changed

import tkc
from tkc.analysis.happens_before import check
from tkc.ir.stage.ops import BulkWaitOp

PROGRAM = """
kernel stores(A: global[f32, M, N], B: global[f32, M, N], Y: global[f32, M, N], S: global[f32, M], flag: i32):
    launch persistent
    schedule work: m in tiles(blocks(M, 64))
    shared a: tile[f32, 64, 32] * 2
    shared b: tile[f32, 64, 32] * 2
    shared h: tile[f32, 32, 32] * 2
    pipe inputs(a, b, h): load -> math
    role load:
        for m in work:
            for k in blocks(N, 32):
                put inputs:
                    a <- A[m, k]
                    b <- B[m, k]
                    h <- B[m.part(0, 2), k]
    role math, warps 2:
        for m in work:
            for k in blocks(N, 32):
                get inputs:
BODY
"""

Numbers = dict[str, np.ndarray]
Wanted = Callable[[np.ndarray, np.ndarray, int], np.ndarray]

KERNELS: dict[str, tuple[str, int, Wanted]] = {
    "slots": ("Y[m, k] <- a; Y[m, k] <- b", 1, lambda a, b, f: b),
    "sum": ("Y[m, k] <- a; Y[m, k] += b", 1, lambda a, b, f: a + b),
    "sum, then over it": ("Y[m, k] <- b; Y[m, k] += b; Y[m, k] <- a", 2, lambda a, b, f: a),
    "two sums": ("Y[m, k] <- a; Y[m, k] += b; Y[m, k] += a", 1, lambda a, b, f: 2 * a + b),
    "registers": ("Y[m, k] <- read(a) * 2; Y[m, k] <- b", 1, lambda a, b, f: b),
    "onto registers": ("Y[m, k] <- a; Y[m, k] += read(b) * 2", 1, lambda a, b, f: a + 2 * b),
    "both under a condition": (
        "if flag > 0:\n    Y[m, k] <- a\n    Y[m, k] += b\nelse: Y[m, k] <- b",
        1,
        lambda a, b, f: a + b if f else b,
    ),
    "one under a condition": (
        "Y[m, k] <- a\nif flag > 0: Y[m, k] <- b",
        1,
        lambda a, b, f: b if f else a,
    ),
    "in each turn": ("for i in range(3): Y[m, k] <- read(a) * f32(i)", 1, lambda a, b, f: 2 * a),
    "first cleared": (
        "Y[m, k] <- b\nfor i in range(3): Y[m, k] += a",
        1,
        lambda a, b, f: b + 3 * a,
    ),
}

APART = {
    "other blocks": "Y[m, k] <- a",
    "parts": "Y[m.part(0, 2), k] <- h\nY[m.part(1, 2), k] <- h",
    "sums": "for i in range(3): Y[m, k] += a",
    "parts by number": "for i in range(2): Y[m.part(i, 2), k] <- h",
    "the last turn": "for i in range(4):\n    if i == 3 and k.index < 9: Y[m, k] <- a",
    "either": "if k.first: Y[m, k] <- a\nelse: Y[m, k] <- b",
}
"""Stores of which no two are to one place, so that none waits; `h` is a tile of half the rows."""


def program(body: str) -> str:
    lines = "\n".join(" " * 20 + line for line in body.split("\n"))
    return PROGRAM.replace("BODY", lines)


def waits(kernel: tkc.Kernel) -> int:
    """Waits of the role for complete stores, but for the one at its end."""
    found = kernel.module(after="order-stores").walk()
    return sum(isinstance(op, BulkWaitOp) for op in found)


@pytest.mark.parametrize(
    ("name", "flag"), [(n, f) for n, k in KERNELS.items() for f in range(1 + ("flag" in k[0]))]
)
def test_the_last_store_to_a_place_is_the_last(name: str, flag: int, seed: int) -> None:
    body, expected, wanted = KERNELS[name]
    kernel = tkc.compile(program(body), target="sm_90a" if flag else "sm_100a")
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (72, 40)).astype(np.float32) for _ in range(2))
    y, s = np.full_like(a, np.nan), np.full(72, np.nan, np.float32)
    report = kernel.emulate(a, b, y, s, flag, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    np.testing.assert_allclose(y, wanted(a, b, flag), atol=1e-6)
    assert waits(kernel) == expected
    assert check(kernel.module(after="eliminate-fences")) == []


@pytest.mark.parametrize("name", APART)
def test_stores_to_other_places_do_not_wait(name: str) -> None:
    assert waits(tkc.compile(program(APART[name]))) == 0


VECTORS = """
kernel sums(A: global[f32, M, N], V: global[f32, M], S: global[f32, M]):
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared a: tile[f32, 128, 32] * 2
    shared v: vector[f32, 128]
    pipe inputs(a): load -> math
    pipe values(v): load -> math
    role load:
        for m in work:
            put values: v <- V[m]
            for k in blocks(N, 32):
                put inputs: a <- A[m, k]
    role math, warps 4:
        for m in work:
            total = full(0)
            get values:
                BEFORE
                for k in blocks(N, 32):
                    get inputs: total = total + row_sum(read(a))
                AFTER
"""


@pytest.mark.parametrize("copied_first", [False, True])
def test_what_threads_store_is_ordered_with_what_the_copy_engine_stores(
    copied_first: bool, seed: int
) -> None:
    words = ("S[m] <- v", "S[m] <- total")
    text = VECTORS.replace("BEFORE", words[0] if copied_first else "pass_")
    text = text.replace("                pass_\n", "")
    after = words[1] if copied_first else f"{words[1]}\n                {words[0]}"
    kernel = tkc.compile(text.replace("AFTER", after), target="sm_100a")
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (136, 40)).astype(np.float32)
    v, out = rng.uniform(-1, 1, 136).astype(np.float32), np.full(136, np.nan, np.float32)
    report = kernel.emulate(a, v, out, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    np.testing.assert_allclose(out, a.sum(1) if copied_first else v, atol=1e-5)
    assert check(kernel.module(after="eliminate-fences")) == []


THREE = """
kernel three(V: global[f32, M], S: global[f32, M], flag: i32):
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared v: vector[f32, 64]
    shared w: vector[f32, 128]
    pipe values(v, w): load -> math
    role load:
        for m in work:
            put values:
                v <- V[m.part(0, 2)]
                w <- V[m]
    role math, warps 2:
        for m in work:
            get values:
BODY
"""
"""Stores to either half of a block and to all of it: of two that are apart, each meets the third."""

STORES = {
    "0": ("S[m.part(0, 2)] <- v", "S[m.part(0, 2)] <- read(v) * 2"),
    "1": ("S[m.part(1, 2)] <- v", "S[m.part(1, 2)] <- read(v) * 2"),
    "all": ("S[m] <- w", "S[m] <- read(w) * 2"),
}
"""By the copy engine, or by threads: there are too few elements for 16 bytes a thread."""

FORMS = {
    "straight": ("0", "1", "all", "{}\n{}\n{}"),
    "loop": ("all", "0", "1", "for i in range(2):\n    {}\n    {}\n    {}"),
    "condition": ("all", "0", "1", "{}\nif flag > 0: {}\n{}"),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by", range(8))
def test_three_stores_by_the_copy_engine_or_threads(form: str, by: int, seed: int) -> None:
    *places, shape = FORMS[form]
    threads = [by >> n & 1 for n in range(3)]
    stores = [STORES[place][t] for place, t in zip(places, threads, strict=True)]
    body = "\n".join(" " * 16 + line for line in shape.format(*stores).split("\n"))
    kernel = tkc.compile(THREE.replace("BODY", body), target="sm_90a" if by % 2 else "sm_100a")
    rng = np.random.default_rng(seed)
    v, out = rng.uniform(-1, 1, 128).astype(np.float32), np.full(128, np.nan, np.float32)
    report = kernel.emulate(v, out, 1, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    wanted = np.full(128, np.nan)
    for place, t in zip(places, threads, strict=True):
        rows = slice(64, None) if place == "1" else slice(64 if place == "0" else None)
        wanted[rows] = (v if place == "all" else v[:64]) * (1 + t)
    np.testing.assert_allclose(out, wanted, atol=1e-5)
    assert check(kernel.module(after="eliminate-fences")) == []


def test_waits_are_numbered_as_they_stand() -> None:
    text = program("for i in range(2):\n    Y[m, k] <- a\n    Y[m, k] += b")
    found = tkc.compile(text).module(after="order-stores").walk()
    names = [op.id.data for op in found if isinstance(op, BulkWaitOp)]
    assert names == ["math.stored", "math.stored.2"]


OTHERS = """
kernel others(A: global[f32, M, N], V: global[f32, M], S: global[f32, M], U: global[f32, M]):
    launch persistent
    schedule work: m in tiles(blocks(M, 64))
    shared a: tile[f32, 64, 32] * 2
    shared v: vector[f32, 64]
AGAIN
    pipe inputs(a): load -> math
    pipe values(v): load -> math
    role load:
        for m in work:
            put values: v <- V[m]
            for k in blocks(N, 32):
                put inputs: a <- A[m, k]
    role math, warps 2:
        for m in work:
            t = full(0)
            get values:
                for k in blocks(N, 32):
                    get inputs: t = t + row_sum(read(a))
BODY
THEN
"""

AGAIN = """
    shared z: vector[f32, 64]
    pipe again(z): math -> last"""

LAST = """
    role last, warps 2:
        for m in work:
            get again: U[m] <- z
"""

MINE, MIRRORED = "m.index * 64 + thread", "m.index * 64 + 63 - thread"
ELEMENT = f"if {MINE} < M: U[{MINE}] <- read(S[{MINE}])"
ACROSS = f"if {MIRRORED} < M: U[{MIRRORED}] <- read(S[{MIRRORED}])"
ONE = f"if {MINE} < M: S[{MINE}] <- 7.0"
ADD = f"if {MINE} < M: atomic_add(S[{MINE}], 1.0)"
LOADED = "put again: z <- S[m]"

Two = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray | float, np.ndarray | float]]

TOUCHED: dict[str, tuple[str, Two]] = {
    "copied, one": (f"S[m] <- v\n{ONE}", lambda t, v, s: (7, np.nan)),
    "one, copied": (f"{ONE}\nS[m] <- v", lambda t, v, s: (v, np.nan)),
    "copied, atomic": (f"S[m] <- v\n{ADD}", lambda t, v, s: (v + 1, np.nan)),
    "copied, read": (f"S[m] <- v\n{ELEMENT}", lambda t, v, s: (v, v)),
    "stored, read by others": (f"S[m] <- t\n{ACROSS}", lambda t, v, s: (t, t)),
    "read, copied": (f"{ELEMENT}\nS[m] <- v", lambda t, v, s: (v, s)),
    "copied, vector": ("S[m] <- v\nx = read(S[m])\nU[m] <- x + t", lambda t, v, s: (v, v + t)),
    "one, vector": (f"{ONE}\nx = read(S[m])\nU[m] <- x + t", lambda t, v, s: (7, 7 + t)),
    "vector, copied": ("x = read(S[m])\nS[m] <- v\nU[m] <- x + t", lambda t, v, s: (v, s + t)),
    "vector, stored": ("x = read(S[m])\nS[m] <- t\nU[m] <- x + t", lambda t, v, s: (t, s + t)),
    "vector, in turns": (
        "x = read(S[m])\nfor i in range(2): S[m] <- x + t",
        lambda t, v, s: (s + t, np.nan),
    ),
    "in place": ("S[m] <- read(S[m]) + t\nU[m] <- read(S[m]) + t", lambda t, v, s: (s + t, s + 2 * t)),
    "copied, loaded": (f"S[m] <- v\n{LOADED}", lambda t, v, s: (v, v)),
    "one, loaded": (f"{ONE}\n{LOADED}", lambda t, v, s: (7, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", TOUCHED)
def test_what_else_touches_a_place_is_ordered_with_stores(name: str, seed: int) -> None:
    body, wanted = TOUCHED[name]
    loads = LOADED in body
    lines = "\n".join(" " * 16 + line for line in body.split("\n"))
    text = OTHERS.replace("BODY", lines).replace("AGAIN", AGAIN if loads else "")
    text = text.replace("THEN", LAST if loads else "")
    kernel = tkc.compile(text, target="sm_100a")
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (72, 20)).astype(np.float32)
    v, s = (rng.uniform(-1, 1, 72).astype(np.float32) for _ in range(2))
    t, out, before = a.sum(1), np.full(72, np.nan, np.float32), s.copy()
    report = kernel.emulate(a, v, s, out, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    for found, value in zip((s, out), wanted(t, v, before), strict=True):
        np.testing.assert_allclose(found, value, atol=1e-5)
    assert check(kernel.module(after="eliminate-fences")) == []


def test_a_vector_of_columns_that_is_used_after_its_place_is_written_is_refused() -> None:
    text = VECTORS.replace("BEFORE", "x = read(S[m])\n                S[m] <- v")
    with pytest.raises(tkc.TkcError, match="before the write") as error:
        tkc.compile(text.replace("AFTER", "V[m] <- x * 2"), target="sm_100a")
    assert "the place is written here" in str(error.value)


CLEARED = """
kernel clear(W: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared x: tile[f32, 128, 32] * 3
    shared f: vector[f32, 128] * 3
    pipe loaded(x): io -> out
    pipe back(f): out -> io
    role io, warps 4:
        for m in work:
            for n in blocks(N, 32):
                put loaded: x <- W[m, n]
                get back: W[m, n] <- full(0)
    role out, warps 4:
        for m in work:
            for n in blocks(N, 32):
                get loaded, put back:
                    Y[m, n] <- read(x) * 2
                    f <- row_max(read(x))
"""
"""What is loaded is cleared, as soon as who gets it says that it is there."""

UNHEARD = {
    "behind": ("                get back: W", "                W"),
    "in the put": ("x <- W[m, n]\n                get back: ", "x <- W[m, n]; "),
    "in a loop behind": (
        "                get back: W[m, n]",
        "            for n in blocks(N, 32): W[m, n]",
    ),
}


def test_a_place_is_written_when_the_load_of_it_is_known_to_be_over(seed: int) -> None:
    kernel = tkc.compile(CLEARED, target="sm_90a")
    w = np.random.default_rng(seed).uniform(-1, 1, (200, 100)).astype(np.float32)
    before, y = w.copy(), np.full((200, 100), np.nan, np.float32)
    report = kernel.emulate(w, y, schedule="random", seed=seed, sm_count=2)
    assert not report.findings, report.findings[0]
    assert np.array_equal(y, 2 * before)
    assert not w.any()
    assert check(kernel.module(after="eliminate-fences")) == []


@pytest.mark.parametrize("which", UNHEARD)
def test_a_place_is_not_written_while_its_load_may_be_under_way(which: str) -> None:
    text = changed(CLEARED, UNHEARD[which], ("    pipe back(f): out -> io\n", ""))
    text = changed(
        text,
        ("get loaded, put back", "get loaded"),
        ("                    f <- row_max(read(x))\n", ""),
    )
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text, target="sm_90a")
    (found,) = caught.value.diagnostics
    assert (found.code, found.notes[0].message) == ("TK110", "the place is loaded here")
    assert "put an item to this one that is got before" in found.message


def test_places_that_data_tells_are_left_to_the_check() -> None:
    """They may never be the same."""
    text = changed(
        CLEARED, UNHEARD["behind"], ("    pipe back(f): out -> io\n", ""), ("get loaded, put back", "get loaded"),
        ("                    f <- row_max(read(x))\n", ""), ("W: global[f32, M, N]", "W: global[f32, P, M, N], of: const global[i32, P]"),
        ("x <- W[m, n]", "x <- W[read(of[0]), m, n]"), ("W[m, n] <- full", "W[read(of[1]), m, n] <- full"),
    )  # fmt: skip
    assert tkc.compile(text, target="sm_90a").ptx

"""Mistakes of meaning: each with its code, its place and what the message must say."""

from __future__ import annotations

import pytest
from programs import GEMM, changed, compiled, elementwise, mistakes, only

from tkc.diagnostics import TkcError
from tkc.frontend import compile_source

CASES = [
    # names
    ("put inputs:", "put input:", "TK102", "input", "did you mean the pipe `inputs`"),
    ("a <- A[m, k]", "aa <- A[m, k]", "TK102", "aa", "did you mean"),
    ("a <- A[m, k]", "a <- A[m, kk]", "TK102", "kk", "did you mean the loop variable `k`"),
    ("for m, n in work:", "for m, n in wrk:", "TK102", "wrk", "the schedule `work`"),
    ("pipe inputs(a, b)", "pipe inputs(a, c)", "TK102", "c", "no shared tile or accumulator"),
    ("load -> math", "lod -> math", "TK102", "lod", "did you mean `load`"),
    ("bf16(read(d))", "bf61(read(d))", "TK102", "bf61", "did you mean `bf16`"),
    ("launch persistent", "launch persistant", "TK102", "persistant", "mean `persistent`"),
    ("blocks(N, BN), group", "blocks(N, BN), grp", "TK102", "grp", "did you mean `group`"),
    ("blocks(M, BM)", "block(M, BM)", "TK102", "block(M, BM)", "did you mean `blocks`"),
    ("role store:", "role store, warp 4:", "TK102", "warp", "did you mean `warps`"),
    ("b.T", "b.t", "TK102", "t", "has no `.t`"),
    ("C: global[bf16, M, N]", "C: glob[bf16, M, N]", "TK106", "glob[bf16, M, N]", "mean `global`"),
    ("C: global[bf16, M, N]", "C: global[bf61, M, N]", "TK105", "bf61", "did you mean `bf16`"),
    ("BM = 128", "BM = BN", "TK102", "BN", "before it is defined"),
    # defined twice
    ("shared b:", "shared a:", "TK103", "a", "defined twice"),
    ("shared b:", "shared BM:", "TK103", "BM", "a param before"),
    ("shared b:", "shared M:", "TK103", "M", "a size before"),
    ("BM = 128, BN = 256", "BM = 128, BM = 256", "TK103", "BM", "defined twice"),
    ("shared b:", "shared exp:", "TK103", "exp", "a word of the language"),
    ("launch persistent", "launch persistent, persistent", "TK103", "persistent", "twice"),
    ("pipe inputs(a, b)", "pipe inputs(a, b, b)", "TK103", "b", "twice"),
    ("role load:", "role load, warps 4, warps 4:", "TK103", "warps", "set twice"),
    # shapes
    ("a <- A[m, k]", "a <- A[k, m]", "TK104", "k", "axis 0 of A has the extent M"),
    ("a <- A[m, k]", "a <- B[n, k]", "TK104", "a <- B[n, k]", "[128, 64] and `B[n, k]` is [256, 6"),
    ("a @ b.T", "a @ b", "TK104", "a @ b", "64 is not 256"),
    ("a @ b.T", "a @ a.T", "TK104", "d += a @ a.T", "[128, 128], and accumulator d is [128, 256]"),
    ("BM, BK] * STAGES", "BM, BK] * 3", "TK104", "inputs", "a * 3, b * 4"),
    ("a <- A[m, k]", "a <- A[m, 3]", "TK104", "a <- A[m, 3]", "is [128]"),
    # dtypes
    ("bf16(read(d))", "read(d)", "TK105", "read(d)", "`bf16(read(d))` fits"),
    (
        "tile[f32, BM, BN]",
        "tile[bf16, BM, BN]",
        "TK105",
        "d = 0",
        "f16 of f16 and 8-bit floats, or i32 of s8 and u8, not bf16: `d` is a first operand of products",
    ),
    ("shared b: tile[bf16", "shared b: tile[f16", "TK105", "B[n, k]", "is f16 and"),
    # kinds
    ("bf16(read(d))", "bf16(d)", "TK106", "d", "`read(d)` is"),
    ("a <- A[m, k]", "a <- A(m, k)", "TK106", "A", "`A[...]`"),
    ("a <- A[m, k]", "A <- A[m, k]", "TK106", "A", "a copy goes to a slice"),
    ("d = 0", "d <- 0", "TK106", "d <- 0", "cleared by `d = 0`"),
    ("d = 0", "d = 0\n                m = 3", "TK106", "m", "a loop variable"),
    ("d = 0", "d = 0\n                BM = 3", "TK106", "BM", "a param: it is not assigned"),
    ("d = 0", "d = 0\n                d", "TK106", "d", "used for nothing"),
    ("for k in blocks(K, BK):", "for k in a:", "TK106", "a", "not over the shared tile a"),
    ("put inputs:", "put a:", "TK106", "a", "is a shared tile"),
    ("BM = 128", "BM = 256 / 2", "TK106", "256 / 2", "`//` floors and `cdiv(256, 2)` rounds up"),
    ("BM = 128", "BM = 1.5", "TK106", "1.5", "is an integer, not the number 1.5"),
    ("a @ b.T", "read(a) @ b.T", "TK110", "read(a)", "operand in registers"),
    ("pipe inputs(a, b)", "pipe inputs(a, b, work)", "TK106", "work", "carries tiles"),
    ("a <- A[m, k]", "a <- A[m, a]", "TK106", "a", "a block or an integer"),
    (
        "tiles(blocks",
        "rows(blocks",
        "TK106",
        "rows(blocks(M, BM), blocks(N, BN), group = 8)",
        "`til",
    ),
    ("A: global[bf16, M, K]", "A: global(bf16, M, K)", "TK106", "global(bf16, M, K)", "square"),
    # ownership
    ("get inputs:", "put inputs:", "TK107", "put inputs", "role math does not put pipe inputs"),
    ("d += a @ b.T", "d += a @ b.T\n                        a <- A[m, BK]", "TK107", "a", "load"),
    ("d = 0", "d = 0\n                x = read(d)", "TK107", "d", "is read in a get, by `store`"),
    (
        "d += a @ b.T",
        "d += a @ b.T\n            x = read(a)",
        "TK108",
        "a",
        "outside its put or get",
    ),
    # values
    ("BM = 128", "BM = 0", "TK111", "0", "expected 1 to 2147483647"),
    ("BM = 128", "BM = 1 - 2", "TK111", "1 - 2", "is -1"),
    ("BM = 128", "BM = 99999999999999999999999", "TK117", "99999999999999999999999", "32 bits"),
    ("BM = 128", "BM = 65536 * 65536", "TK117", "65536 * 65536", "is 4294967296, beyond 32 bits"),
    ("BM = 128", "BM = 128 // 0", "TK117", "128 // 0", "divided by 0"),
    ("BM = 128", "BM = 128 % 0", "TK117", "128 % 0", "divided by 0"),
    ("tile[bf16, BM, BK]", "tile[bf16, BM, K]", "TK117", "K", "fixed at compile time"),
    ("group = 8", "group = 0", "TK117", "0", "at least 1"),
    ("role load:", "role load, warps 0:", "TK117", "0", "at least 1"),
    ("a <- A[m, k]", "a <- A[m, 0 - 1]", "TK104", "0 - 1", "outside axis 1 of A"),
    # counts
    ("a <- A[m, k]", "a <- A[m]", "TK116", "A[m]", "2 axes and is given 1 index"),
    ("for k in blocks(K, BK):", "for k in blocks(K):", "TK116", "blocks(K)", "not 1 value"),
    ("for m, n in work:", "for m in work:", "TK116", "m", "1 variable for 2 axes"),
    ("work: m, n in", "work: m in", "TK116", "work", "names 1 axis of 2"),
    (
        "for m, n in work:",
        "for m, n in tiles(blocks(M, BM), blocks(N, BN)):",
        "TK106",
        "tiles(blocks(M, BM), blocks(N, BN))",
        "is of a schedule, which has a name that roles share",
    ),
    ("read(d)", "read(d, d)", "TK116", "read(d, d)", "takes 1 value, not 2"),
    # accumulators
    ("d = 0\n", "\n", "TK114", "d += a @ b.T", "without `d = 0` before it"),
    ("a <- A[m, k]\n", "\n", "TK114", "put inputs", "never writes `a`"),
    # the wrong place
    ("launch persistent", "put inputs: a <- 1", "TK101", "put inputs", "stands in a role"),
    ("launch persistent", "d = 0", "TK101", "d = 0", "stands in a role"),
    ("d = 0", "d = 0\n                param X = 1", "TK101", "param X = 1", "in the kernel's body"),
    ("a <- A[m, k]", "a = A[m, k]", "TK101", "a = A[m, k]", "copied to by `<-`"),
    ("C[m, n] <- bf16", "C[m, n] = bf16", "TK101", "C[m, n] = bf16(read(d))", "copied to by `<-`"),
    ("a <- A[m, k]", "a <= A[m, k]", "TK101", "a <= A[m, k]", "did you mean `<-`"),
    ("launch persistent", "lunch persistent", "TK101", "lunch", "did you mean `launch`"),
]


@pytest.mark.parametrize(
    ("old", "new", "code", "place", "told"), CASES, ids=[f"{c[2]}-{c[1][:24]!r}" for c in CASES]
)
def test_a_mistake_is_found_where_it_is(
    old: str, new: str, code: str, place: str, told: str
) -> None:
    said = [s for s in mistakes(changed(GEMM, (old, new))) if s.code == code and told in s.message]
    assert only(said).text == place
    at = said[0].diagnostic.location
    assert at is not None
    assert at.end_column > at.column


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BM = 128", "BM = 0"),
        ("launch persistent", "launch persistant"),
        ("put inputs:", "put input:"),
        ("a <- A[m, k]", "aa <- A[m, k]"),
        ("load -> math", "lod -> math"),
        ("shared a: tile[bf16", "shared a: tile[bf61"),
        ("A: global[bf16, M, K]", "A: glob[bf16, M, K]"),
        ("for m, n in work:", "for m, n in wrk:"),
        ("schedule work: m, n in tiles", "schedule work: m, n in tils"),
        ("get inputs:", "put inputs:"),
        ("d = 0\n", "d = nothing\n"),
    ],
)
def test_one_mistake_is_reported_once(old: str, new: str) -> None:
    """Uses of what was wrong once are silent."""
    only(mistakes(changed(GEMM, (old, new))))


def test_several_mistakes_are_reported_in_order() -> None:
    said = mistakes(
        changed(
            GEMM,
            ("launch persistent", "launch persistant"),
            ("a <- A[m, k]", "a <- A[k, m]"),
            ("bf16(read(d))", "read(d)"),
        )
    )
    assert [s.code for s in said] == ["TK102", "TK104", "TK105"]
    assert [s.line for s in said] == sorted(s.line for s in said)


def test_notes_show_the_other_place() -> None:
    said = only(mistakes(changed(GEMM, ("shared b:", "shared a:")))[:1])
    note = said.diagnostic.notes[0]
    assert note.location is not None
    assert (note.message, note.location.line) == ("`a` is first defined here", 9)


def test_what_cannot_be_an_accumulator_may_have_been_meant_for_an_operand() -> None:
    said = only(mistakes(changed(GEMM, ("accum  d: tile[f32", "accum  d: tile[e4m3"))))
    assert "registers write a `shared` tile" in said.diagnostic.notes[0].message


LATER = [
    ("launch persistent", "launch cooperative", "`launch cooperative`"),
    ("A: global[bf16, M, K]", "A: list[G, list[H, global[bf16, M, K]]]", "a list of lists"),
    ("A: global[bf16, M, K]", "A: list[G, global[bf16, M, K, major = 0]]", "`major` in a list"),
    ("A: global[bf16, M, K]", "A: global[e2m1, M, K]", "smaller than a byte"),
    ("A: global[bf16, M, K]", "A: global[tf32]", "a tensor of tf32 without axes"),
    ("C: global", "x: s8, C: global", "scalar arguments of s8"),
    ("tile[bf16, BM, BK]", "tile[bf16, BM]", "a tile of 1 axis"),
    ("load -> math", "load -> load", "from role load to itself"),
    ("a <- A[m, k]", "a <- A[m, k]; a <- A[m, k]", "a second copy into `a`"),
    ("d += a @ b.T", "d -= a @ b.T", "`-=` of an accumulator"),
    (
        "C[m, n] <- bf16(read(d))",
        "x = 1\n                while x < 2:\n                    elect: break\n                    x = 2",
        "`break` inside an election",
    ),
    (
        "d = 0",
        "if K > 1: d = 0",
        "accumulator d of a pipe under a condition inside its put: only `d += a @ b` may stand in it",
    ),
    ("for k in blocks(K, BK):", "for k in blocks(K, BK), behind = d:", "`behind = ...` in a `for`"),
    ("bf16(read(d))", "ue8m0(read(d))", "register tiles of ue8m0"),
    ("bf16(read(d))", "bf16(read(d)) * 2", "arithmetic in bf16"),
    ("bf16(read(d))", "bf16(read(d) if 1.0 > 0.5 else 0)", "conditions on anything but integers"),
    ("bf16(read(d))", "bf16(read(d) * (K > 1))", "a condition in floating-point"),
    ("bf16(read(d))", "A[m, n]", "runs over N, and axis 1 of A"),
    ("bf16(read(d))", "C[m, n]", "a copy from tensor to tensor"),
]


MENDED = [
    ("bf16(read(d))", "bf16(read(d) - column(row_max(read(d))))", "it stands beside a tile as it is", "column(row_max(read(d)))"),
    ("bf16(read(d))", "bf16(read(d) - row(row_max(read(d))))", "this is one value a row, [128, 1]: a vector has one value a column", "row(row_max(read(d)))"),
    ("bf16(read(d))", "bf16(read(d) if 0 < read(d) < 1 else 0)", "a comparison has two sides: `0 < read(d) and read(d) < 1`", "0 < read(d) < 1"),
    ("bf16(read(d))", "bf16(read(d) ** 2)", "the language has no `**`: a square is `x * x`", "**"),
    ("param BM = 128", "param BM = 2 ** 7", "the language has no `**`", "**"),
    ("for k in blocks(K, BK):", "if K > 1 && N > 1:", "no operator `&&`: `and` joins conditions", "&&"),
    ("for k in blocks(K, BK):", "if K > 1 || N > 1:", "unexpected characters `||`: `or` joins conditions", "||"),
    ("pipe inputs(a, b): load -> math", "pipe inputs(a, b): load -> math[2] by turns", "declared together as `role math[i in 0, 1]:`", "math[2"),
]  # fmt: skip
"""What people write first, what they are told, and what is underlined."""


@pytest.mark.parametrize(("old", "new", "what", "underlined"), MENDED, ids=[c[1] for c in MENDED])
def test_a_slip_is_told_once_at_its_place_with_what_mends_it(
    old: str, new: str, what: str, underlined: str
) -> None:
    (said,) = mistakes(changed(GEMM, (old, new)))
    assert what in said.message
    assert said.text == underlined


@pytest.mark.parametrize(("old", "new", "what"), LATER, ids=[c[1] for c in LATER])
def test_what_cannot_be_compiled_yet_is_named(old: str, new: str, what: str) -> None:
    said = [s for s in mistakes(changed(GEMM, (old, new))) if what in s.message]
    assert said, [s.message for s in mistakes(changed(GEMM, (old, new)))]
    assert said[0].code == ("TK104" if "runs over" in what else "TK110")


def test_a_copy_in_a_loop_of_its_put_is_named() -> None:
    text = changed(
        GEMM,
        (
            "                    a <- A[m, k]",
            "                    for j in blocks(K, BK): a <- A[m, j]",
        ),
    )
    assert only(mistakes(text)).message.endswith("from a loop inside its put")


def test_a_schedule_loop_stands_outermost() -> None:
    text = changed(GEMM, ("for k in blocks(K, BK):", "for i, k in work:"))
    assert "the loop over a schedule inside another loop" in mistakes(text)[0].message


def test_an_accumulator_cleared_in_a_loop_may_be_unset() -> None:
    text = changed(GEMM, ("                d = 0\n", ""), ("d += a @ b.T", "d = a @ b.T"))
    said = only(mistakes(text))
    assert said.code == "TK114"
    assert "only in a loop, which may run no times" in said.message


def test_a_product_may_clear_its_accumulator() -> None:
    loop = "                for k in blocks(K, BK):\n                    get inputs:\n"
    text = changed(
        GEMM,
        (
            "                d = 0\n" + loop + " " * 24 + "d +=",
            "                get inputs:\n" + " " * 20 + "d =",
        ),
        (
            "            for k in blocks(K, BK):\n                put inputs:",
            "            put inputs:",
        ),
        (" " * 20 + "a <- A[m, k]", " " * 16 + "a <- A[m, 0]"),
        (" " * 20 + "b <- B[n, k]", " " * 16 + "b <- B[n, 0]"),
    )
    assert {s.code for s in mistakes(text)} == {"TK104"}  # an integer index drops its axis


def test_blocks_of_an_expression_index_no_axis_yet() -> None:
    text = changed(
        GEMM,
        (
            "for k in blocks(K, BK):\n                put",
            "for k in blocks(K // 2, BK):\n                put",
        ),
    )
    assert "block k runs over K // 2" in mistakes(text)[0].message
    assert mistakes(text)[0].code == "TK110"


ELEMENTWISE = [
    ("Z[m, n] <- read(x)", "TK105", "`f32(read(x))` fits"),
    ("Z[m, n] <- read(y) + read(x)", "TK110", "arithmetic in bf16"),
    ("Z[m, n] <- read(y) // 2", "TK106", "`//` takes integers"),
    ("Z[m, n] <- log(0) * read(y)", "TK117", "log of 0 has no value"),
    ("Z[m, n] <- read(y) * (m.index // 0)", "TK117", "an integer of the kernel is divided by 0"),
    ("Z[m, n] <- read(y) * (m.index % (BM - BM))", "TK117", "divided by 0"),
    ("Z[m, n] <- read(y) * (m.index % (0 - 2))", "TK117", "not negative, and -2 is"),
    ("Z[m, n] <- read(y) * 1e39", "TK501", "does not fit f32"),
    ("Z[m, n] <- read(y) * (1.0 / 0.0)", "TK117", "div of 1, 0 has no value"),
    ("Z[m, n] <- cdiv(read(y), 2)", "TK106", "`cdiv` takes integers"),
    ("Z[m, n] <- read(y) @ read(y)", "TK110", "operand in registers"),
    ("Z[m, n] <- x @ y.T", "TK105", "`@` of bf16 and f32"),
    ("Z[m, n] <- x @ x.T", "TK106", "goes to an accumulator"),
    ("v = y.T", "TK106", "the transpose of y"),
    ("Z[m, n] <- y.T", "TK104", "a copy keeps the shape"),
    ("Z[m, n] <- read(y.T)", "TK106", "`read` takes a shared tile"),
    ("v = read(y).T + 1", "TK110", "arithmetic on a transpose"),
    ("v = row_sum(read(y)) + read(Y[m, 0]).T", "TK106", "`.T` is of tiles"),
    ("Z[m, n] <- read(y).T", "TK104", "a copy keeps the shape"),
    ("v = Y[m, n]", "TK110", "reading Y into registers"),
    ("v = read(Y[m, n])", "TK110", "reading [128, 64] of Y"),
    ("Z[m, n] <- row_sum(read(y))", "TK104", "a copy keeps the shape"),
    ("v = row_sum(row_sum(read(y)))", "TK106", "takes a tile of two axes"),
    ("v = row_sum(read(x))", "TK110", "arithmetic in bf16"),
    ("v = row(read(y))", "TK106", "`row` takes a vector"),
    ("v = full(read(y))", "TK106", "`full` takes a number"),
    ("v = read(Y[m, 0]) + read(Y[0, n])", "TK104", "shapes [128] and [64]"),
    ("v = m", "TK106", "the block m is no register value"),
    ("v = work", "TK106", "the schedule work is no register value"),
    ("v = bf16", "TK106", "`bf16` is a function"),
    ("v = tile[f32, 1, 1]", "TK106", "is a type, not a value"),
    ("x += read(y)", "TK106", "`x` is a shared tile"),
    ("x[m] = 1", "TK106", "a slot's number, not the block m"),
    ("Z[m, n] -= read(y)", "TK110", "`-=` of a slice"),
    ("X[m, 0] += bf16(row_sum(read(y)))", "TK110", "adding a vector of bf16 in registers"),
    ("Z[m, n] += read(x)", "TK105", "`f32(read(x))` fits"),
    ("exp = read(y)", "TK103", "a word of the language"),
    ("(v) + 1 = 2", "TK106", "`(v) + 1` cannot be assigned"),
    ("v = w + u * t", "TK102", "unknown name"),
    ("1 = 2", "TK106", "cannot be assigned"),
    ("Z[m, m] <- read(y)", "TK104", "axis 1 of Z"),
    ("Z[n = m, n] <- read(y)", "TK106", "an index has no name"),
]


@pytest.mark.parametrize(("line", "code", "told"), ELEMENTWISE, ids=[c[0] for c in ELEMENTWISE])
def test_a_wrong_expression_is_explained(line: str, code: str, told: str) -> None:
    said = mistakes(elementwise(line, arguments=", scale: f32, count: i32"))
    assert {s.code for s in said} == {code}
    assert told in said[0].message
    assert len({s.text for s in said}) == len(said)


def test_a_carried_value_keeps_its_type() -> None:
    text = elementwise(
        "v = read(x)", "for j in blocks(N, BN):", "    v = f32(v)", "Z[m, n] <- f32(v)"
    )
    said = only(mistakes(text))
    assert said.code == "TK105"
    assert "bf16 [128, 64] before the loop and f32 [128, 64] in it" in said.message
    assert said.diagnostic.notes[0].location is not None


def test_what_only_a_loop_sets_is_unset_after_it() -> None:
    text = elementwise("for j in blocks(N, BN):", "    v = read(y)", "Z[m, n] <- v")
    said = only(mistakes(text))
    assert said.code == "TK102"
    assert "set only inside a loop or under a condition, and so may not be" in said.message


def test_unused_arguments_and_variables_are_fine() -> None:
    compiled(elementwise("v = read(y) * scale", arguments=", scale: f32, count: i32"))


def test_a_kernel_without_roles_is_empty() -> None:
    said = only(mistakes("kernel k(A: f32):\n    param X = 1\n"))
    assert (said.code, said.text) == ("TK113", "k")


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "\ufeff", "   \n\t\n# a\n"])
def test_an_empty_program_is_said_to_be_empty(text: str) -> None:
    assert only(mistakes(text)).code == "TK113"


def test_a_name_is_unknown_once() -> None:
    lines = (
        "v = read(y) * gate",
        "u = gate + gate",
        "Z[m, n] <- gate",
        "gate = 2.0",
        "t = gate * v",
    )
    said = only(mistakes(elementwise(*lines)))
    assert (said.message, said.text) == ("unknown name `gate`", "gate")


def test_a_fix_is_offered_only_where_it_is_whole() -> None:
    short = only(mistakes(elementwise("W[m, n] <- read(y)")))
    assert str(short.diagnostic.fix) == "bf16(read(y))"
    split = only(mistakes(elementwise("W[m, n] <- max(read(y),", "    read(y))")))
    assert split.diagnostic.fix is None
    assert "`bf16(...)` fits" in split.message


def test_messages_quote_at_most_a_line() -> None:
    name = "n" * 5000
    for line in (f"Z[m, n] = {name}", f"Z[m, n] <- {name}", f"{name} {name}", "1" * 5000 + " 2"):
        assert all(len(s.message) < 500 for s in mistakes(elementwise(line)))


def test_a_product_takes_tiles_of_two_axes() -> None:
    text = changed(GEMM, ("b: tile[bf16, BN, BK]", "b: vector[bf16, BN]"), ("b <- B[n, k]", "b <- B[n, 0]"))  # fmt: skip
    assert any(
        x.code == "TK104" and "`@` takes tiles of two axes" in x.message for x in mistakes(text)
    )


INTEGER_LOOPS = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], w: i32):
    launch persistent
    schedule work: b, m in tiles(M, blocks(N, 64))
    role math, warps 4:
        for b, m in work:
            for i in range(w):
                y = WHAT
"""


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("b.index", "the loop's integer b has no `.index`: it is the number, `b`"),
        ("b.last", "the loop's integer b has no `.last`: `b == M - 1` says so"),
        ("i.index", "an integer of the kernel has no `.index`: it is the number, `i`"),
        ("i.first", "an integer of the kernel has no `.first`: `i == 0` says so"),
        ("w.last", "the integer w has no `.last`: `w == n - 1` says so, in a `range(n)`"),
        ("m.indx", "the block m has no `.indx`; did you mean `.index`"),
        ("m.size", "the block m has no `.size`: it has `.index`, `.first`, `.last` and `.part(i, n)`"),
    ],
)  # fmt: skip
def test_what_only_blocks_have(what: str, told: str) -> None:
    with pytest.raises(TkcError) as raised:
        compile_source(INTEGER_LOOPS.replace("WHAT", what), "k.tk")
    [said] = raised.value.diagnostics
    assert said.code == "TK102"
    assert said.message.startswith(told)

"""Text to tree: what is accepted in which form, and that a mistake does not hide the next."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from programs import EXAMPLES, GEMM, changed, compiled, mistakes, only

import tkc.frontend.syntax as S
from tkc.frontend.parse import parse
from tkc.frontend.source import MAX_DEPTH, MAX_ERRORS, Source


def tree(text: str) -> S.File:
    source = Source(text, "k.tk")
    found = parse(source)
    assert found is not None, [d.message for d in source.found.diagnostics]
    return found


def statements(*lines: str) -> S.Block:
    """The body of a kernel of these lines."""
    return tree("kernel k():\n" + "\n".join(f"    {line}" for line in lines)).kernels[0].body


def expression(text: str) -> S.Expression:
    (statement,) = statements(text)
    assert isinstance(statement, S.Evaluate)
    return statement.value


def shape(e: S.Expression) -> str:
    """An expression with all its brackets."""
    match e:
        case S.Binary():
            return f"({shape(e.left)} {e.operator} {shape(e.right)})"
        case S.Unary():
            return f"({e.operator} {shape(e.operand)})"
        case S.Choice():
            return f"({shape(e.then)} if {shape(e.condition)} else {shape(e.otherwise)})"
        case S.Call():
            return f"{shape(e.function)}({', '.join(shape(a.value) for a in e.arguments)})"
        case S.Index():
            return f"{shape(e.base)}[{', '.join(shape(a.value) for a in e.arguments)}]"
        case S.Attribute():
            return f"{shape(e.base)}.{e.name.text}"
        case S.Name():
            return e.text
        case S.Integer() | S.Real():
            return repr(e.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a @ b.T * 2", "((a @ b.T) * 2)"),
        ("-a * b", "((- a) * b)"),
        ("a // b % c / d", "(((a // b) % c) / d)"),
        ("not a < b and c or d", "(((not (a < b)) and c) or d)"),
        ("a if b else c if d else e", "(a if b else (c if d else e))"),
        ("f(a, b[c, d])[e].g", "f(a, b[c, d])[e].g"),
        ("(a + b) * c", "((a + b) * c)"),
        ("0x1F + 1_000 + 1.5e3 + .5 + 2.", "((((31 + 1000) + 1500.0) + 0.5) + 2.0)"),
        ("a < -b", "(a < (- b))"),
    ],
)
def test_expressions_group_as_in_python(text: str, wanted: str) -> None:
    assert shape(expression(text)) == wanted


def test_statements_become_their_kinds() -> None:
    kinds = {
        "param A = 1, B = A": S.Param,
        "launch persistent, cluster(2, preferred = 4)": S.Launch,
        "schedule w(i): m, n in tiles(x, group = 8) where c.any(m)": S.Schedule,
        "shared a, b[2]: tile[bf16, A, B] * 4": S.Declare,
        "accum p[2]: tile[bf16, A, B] in s": S.Declare,
        "pipe score[i](s[i], t): mma -> soft[i], other by turns": S.Pipe,
        "maps A, C: edited * 2": S.Maps,
        "role soft[i in 0, 1], warps 4, registers 192: x = 1": S.Role,
        "for m, n in work, ahead = score: x = 1": S.For,
        "get fix[i], put out[i] as o, q: x = 1": S.Transfer,
        "A[m, k] <- b, evict_first": S.Copy,
        "x = y": S.Assign,
        "x += y": S.Update,
        "x": S.Evaluate,
        "mask x where c": S.Words,
    }
    assert [type(s) for s in statements(*kinds)] == list(kinds.values())
    assert isinstance(statements("if a:", "    x", "elif b: y", "else: z")[0], S.Branch)


def test_a_put_repeats_its_word() -> None:
    (s,) = statements("get a, put b, c as d: x")
    assert isinstance(s, S.Transfer)
    words = [(i.direction, i.pipe.name.text, i.alias and i.alias.text) for i in s.items]
    assert words == [("get", "a", None), ("put", "b", None), ("put", "c", "d")]


def test_blocks_may_stand_on_their_headers_line() -> None:
    one = statements("for k in w: get p: x <- a; y <- b")
    many = statements("for k in w:", "    get p:", "        x <- a", "        y <- b;")
    strip = re.compile(r"Span\([^)]*\)")
    assert strip.sub("", repr(one)) == strip.sub("", repr(many))


@pytest.mark.parametrize(
    "program",
    re.findall(
        r"```\n(#.*?)```", Path(__file__).with_name("language.txt").read_text("utf-8"), re.DOTALL
    ),
)
def test_the_whole_of_level_one_parses(program: str) -> None:
    assert tree(program).kernels


SOURCES = sorted(EXAMPLES.glob("*.tk"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_line_ends_marks_and_comments_do_not_matter(path: Path) -> None:
    """Each example in every second variant: one in the first, third, …, the next in the others."""
    text = path.read_text(encoding="utf-8")
    wanted = str(compiled(text))
    variants = {
        "CRLF": text.replace("\n", "\r\n"),
        "CR": text.replace("\n", "\r"),
        "byte-order mark": "\ufeff" + text,
        "no last newline": text.rstrip("\n"),
        "trailing blanks": re.sub(r"\n", "  \t\n", text),
        "comments at any indent": re.sub(r"\n( +)", "\n# a – ü\n      # b\n\\1", text),
        "separators in comments": re.sub(r"\n( +)", "\n# a\u2028b\x0bc\n\\1", text),
        "tabs throughout": re.sub(
            r"^( {4})+", lambda m: "\t" * (len(m[0]) // 4), text, flags=re.MULTILINE
        ),
        "form feeds": text.replace("\n    role", "\n\f    role"),
        "split in brackets": text.replace("[m, n]", "[m,\n  # here\nn\n]").replace(
            "(blocks", "(\n\nblocks"
        ),
    }
    for name in list(variants)[SOURCES.index(path) % 2 :: 2]:
        assert str(compiled(variants[name])) == wanted, name


def test_positions_are_those_of_the_text() -> None:
    source = Source(GEMM, "k.tk")
    file = parse(source)
    assert file is not None
    seen = 0
    work: list[object] = [file]
    while work:
        node = work.pop()
        if isinstance(node, S.Name | S.Word):
            assert source.excerpt(node.span) == node.text
            seen += 1
        if isinstance(node, tuple) and not isinstance(node, S.Span):
            work += node
    assert seen > 80


LAYOUT = [
    (
        "                    b <- B[n, k]",
        "                      b <- B[n, k]",
        20,
        "deeper than line 19",
    ),
    (
        "                    b <- B[n, k]",
        "                  b <- B[n, k]",
        20,
        "18 spaces, where no block stands",
    ),
    (
        "                    b <- B[n, k]",
        "\t\tb <- B[n, k]",
        20,
        "2 tabs inside a block that is indented by 20",
    ),
    (
        "    role load:",
        "    role load:\n    role other:",
        15,
        "an indented block after `role load:`",
    ),
    ("blocks(M, BM), blocks", "blocks(M, BM, blocks", 7, "'(' is never closed"),
    ("tile[bf16, BM, BK]", "tile[bf16, BM, BK", 9, "'[' is never closed"),
    ("A[m, k]", "A[m, k)", 19, "')' where ']' should close the '['"),
    ("A[m, k]", "A m, k]", 19, "']' closes nothing: no '[' is open"),
    ("(read(d))", "((read(d))", 33, "'(' is never closed"),
    ("kernel", "  kernel", 4, "indented deeper"),
]


@pytest.mark.parametrize(("old", "new", "line", "told"), LAYOUT, ids=[c[3] for c in LAYOUT])
def test_layout_slips(old: str, new: str, line: int, told: str) -> None:
    said = [s for s in mistakes(changed(GEMM, (old, new))) if told in s.message]
    assert only(said).line == line
    assert said[0].code == "TK101"


def test_an_indented_first_line() -> None:
    assert (
        "the first line is indented" in mistakes("  " + "kernel k():\n    param X = 1\n")[0].message
    )


CHARACTERS = [
    ("128", "128x", "128x", "`128x` is not a number"),
    ("128", "1.2.3", "1.2.3", "is not a number"),
    ("128", "0x", "0x", "is not a number"),
    ("launch persistent", 'launch "persistent', '"persistent', "a text stands between two quotes"),
    ("b.T", "b'", "'", "a transpose is written `.T`"),
    ("role math:", "role math {", "{", "by indentation, not by braces"),
    ("launch persistent", "launch \\", "\\", "inside brackets, not after a backslash"),
    ("BM = 128", "BM = 128 − 2", "−", "write `-`"),
    ("BM = 128", "größe = 128", "größe", "ASCII letters"),
    ("BM = 128", "BM =\u00a0128", "\u00a0", "U+00A0"),
    ("BM = 128", "BM = 128 \x00", "\x00", "unexpected character U+0000"),
    ("BM = 128", "BM = 128 $", "$", "unexpected character `$`"),
    (
        "BM = 128",
        "BM = '128'",
        "'128'",
        "unexpected characters `'128'`: a transpose is written `.T`",
    ),
    (
        "BM = 128",
        "BM = \u201c128\u201d",
        "\u201c128\u201d",
        "unexpected characters `\u201c128\u201d`: write",
    ),
    ("BM = 128", "BM = 128'", "'", "unexpected character `'`"),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("C[m, n] <- bf16(read(d))", 'print("x)'),
        ("C[m, n] <- bf16(read(d))", 'print("m", max(n, "x))'),
        ("launch persistent", 'launch "persistent'),
        ("tiles(blocks(M, BM),", 'tiles(\n        "blocks(M, BM),'),
    ],
)
def test_a_text_without_an_end_is_one_mistake_at_its_place(old: str, new: str) -> None:
    said = only(mistakes(changed(GEMM, (old, new))))
    assert said.text.startswith(new[new.rindex('"') :])


def test_a_bracket_that_is_open_before_a_text_without_an_end_is_told_too() -> None:
    text = changed(
        GEMM, ("tile[bf16, BM, BK]", "tile[bf16, BM, BK"), ("launch persistent", 'launch "p')
    )
    text = changed(text, ("C[m, n] <- bf16(read(d))", 'print("x)'))
    assert len([s for s in mistakes(text) if "two quotes" in s.message]) == 2
    assert len([s for s in mistakes(text) if "never closed" in s.message]) == 1


@pytest.mark.parametrize(
    ("old", "new", "place", "told"), CHARACTERS, ids=[c[3] for c in CHARACTERS]
)
def test_wrong_characters(old: str, new: str, place: str, told: str) -> None:
    said = mistakes(changed(GEMM, (old, new)))
    assert said[0].text == place
    assert told in said[0].message


def test_several_syntax_errors_are_found_in_one_run() -> None:
    text = changed(
        GEMM,
        ("param BM = 128", "param BM: 128"),
        ("load -> math", "load, math"),
        ("role load:", "role load"),
        ("a <- A[m, k]", "a <- A[m k]"),
        ("for m, n in work:\n            put result", "for m, n = work:\n            put result"),
        ("bf16(read(d))", "bf16(read(d)"),
    )
    assert [s.line for s in mistakes(text)] == [5, 12, 15, 19, 23, 33]


def test_errors_stop_at_a_number() -> None:
    lines = "".join(f"    param x{i}: 1\n" for i in range(100))
    assert len(mistakes("kernel k():\n" + lines)) == MAX_ERRORS
    assert len(mistakes("kernel k():\n" + lines.replace(":", "$"))) <= MAX_ERRORS


@pytest.mark.parametrize(
    "text",
    [
        "kernel k():\n    param X = " + "(" * 5000 + "1" + ")" * 5000,
        "kernel k():\n    param X = " + "-" * 5000 + "1",
        "kernel k():\n    param X = " + "+".join("1" * 5000),
        "kernel k():\n    param X = " + "f(" * 1000 + "1" + ")" * 1000,
        "kernel k():\n    param X = " + "1 if 1 else " * 2000 + "1",
        "kernel k():\n    x" + ".T" * 5000,
        "kernel k():\n    role r: " + "for i in w: " * 3000 + "x = 1",
        "kernel k():\n" + "".join(" " * (i + 1) + "for i in w:\n" for i in range(1500)) + " " * 1600 + "x = 1",
        "kernel k():\n    param X = " + "9" * 10000,
        "kernel k():\n    param X = " + "[" * 300,
        ")" * 1000,
        "kernel " * 1000,
    ],
    ids=["brackets", "signs", "sum", "calls", "choices", "attributes", "one-line blocks", "blocks", "digits", "open",
         "closed", "words"],
)  # fmt: skip
def test_deep_and_long_programs_end_in_an_error(text: str) -> None:
    said = mistakes(text)
    assert said
    assert all(s.diagnostic.location for s in said)


def test_what_is_deep_but_not_too_deep_compiles() -> None:
    deep = "(" * (MAX_DEPTH - 1) + "128" + ")" * (MAX_DEPTH - 1)
    sum_ = " + ".join(["1"] * MAX_DEPTH)
    compiled(changed(GEMM, ("BM = 128", f"BM = {deep}"), ("group = 8", f"group = {sum_}")))

"""Syntax slips: every example gets its own message, and what no example covers is told in words a person knows."""

from __future__ import annotations

import re

import pytest
from programs import GEMM, changed, mistakes, only

from tkc.frontend.slips import INSIDE, MAX_EXPECTED, OUTSIDE, expected

EXAMPLES = [
    *((text, told) for text, told in OUTSIDE.items()),
    *((f"kernel k():\n {text}", told) for text, told in INSIDE.items()),
]


@pytest.mark.parametrize(("text", "told"), EXAMPLES, ids=[t for t, _ in EXAMPLES])
def test_each_example_gets_its_message(text: str, told: str) -> None:
    said = mistakes(text)
    assert said[0].message == told
    assert said[0].code == "TK101"


SLIPS = [
    ("role load:", "role load", "missing `:` at the end of `role load`", " "),
    ("kernel gemm(A: global", "kernel gemm[A: global", "')' where ']' should close the '['", ")"),
    ("N]):", "N])", "missing `:` at the end of", " "),
    ("put inputs:", "put inputs", "missing `:` at the end of `put inputs`", " "),
    ("for k in blocks(K, BK):", "for k in blocks(K, BK)", "missing `:` at the end of `for k in bl", " "),
    ("load -> math", "load => math", "`producer -> consumer`", "="),
    ("load -> math", "load <- math", "`producer -> consumer`", "<-"),
    ("load -> math", "load", "`producer -> consumer`", " "),
    ("inputs(a, b): load", "inputs[a, b]: load", "unexpected `,`", ","),
    ("inputs(a, b): load", "inputs(a b): load", "unexpected `b`", "b"),
    ("shared a:", "share a:", "no statement begins with `share`; did you mean `shared`", "share"),
    ("accum  d:", "acum d:", "no statement begins with `acum`; did you mean `accum`", "acum"),
    ("pipe inputs(", "pip inputs(", "no statement begins with `pip`; did you mean `pipe`", "pip"),
    ("role load:", "rol load:", "no statement begins with `rol`; did you mean `role`", "rol"),
    ("for k in", "foreach k in", "no statement begins with `foreach`; did you mean `for`", "foreach"),
    ("put inputs:", "puts inputs:", "no statement begins with `puts`; did you mean `put`", "puts"),
    ("a <- A[m, k]", "A[m, k] -> a", "`destination <- source`", "->"),
    ("a <- A[m, k]", "a <-", "a source is missing after `<-`", " "),
    ("a <- A[m, k]", "a < - > A[m, k]", "unexpected `>`", ">"),
    ("a <- A[m, k]", "a <- A[m, k", "'[' is never closed", "["),
    ("d = 0", "d =", "a value is missing after `=`", " "),
    ("d = 0", "d := 0", "neither with `:`", ":"),
    ("d = 0", "else: d = 0", "`else` without an `if` above it", "else"),
    ("d = 0", "d = 0 // clear it", "a comment begins with `#`", "it"),
    ("d = 0", "// clear\n                d = 0", "a comment begins with `#`", "//"),
    ("d += a @ b.T", "d += a b.T", "unexpected `b`", "b"),
    ("d += a @ b.T", "d += a @ @ b", "unexpected `@`, expected an expression", "@"),
    ("param BM = 128", "param role = 128", "`role` is a word of the language and cannot be", "role"),
    ("shared a:", "shared if:", "`if` is a word of the language and cannot be a name", "if"),
    ("for k in", "for put in", "`put` is a word of the language and cannot be a name", "put"),
    ("role load:", "role load warps 4:", "settings follow a comma", "warps"),
    ("role load:", "role load, warps = 4:", "a word and a value", "="),
    ("launch persistent", "launch", "a launch names its clauses", " "),
    ("bf16(read(d))", "bf16(read(d)) read", "unexpected `read`", "read"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "told", "place"), SLIPS, ids=[f"{s[1]}" for s in SLIPS])
def test_slips_in_a_whole_program(old: str, new: str, told: str, place: str) -> None:
    said = only(mistakes(changed(GEMM, (old, new))))
    assert told in said.message
    assert said.text.strip() == place.strip()


def test_a_missing_token_is_shown_where_it_should_stand() -> None:
    said = only(mistakes(changed(GEMM, ("role load:", "role load   # the loader"))))
    at = said.diagnostic.location
    assert at is not None
    assert (at.line, at.column) == (15, 14)


def test_expectations_are_few_and_in_plain_words() -> None:
    tokens = re.findall(
        r"[A-Za-z_]\w*|<-|->|[^\s\w]", "kernel k ( A : f32 ) : x <- a [ m , k ] = + @ put if 3"
    )
    texts = [
        " ".join([*tokens[:i], word, *tokens[i:]])
        for i in range(len(tokens))
        for word in ("3", "]", "kernel", "x", ",", "else", "->")
    ]
    messages = {s.message for text in texts for s in mistakes("kernel k():\n " + text)}
    messages |= {s.message for text in texts for s in mistakes(text)}
    assert len(messages) > 20
    for message in messages:
        assert not re.search(r"__ANON|\b[A-Z]{3,}\b|_NEWLINE", message), message
        _, _, listed = message.partition("expected ")
        assert listed.count(",") + 1 <= MAX_EXPECTED + 1, message


def test_expectations_group() -> None:
    starts = {"NAME", "INTEGER", "FLOAT", "LPAR", "MINUS", "PLUS", "NOT"}
    assert expected(starts) == "an expression"
    assert expected({"COLON", "COMMA", "NAME"}) == "a name, `,` or `:`"
    assert expected({"_DEDENT"}) == "the end of the block"


def test_what_is_wrong_with_an_accumulator_is_said_once() -> None:
    text = changed(GEMM, ("accum  d: tile[f32", "accum  d: tile[bf16"))
    assert only(mistakes(text)).code == "TK105"

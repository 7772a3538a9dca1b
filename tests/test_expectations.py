"""Expected diagnostics in comments: where each form looks, and what counts as a difference."""

from __future__ import annotations

import pytest

from tkc.diagnostics import Severity
from tkc.expectations import Said, differences, expected, pieces


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("op // expected-error {{bad}}", 1),
        ("// expected-error@+1 {{bad}}\nop", 2),
        ("// expected-error @+2 {{bad}}\n\nop", 3),
        ("op\n// expected-error @-1 {{bad}}", 1),
        ("// expected-error @below {{bad}}\n// expected-note @below {{why}}\nop", 3),
        ("op\n// expected-note @above {{why}}\n// expected-error @above {{bad}}", 1),
        ("# expected-error @unknown {{bad}}", 0),
        ("op // error: bad", 1),
        ("op # error: bad", 1),
        ("op // expected-error-re {{b{{[ae]}}d}}", 1),
    ],
)
def test_each_form_finds_its_line(text: str, line: int) -> None:
    (want,) = [e for e in expected(text) if e.severity is Severity.ERROR]
    assert want.line == line
    notes = [Said(Severity.NOTE, e.line, "why") for e in expected(text) if e.text == "why"]
    assert differences(text, [Said(Severity.ERROR, line, "a bad thing"), *notes], "f") == []


def test_what_differs_is_told() -> None:
    text = "op // expected-error {{bad}}\nop\n// expected-warning @unknown {{odd}}\n"
    found = [Said(Severity.WARNING, 1, "a bad thing"), Said(Severity.ERROR, 2, "worse")]
    assert differences(text, found, "f") == [
        "f:1: expected an error with 'bad' on this line",
        "f:3: expected a warning with 'odd' on no line",
        "f:1: unexpected warning: a bad thing",
        "f:2: unexpected error: worse",
    ]


def test_a_message_answers_one_expectation() -> None:
    text = "op // expected-error {{bad}}\n// expected-error @-1 {{bad}}"
    assert differences(text, [Said(Severity.ERROR, 1, "bad")] * 2, "f") == []
    assert len(differences(text, [Said(Severity.ERROR, 1, "bad")], "f")) == 1


def test_remarks_and_notes_need_not_be_expected() -> None:
    found = [Said(Severity.REMARK, 1, "x"), Said(Severity.NOTE, 1, "y")]
    assert differences("op", found, "f") == []
    assert differences("op // expected-remark {{x}}", found, "f") == []
    assert differences("op // expected-remark {{z}}", found, "f") != []


@pytest.mark.parametrize("mark", ["// -----", "# -----"])
def test_pieces_keep_their_lines(mark: str) -> None:
    text = f"a\n{mark}\nb\nc\n{mark}\nd\n"
    assert list(pieces(text, True)) == ["a\n", "\n\nb\nc\n", "\n\n\n\n\nd\n"]
    assert list(pieces(text, False)) == [text]

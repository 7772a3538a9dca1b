"""`const` tensors: nobody writes them, so that roles may agree on what stands in them."""

from __future__ import annotations

import pytest
from programs import EXAMPLES, changed, compiled, mistakes

GROUPED = (EXAMPLES / "gemm_grouped.tk").read_text(encoding="utf-8")
STORE = "C[g, m, n] <- bf16(read(d))"


def test_elements_of_const_tensors_are_marked() -> None:
    text = str(compiled(GROUPED))
    assert text.count("stage.load_element") == text.count("constant}") == 3


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ("rows: const global", "rows: global", "TK109", "elements of `const` tensors alone"),
        ("A: global", "x: const f32, A: global", "TK106", "`const` is of tensors; nothing writes a number like x"),
        ("C: global", "C: const global", "TK106", "C is `const`, so that every role"),
        (STORE, f"{STORE}\n                    rows[g] <- 1", "TK106", "rows is `const`"),
        (STORE, f"{STORE}\n                    atomic_add(rows[g], 1)", "TK106", "rows is `const`"),
        ("C: global[bf16", "C: const global[f32", "TK106", "C is `const`"),
    ],
)  # fmt: skip
def test_a_mistake_is_found(old: str, new: str, code: str, told: str) -> None:
    text = changed(GROUPED, (old, new))
    if "C: const global[f32" in new:
        text = changed(text, (STORE, "C[g, m, n] += read(d)"))
    found = [s for s in mistakes(text) if s.code == code and told in s.message]
    assert found, [(s.code, s.message) for s in mistakes(text)]


def test_roles_that_read_different_elements_disagree() -> None:
    before, role, after = GROUPED.partition("role math:")
    text = before + role + after.replace("read(rows[g])", "read(rows[0])", 1)
    said = [s for s in mistakes(text) if s.code == "TK109"]
    assert "disagree about the items of pipe inputs" in said[0].message


def test_an_ordered_read_may_find_another_value_each_time() -> None:
    said = mistakes(changed(GROUPED, ("read(rows[g])", "read(rows[g], relaxed, gpu)")))
    assert {s.code for s in said} == {"TK109"}


def test_a_number_that_was_read_once_may_be_used_twice() -> None:
    text = changed(
        GROUPED,
        (
            "if m.index * BM < read(rows[g]):",
            "count = read(rows[g])\n            if m.index * BM < count:",
        ),
    )
    assert mistakes(text) == []


def test_a_tensor_that_lacks_const_is_told_once_with_its_mend() -> None:
    """However many roles and pipes decide by its elements."""
    text = changed(GROUPED, ("rows: const global", "rows: global"))
    said = [s.diagnostic for s in mistakes(text) if s.code == "TK109"]
    (told,) = said
    assert told.help == "`rows: const global[...]`, where nothing writes it while the kernel runs"
    assert [n.message for n in told.notes] == ["rows may change"]

"""`fix:` is what `tkc check --fix` writes into the source, `help:` is for a reader: one rule for all that is told."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tkc
from tkc.commands.check import command
from tkc.diagnostics import Diagnostic, Edit, Location

COPY = """\
kernel k(X: global[f32, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared t: tile[f32, 128, 64] * 2
    pipe p(t): load -> math
    role load:
        for m, n in work:
            put p: t <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get p: x = read(t) * 2
            Y[m, n] <- bf16(x)
"""

MENDED = {
    ("writes.py", "_arrow"): ("t <- X[m, n]", "t = X[m, n]"),
    ("values.py", "as_operand"): ("read(t) * 2", "t * 2"),
    ("writes.py", "_same"): ("bf16(x)", "x"),
}
"""Where a fix is made: a statement, and the mistake that is mended back to it."""


def check(*words: str) -> Result:
    return CliRunner().invoke(command, list(words))


def callers() -> dict[str, set[tuple[str, str]]]:
    """Of `mend`, `edit` and calls with `fix=`: the functions in which they are called."""
    found: dict[str, set[tuple[str, str]]] = {"mend": set(), "edit": set(), "fix": set()}
    for path in Path("tkc").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\.mend\(|\.edit\(|\bfix=", text):
            continue
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef):
                continue
            for call in (c for c in ast.walk(function) if isinstance(c, ast.Call)):
                names = [w.arg for w in call.keywords if w.arg == "fix"]
                names += [call.func.attr] if isinstance(call.func, ast.Attribute) else []
                for name in names:
                    if name in found:
                        found[name].add((path.name, function.name))
    return found


def test_every_fix_has_a_case_here_and_nobody_makes_one_otherwise() -> None:
    assert callers() == {
        "mend": {*MENDED},
        "edit": {("scope.py", "mend")},
        "fix": {("scope.py", "mend"), ("scope.py", "error")},
    }


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("where", MENDED)
def test_a_fix_is_applied(where: tuple[str, str], ends: str, tmp_path: Path) -> None:
    right, wrong = MENDED[where]
    path = tmp_path / "k.tk"
    path.write_bytes(COPY.replace(right, wrong).replace("\n", ends).encode())
    said = check(str(path), "--format", "json")
    (told,) = json.loads(said.output)["diagnostics"]
    assert told["fix"] is not None
    result = check(str(path), "--fix")
    assert result.exit_code == 0, result.output
    assert f"is now `{told['fix']}`" in result.output
    assert path.read_bytes() == COPY.replace("\n", ends).encode()


def test_mistakes_that_others_hide_are_mended_too(tmp_path: Path) -> None:
    path = tmp_path / "k.tk"
    text = COPY
    for right, wrong in (*MENDED.values(), ("Y[m, n] <-", "Y[m, n] =")):
        text = text.replace(right, wrong)
    path.write_text(text, encoding="utf-8")
    assert "Y[m, n] = x" in text
    assert check(str(path), "--fix").exit_code == 0
    assert path.read_text(encoding="utf-8") == COPY


def test_what_a_function_says_is_not_rewritten_for_one_of_its_calls(tmp_path: Path) -> None:
    """Its other calls may be right as they are."""
    path = tmp_path / "k.tk"
    text = f"def twice(x):\n    return x * 2\n\n{COPY.replace('read(t) * 2', 'twice(t)')}"
    path.write_text(text, encoding="utf-8")
    result = check(str(path), "--fix")
    assert result.exit_code == 1
    assert "\nhelp: read(x)" not in result.output
    assert "fix:" not in result.output
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_what_the_source_cannot_mend_is_help(target: str, tmp_path: Path) -> None:
    """A target that lacks something, a `d = 0` whose place only the program knows."""
    text = Path("examples/gemm_bf16.tk").read_text(encoding="utf-8")
    path = tmp_path / "k.tk"
    path.write_text(text.replace("                d = 0\n", ""), encoding="utf-8")
    if target == "sm_120a":
        path.write_text(text, encoding="utf-8")
    result = check(str(path), "--target", target, "--fix")
    assert result.exit_code == 1
    assert "\nhelp: " in result.output
    assert "fix:" not in result.output


def test_how_both_are_shown() -> None:
    edit = Edit(Location("k.tk", 1, 1, 2), "y")
    told = Diagnostic("TK105", "x is no y", Location("k.tk", 1, 1, 2), fix=edit, help="ask")
    assert told.render().endswith("\nhelp: ask\nfix: y")
    made = told.to_json()
    assert (made["fix"], made["notes"]) == ("y", [{"message": "help: ask", "location": None}])


UNROLLED = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 256), blocks(N, 128))
    shared a[2]: tile[bf16, 128, 64] * 2
    shared b: tile[bf16, 128, 64] * 2
    accum d[2]: tile[f32, 128, 128]
    pipe p(a, b): load -> math
    pipe r[i](d[i]): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, 64):
                put p:
                    for i in unroll(2):
                        a[i] <- A[m.part(i, 2), k]
                    b <- B[n, k]
    role math:
        for m, n in work:
            put r:
                for i in 0, 1: d[i] = 0
                for k in blocks(K, 64):
                    get p:
                        for i in unroll(2): d[i] += a[i] @ b.T
    role store:
        for m, n in work:
            for i in 0, 1:
                get r[i]: C[m.part(i, 2), n] <- read(d[i])
"""


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("d[i] += a[i] @ b.T", "d[i] += a[i] @ b", "TK104"),
        ("shared b: tile[bf16, 128", "shared b: tile[e4m3, 128", "TK105"),
        ("A[m.part(i, 2), k]", "A[m.part(i, 4), k]", "TK104"),
        ("C[m.part(i, 2), n] <-", "C[m.part(i, 2), q] <-", "TK102"),
        ("<- read(d[i])", "<- read(d[i]) + row_sum(d[i])", "TK106"),
    ],
)
def test_what_is_written_out_several_times_is_told_once(old: str, new: str, code: str) -> None:
    assert old in UNROLLED
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(UNROLLED.replace(old, new))
    assert {d.code for d in raised.value.diagnostics} == {code}
    places = [d.location for d in raised.value.diagnostics]
    assert None not in places
    assert len({*places}) == len(places)


@pytest.mark.parametrize("where", MENDED)
def test_sarif_has_the_fix_that_would_be_written(where: tuple[str, str], tmp_path: Path) -> None:
    """Its replacements, made in the text, are what `--fix` writes."""
    right, wrong = MENDED[where]
    path = tmp_path / "k.tk"
    path.write_text(COPY.replace(right, wrong), encoding="utf-8")
    log = json.loads(check(str(path), "--format", "sarif").output)
    lines = path.read_text(encoding="utf-8").splitlines()
    fixes = [fix for result in log["runs"][0]["results"] for fix in result.get("fixes", [])]
    assert len(fixes) == 1
    [change] = fixes[0]["artifactChanges"]
    assert change["artifactLocation"]["uri"].endswith("k.tk")
    [replacement] = change["replacements"]
    region, text = replacement["deletedRegion"], replacement["insertedContent"]["text"]
    line = lines[region["startLine"] - 1]
    lines[region["startLine"] - 1] = (
        line[: region["startColumn"] - 1] + text + line[region["endColumn"] - 1 :]
    )
    assert check(str(path), "--fix").exit_code == 0
    assert "\n".join(lines) + "\n" == path.read_text(encoding="utf-8")

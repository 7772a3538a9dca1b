"""`tkc check` on the order of accesses: both places, what is missing, what `--fix` writes, and the pages on codes."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from xdsl.dialects.builtin import ModuleOp

import tkc
from tests.analysis.test_twins import diagnosed
from tests.analysis.twins import KERNELS, L2_90, SLIPS, Slip
from tkc.__main__ import guarded, main
from tkc.commands.check import command
from tkc.commands.explanations import codes, page
from tkc.diagnostics import CODES, TkcError
from tkc.driver import run
from tkc.job import Job

SLIP = SLIPS["no fence before a slot is handed to the copy engine"]


def check(*words: str) -> Result:
    return CliRunner().invoke(command, list(words))


@pytest.fixture
def slip(tmp_path: Path) -> Path:
    path = tmp_path / "k.tk"
    path.write_text(SLIP.text, encoding="utf-8")
    return path


def test_a_missing_fence_is_an_error_with_both_places(slip: Path) -> None:
    result = check(str(slip), "--target", SLIP.target)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert re.fullmatch(
        r".*k\.tk:\d+:\d+: error: no proxy fence stands between .* \[TK302\]", lines[0]
    )
    assert lines[1].strip() == "store Y[m, n] <- y[i]"
    assert "note: the other access: the write of y" in result.output
    assert "help: `fence proxy shared` below line" in result.output


def test_json_and_sarif_say_the_same(slip: Path) -> None:
    result = check(str(slip), "--target", SLIP.target, "--format", "json")
    found = json.loads(result.output)
    assert found["schema"] == "tkc-diagnostics/1"
    [diagnostic] = found["diagnostics"]
    assert (diagnostic["code"], diagnostic["severity"]) == ("TK302", "error")
    assert diagnostic["location"]["line"] > diagnostic["notes"][0]["location"]["line"]
    assert diagnostic["notes"][-1]["message"].startswith("help: `fence proxy shared`")
    assert diagnostic["fix"] is None
    sarif = json.loads(check(str(slip), "--target", SLIP.target, "--format", "sarif").output)
    [entry] = sarif["runs"][0]["results"]
    assert entry["ruleId"] == "TK302"
    assert entry["relatedLocations"]


def test_fix_writes_the_fence_and_the_program_is_then_in_order(slip: Path) -> None:
    result = check(str(slip), "--target", SLIP.target, "--fix")
    assert result.exit_code == 0, result.output
    assert "added `fence proxy shared` below" in result.output
    added = [
        x for x in slip.read_text(encoding="utf-8").splitlines() if x not in SLIP.text.splitlines()
    ]
    assert [x.strip() for x in added] == ["fence proxy shared"]
    assert diagnosed(slip.read_text(encoding="utf-8"), SLIP.target) == []


def test_fix_leaves_what_it_cannot_mend(tmp_path: Path) -> None:
    slip = SLIPS["nothing makes the reader wait"]
    path = tmp_path / "k.tk"
    path.write_text(slip.text, encoding="utf-8")
    result = check(str(path), "--target", slip.target, "--fix")
    assert result.exit_code == 1
    assert "nothing that can be mended by itself" in result.output
    assert path.read_text(encoding="utf-8") == slip.text


MENDED = {
    "no fence before a store, in a warpgroup": "fence proxy shared",
    "a lane arrives before its warp has read": "sync warp",
    "a role ends with its stores under way": "elect: wait stores",
    "the grid ahead is awaited after the first copy (LCH-1)": "wait pdl",
    "no fence before the first product": "fence products",
}
"""What is missing, by the slip."""

MORE = {
    "no fence before the first product": Slip(
        L2_90, "                fence products\n", "", "TK319", "mma d"
    ),
}


@pytest.mark.parametrize("what", MENDED)
def test_fix_writes_what_is_missing_beyond_doubt(what: str, tmp_path: Path) -> None:
    slip = {**SLIPS, **MORE}[what]
    path = tmp_path / "k.tk"
    path.write_text(slip.text, encoding="utf-8")
    result = check(str(path), "--target", slip.target, "--fix")
    assert result.exit_code == 0, result.output
    lines = [x.strip() for x in path.read_text(encoding="utf-8").splitlines()]
    before = [x.strip() for x in slip.text.splitlines()]
    assert Counter(lines) - Counter(before) == {MENDED[what]: 1}


def test_a_fence_goes_below_the_whole_statement(tmp_path: Path) -> None:
    path = tmp_path / "k.tk"
    text = SLIP.text.replace(
        "y[i] <- bf16(f32(read(x)) * 2)", "y[i] <- bf16(\n                f32(read(x)) * 2)"
    )
    assert text != SLIP.text
    path.write_text(text, encoding="utf-8")
    assert check(str(path), "--target", SLIP.target, "--fix").exit_code == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    assert (
        lines[lines.index("                f32(read(x)) * 2)") + 1]
        == "            fence proxy shared"
    )


def test_the_strict_model_asks_for_more(tmp_path: Path) -> None:
    """wait_group.read holds a proxy fence by an assumption that only practice has (A7)."""
    path = tmp_path / "k.tk"
    path.write_text(KERNELS["handed"], encoding="utf-8")
    assert check(str(path), "--target", "sm_90a").exit_code == 0
    strict = check(str(path), "--target", "sm_90a", "--model", "strict")
    assert strict.exit_code == 1
    assert "TK302" in strict.output


def test_a_program_too_large_to_be_followed_gets_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tkc.analysis.happens_before.paths.MOST_LABELS", 10)
    path = tmp_path / "k.tk"
    path.write_text(KERNELS["ring"], encoding="utf-8")
    result = check(str(path), "--target", "sm_90a")
    assert result.exit_code == 0
    assert "warning: after" in result.output
    assert "[TK325]" in result.output
    assert check(str(path), "--target", "sm_90a", "-Werror").exit_code == 1


def test_a_good_program_is_told_what_it_uses(tmp_path: Path) -> None:
    path = tmp_path / "k.tk"
    path.write_text(KERNELS["ring"], encoding="utf-8")
    result = check(str(path), "--target", "sm_90a")
    assert result.exit_code == 0
    assert "shared memory" in result.output


# Pages ---------------------------------------------------------------------------------------------------------------


def programs(code: str) -> list[tuple[str, str, str]]:
    """The programs of a page: language, what stands beside it, text."""
    return re.findall(r"```(tk|ptx|sh)(?: (\S+))?\n(.*?)```", page(code), re.DOTALL)


def told(language: str, beside: str, text: str, code: str) -> set[str]:
    """The codes that a program gets: of the analysis, of the whole compiler, or in the emulator."""
    target = beside if beside.startswith("sm_") else "sm_90a"
    if language == "ptx":
        grid = int((re.findall(r"// grid (\d+)", text) or ["1"])[0])
        try:
            report = tkc.emulate(text, grid=grid, block=32, args=[])
        except TkcError as error:
            return {d.code for d in error.diagnostics}
        return {f.code for f in (*report.findings, *report.warnings)}
    if code.startswith("TK3") and not beside.startswith("as="):
        return {d.code for d in diagnosed(text, target)}
    try:
        return {d.code for d in run(Job(text, "k.tk", target)).diagnostics}
    except TkcError as error:
        return {d.code for d in error.diagnostics}


NOT_ALWAYS = {"TK902"}
"""What the compiler gives only as long as it can prove no better."""


@pytest.mark.parametrize("code", [c for c in codes() if len(programs(c)) == 2])
def test_a_page_has_a_program_that_gets_the_code_and_one_that_does_not(code: str) -> None:
    assert page(code).startswith(f"# {code}: {CODES[code]}\n")
    bad, good = programs(code)
    if bad[0] == "sh":
        assert all(
            line.split()[0] in ("tkc", "tkc-opt", "pip", "python", "sh")
            for _, _, line in (bad, good)
        )
        return
    wanted = bad[1].removeprefix("as=") if bad[1].startswith("as=") else code
    assert wanted in told(*bad, code) or code in NOT_ALWAYS
    assert not {c for c in told(*good, code) if c == wanted or c.startswith("TK3")}
    if code.startswith("TK3") and not bad[1] and bad[0] == "tk":
        assert not told("tk", "sm_100a", good[2], code)


def test_every_code_has_a_page() -> None:
    assert set(codes()) == set(CODES)
    alone = {c for c in codes() if len(programs(c)) != 2}
    assert alone == {
        "TK218",
        "TK219",
        "TK220",
        "TK221",
        "TK222",
        "TK223",
    }  # remarks: nothing is wrong


def test_explain_prints_the_page() -> None:
    result = check("--explain", "tk302")
    assert result.exit_code == 0
    assert result.output.rstrip() == page("TK302")
    assert check("--explain", "TK101").output.startswith("# TK101: syntax error\n")


def test_explain_of_no_code_says_which_there_are() -> None:
    result = check("--explain", "TK3O2")
    assert result.exit_code != 0
    assert "did you mean" in str(result.exception) + result.output


def test_a_source_is_needed() -> None:
    assert check().exit_code == 2


@pytest.mark.parametrize("name", ["exits", "keys", "lengths"])
def test_items_are_followed_through_loops_that_are_left_and_bounded(name: str) -> None:
    """`while`, `break`, `continue`, and loops over blocks that a condition bounds, round puts and gets."""
    program = Path(__file__).parents[2] / "lit_tests" / "run" / f"{name}.tk"
    result = check(str(program), "--target", "sm_90a")
    assert result.exit_code == 0, result.output


def test_what_is_left_of_the_fences_is_judged_where_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a pass that takes every fence away: the program as written is right, what is left of it is not."""
    from tkc.passes.eliminate_fences import EliminateFencesPass
    from tkc.passes.fencing.sites import fences_of

    def everything(_: EliminateFencesPass, __: object, module: ModuleOp) -> None:
        for fence in [*fences_of(module)]:  # pyright: ignore
            fence.detach()

    source = str(Path(__file__).parents[2] / "examples" / "silu_mul.tk")
    assert guarded(main, ("check", source, "--fences", "minimal")) == 0
    monkeypatch.setattr(EliminateFencesPass, "apply", everything)
    assert guarded(main, ("check", source)) == 0
    capsys.readouterr()
    assert guarded(main, ("check", source, "--fences", "minimal")) == 1
    assert "TK302" in capsys.readouterr().out


def test_what_a_pass_refuses_is_not_said_again_by_its_barriers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared x: tile[f32, 128, 32] * 2
    pipe p(x): load -> math
    role load:
        for m, n in work: put p: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get p:
                elect: Y[m, n] <- read(x)
"""
    (tmp_path / "k.tk").write_text(text)
    assert guarded(main, ("check", str(tmp_path / "k.tk"), "--format", "json")) == 1
    [told] = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (told["code"], told["location"]["line"]) == ("TK121", 11)

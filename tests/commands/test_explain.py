"""`tkc explain` in its three forms."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import tkc
from tkc.__main__ import guarded, main
from tkc.diagnostics import TkcError

EXAMPLES = Path(__file__).parents[2] / "examples"
LEVEL2 = str(EXAMPLES / "gemm_bf16_level2.tk")
VERDICTS = {"removed", "kept", "weakened", "moved", "inserted"}
KINDS = {
    "proxy-fence",
    "tcgen05-fence",
    "thread-fence",
    "init-fence",
    "wait",
    "arrive",
    "commit",
}


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert guarded(main, ("explain", *words, "--format", "json")) == 0
    return json.loads(capsys.readouterr().out)


def sites(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    assert made["sites"] == [
        {"kernel": k["kernel"], **s} for k in made["kernels"] for s in k["sites"]
    ]
    return {s["id"]: s for s in made["sites"]}


def test_json_has_every_synchronisation_of_both_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = explained(capsys, LEVEL2)
    assert made["schema"] == "tkc-explain/1"
    found = sites(made)
    assert {s["verdict"] for s in found.values()} <= VERDICTS
    assert {s["kind"] for s in found.values()} <= KINDS
    words = ("fence ", "wait ", "arrive ", "commit ", "sync ", "expect ")
    lines = [
        n
        for n, line in enumerate(Path(LEVEL2).read_text().splitlines(), 1)
        if line.strip().startswith(words)
    ]
    written = [s for s in found.values() if s["kind"] != "init-fence"]
    assert sorted({s["location"]["line"] for s in written}) == lines
    [init] = [s for s in found.values() if s["kind"] == "init-fence"]
    assert (init["verdict"], init["origin"]) == ("kept", "compiler")
    assert init["instructions"] == ["fence.mbarrier_init.release.cluster"]


def test_a_page_that_cannot_be_written_is_the_machine_s_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (tmp_path / "file" / "x.html", tmp_path):
        (tmp_path / "file").write_text("")
        assert guarded(main, ("explain", LEVEL2, "--html", str(place))) == 1
        assert "cannot be written" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_is_gone_has_its_chain_and_both_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    fence = sites(explained(capsys, LEVEL2))["math.user.fence.3"]
    assert (fence["verdict"], fence["before"], fence["after"]) == (
        "removed",
        "fence.proxy.async.shared::cta",
        "",
    )
    assert fence["profiles"] == {"practice": "removed", "strict": "removed"}
    assert [x["rule"] for x in fence["chain"]][:2] == ["bytes", "one-proxy"]
    keys = {"from", "to", "lines", "rule", "section", "assumptions"}
    assert all(set(x) == keys for x in fence["chain"])
    assert fence["chain"][0]["lines"] == [26, 42]
    assert fence["instructions"] == []
    assert fence["witness"] is None


def test_what_stays_has_the_pair_that_would_race(capsys: pytest.CaptureFixture[str]) -> None:
    found = sites(explained(capsys, LEVEL2))
    fence = found["store.user.fence.2"]["witness"]
    assert "the write of c by a copy of a register tile" in fence["first"]
    assert "the async read of c by `store`" in fence["second"]
    assert "no proxy fence" in fence["why"]
    wait = found["load.user.wait.empty"]["witness"]
    assert wait["instances"][1] - wait["instances"][0] == 4  # the depth of the ring
    spare = [s for s in found.values() if s["verdict"] == "kept" and not s["witness"]]
    assert {s["op"] for s in spare} <= {"stage.warp_sync"}  # a barrier of the role stands ahead
    assert all("barriers of threads" in s["stays"] and s["chain"] for s in spare)


def test_conservative_keeps_all_and_says_what_they_would_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = sites(explained(capsys, LEVEL2, "--fences", "conservative"))
    assert {s["verdict"] for s in found.values()} == {"kept"}
    needless = [s for s in found.values() if "--fences minimal" in s["stays"]]
    assert len(needless) == 5
    assert all("fence" in s["kind"] and not s["witness"] for s in needless)


def test_only_of_no_site_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    html = tmp_path / "x.html"
    words = ("explain", LEVEL2, "--html", str(html), "--only")
    for only, says in (
        ("nosuch", "there are "),
        ("math.user.fense.3", "did you mean math.user.fence.3"),
    ):
        assert guarded(main, (*words, only)) == 2
        out, err = capsys.readouterr()
        assert f"error: no site is called {only}" in err
        assert says in err
        assert not out
        assert not html.exists()


def test_text_names_line_verdict_rule_and_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(main, ("explain", LEVEL2, "--only", "math.user.fence.3")) == 0
    out = " ".join(capsys.readouterr().out.split())
    first = "45 removed -fence.proxy.async.shared::cta fence proxy shared math.user.fence.3"
    assert first in out  # with the source
    assert "there 26 load.tma_load_to.0 → math.user.wait.full (line 42): §9.7.10.28.2" in out
    assert "46 math.mma.0: same proxy, same CTA §8.9.5" in out


def test_a_level_1_kernel_is_explained_at_its_own_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("gemm_bf16", "row_softmax", "gemm_2cta", "gemm_nvfp4"):
        found = sites(explained(capsys, str(EXAMPLES / f"{name}.tk")))
        last = len((EXAMPLES / f"{name}.tk").read_text().splitlines())
        assert all(0 < s["location"]["line"] <= last for s in found.values())
        assert any(s["verdict"] == "removed" for s in found.values())


class Page(HTMLParser):
    """Collects the tags, and what they point at outside the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.chains: dict[str, int] = {}
        self.at = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        known = dict(attrs)
        self.outside += [v for k, v in attrs if k in ("src", "href") and v]
        if known.get("class") == "chain":
            self.at = known.get("data-site") or ""
        if tag == "path" and self.at:
            self.chains[self.at] = self.chains.get(self.at, 0) + 1


def test_the_page_stands_alone_and_draws_every_chain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    assert guarded(main, ("explain", LEVEL2, "--html", str(path))) == 0
    capsys.readouterr()
    page = Page()
    page.feed(path.read_text())
    assert page.outside == []
    assert "svg" in page.tags
    gone = {
        f"gemm.{n}"
        for n in (
            "math.user.fence",
            "math.user.fence.2",
            "math.user.fence.3",
            "store.user.fence",
            "store.user.fence.3",
        )
    }
    assert gone <= set(page.chains)
    assert re.search(r"math\.user\.wait\.full\[0\] phase 0", path.read_text())
    assert "fence.mbarrier_init.release.cluster" in path.read_text()


def test_wrong_usage_and_wrong_programs_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(main, ("explain", str(tmp_path / "none.tk"))) == 1
    assert "does not exist" in capsys.readouterr().err
    assert guarded(main, ("explain", LEVEL2, "--format", "sarif")) == 2
    assert guarded(main, ("explain", LEVEL2, "--target", "sm_90a")) == 1


def test_a_chain_names_every_place_on_its_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(main, ("explain", LEVEL2, "--only", "store.user.fence", "--all")) == 0
    said = " ".join(capsys.readouterr().out.split())
    back = (
        "back 69 store.read_accumulator.0: tcgen05.wait::ld or ::st §9.7.18.6.4 "
        "76 store.user.sync.warp: bar.warp.sync, completions §9.7.15.2, A13 "
        "77 store.user.arrive.drained → math.user.wait.drained (line 39): §9.7.18.6.3, A3 "
    )
    assert back in said


def test_what_stays_is_told_by_a_read_and_a_write_of_two_roles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    witness = sites(explained(capsys, LEVEL2))["load.user.wait.empty"]["witness"]
    assert witness["first"].startswith("the async read of a by a matrix product in role math")
    assert witness["second"].startswith("the async write of a by `load` in role load")
    assert witness["instances"] == [0, 4]


SYNCHRONISING = re.compile(
    r"^\s*(?:@!?%\w+ )?((?:fence|mbarrier|barrier|bar\.|membar|griddepcontrol|cp\.async\.(?:bulk\.)?(?:commit|wait)"
    r"|tcgen05\.(?:fence|wait|commit|relinquish)|wgmma\.(?:fence|commit|wait))\S*?);?(?:\s|$)",
    re.MULTILINE,
)
"""Instructions of a PTX text that synchronise, by their names alone."""


def in_the_text(name: str, target: str) -> list[str]:
    return SYNCHRONISING.findall(tkc.compile(EXAMPLES / f"{name}.tk", target=target).ptx)


def check_every_instruction(
    name: str, target: str, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    made = explained(capsys, str(EXAMPLES / f"{name}.tk"), "--target", target)
    [kernel] = made["kernels"]
    said = [m for site in kernel["sites"] for m in site["instructions"]]
    said += [x["instruction"] for x in kernel["others"] for _ in range(x["count"])]
    assert all(x["why"] for x in kernel["others"])
    assert sorted(said) == sorted(in_the_text(name, target))
    assert kernel["instructions"] == len(said)
    return kernel


@pytest.mark.parametrize(
    ("name", "target"),
    [("gemm_cluster", "sm_90a"), ("row_softmax", "sm_107a")],
)
def test_every_instruction_is_explained(
    name: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = check_every_instruction(name, target, capsys)
    inserted = [s for s in kernel["sites"] if s["verdict"] == "inserted"]
    assert len(inserted) == (2 if target == "sm_107a" else 0)
    assert all(s["after"] and s["chain"] for s in inserted)


@pytest.mark.soak
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", [p.stem for p in sorted(EXAMPLES.glob("*.tk"))])
def test_every_instruction_of_every_example_is_explained(
    name: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        in_the_text(name, target)
    except TkcError:
        pytest.skip("the example is not for this target")
    check_every_instruction(name, target, capsys)

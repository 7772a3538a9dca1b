"""The fences before a product that ports of kernels carry: redundant alone and in a pair, plain and block-scaled; and the
same program in four variations, each judged differently."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.passes.test_eliminate_fences import changed, compiled, verdicts
from tkc.analysis.happens_before.rules import RULES
from tkc.ir.certificates import Certificate

EXAMPLES = Path(__file__).parents[2] / "examples"
SCALED = (EXAMPLES / "gemm_nvfp4_level2.tk").read_text()
PAIR = (EXAMPLES / "gemm_2cta_level2.tk").read_text()
SCALED_WAIT = "                wait full[slot], phase\n"
PAIR_WAIT = "                    wait full[slot], phase, cluster\n"
FENCES = "{0}fence tcgen05 after\n{0}fence proxy shared\n"


def fenced(text: str, wait: str, new: str = "") -> str:
    """With both fences behind the wait for operands (instead of those that are there)."""
    indent = wait[: len(wait) - len(wait.lstrip())]
    text = text.replace(f"{wait}{indent}fence tcgen05 after\n", wait)
    return changed(text, (wait, (new or wait) + FENCES.format(indent)))


def before_the_product(text: str, wait: str, new: str = "", **job: str) -> dict[str, str]:
    """What becomes of the two, by their words."""
    source = fenced(text, wait, new)
    line = (
        source[
            : source.index((new or wait) + FENCES.format(" " * (len(wait) - len(wait.lstrip()))))
        ].count("\n")
        + 2
    )
    _, certificate, failed = compiled(source, **job)
    assert failed == []
    at = {str(line): "after", str(line + 1): "proxy"}
    return {
        at[x.place.split(":")[1]]: x.verdict
        for x in certificate.sites
        if x.place.split(":")[1] in at and "fence" in x.op
    }


def assumed(certificate: Certificate) -> set[str]:
    return {a for o in certificate.orders for rule in o.rules() for a in RULES[rule].assumes}


@pytest.mark.parametrize("model", ["practice", "strict"])
def test_block_scaled_in_one_cta_by_documented_rules(model: str) -> None:
    assert before_the_product(SCALED, SCALED_WAIT, model=model) == {
        "after": "removed",
        "proxy": "removed",
    }


def test_in_a_pair_by_assumptions_with_names() -> None:
    assert before_the_product(PAIR, PAIR_WAIT) == {"after": "removed", "proxy": "removed"}
    _, certificate, _ = compiled(fenced(PAIR, PAIR_WAIT))
    assert {"A1", "A2"} <= assumed(certificate)
    _, strict, _ = compiled(fenced(PAIR, PAIR_WAIT), model="strict")
    home = [o for o in strict.orders if "A1" in {a for r in o.rules() for a in RULES[r].assumes}]
    assert {o.model for o in home} == {"practice"}  # what no fence puts in order strictly


@pytest.mark.parametrize(
    ("text", "wait", "relaxed"),
    [
        (SCALED, SCALED_WAIT, SCALED_WAIT.replace("phase\n", "phase, relaxed\n")),
        (PAIR, PAIR_WAIT, PAIR_WAIT.replace("cluster\n", "relaxed\n")),
    ],
    ids=["block-scaled", "pair"],
)
def test_with_a_relaxed_wait_both_stay(text: str, wait: str, relaxed: str) -> None:
    found = before_the_product(text, wait, relaxed)
    assert found["proxy"] == "kept"


@pytest.mark.parametrize(
    ("text", "wait"), [(SCALED, "wait done[i], turn"), (PAIR, "wait done[i], turn, cluster")]
)
def test_with_a_relaxed_wait_for_products_the_one_behind_it_stays(text: str, wait: str) -> None:
    relaxed = changed(text, (f"            {wait}\n", "            wait done[i], turn, relaxed\n"))
    assert verdicts(relaxed)["store.user.fence"] == "kept"
    assert verdicts(text)["store.user.fence"] == "removed"

"""What runs on small numbers have not shown is no proof: branches first taken late, loops that stop turning late, conditions
on what the numbers do not vary.

Each certificate is of a kernel whose fence always stands; it is held against the same kernel with that fence under a
condition, without which the copy engine may read what threads still write.
"""

from __future__ import annotations

import pytest

from tests.passes.test_fences_in_branches import STAGED
from tkc.analysis.certificates import wrong
from tkc.analysis.instances import Unknown
from tkc.driver import to_module
from tkc.ir import certificates as c
from tkc.ir.stage import ops as s
from tkc.job import Job

FENCE = "fence proxy shared"
NEEDLESS = "wait full[i], phase\n            fence proxy shared\n"


def lines(text: str) -> str:
    return "\n".join(" " * 12 + line for line in text.splitlines())


def kernel_of(body: str, after: str, arguments: str = "") -> tuple[s.KernelOp, list[c.Certificate]]:
    text = STAGED.format(fences=lines(body)).replace("wait full[i], phase\n", NEEDLESS, 1)
    text = text.replace("Y: global[f32, M, N])", f"Y: global[f32, M, N]{arguments})")
    module = to_module(Job(text, "t.tk", "sm_90a"), after=after)
    [kernel] = [op for op in module.body.block.ops if isinstance(op, s.KernelOp)]
    return kernel, c.read(module)


def refused(body: str, arguments: str = "") -> dict[int, str]:
    """What the checker says of the proof that the fence behind the wait is not needed, where `body` stands for the other
    fence."""
    _, [certificate] = kernel_of(FENCE, "eliminate-fences", arguments)
    assert [x.verdict for x in certificate.sites if "fence" in x.id] == ["removed", "kept"]
    kernel, _ = kernel_of(body, "insert-fences", arguments)
    for role in [op for op in kernel.body.block.ops if isinstance(op, s.RoleOp)]:
        inside = [op for op in role.walk() if op is not role and isinstance(op, s.StageOp)]
        c.name_sites(role.sym_name.data, inside)
    [gone] = [x.id for x in certificate.sites if x.verdict == "removed"]
    [fence] = [op for op in kernel.walk() if c.label(op) == gone]
    fence.detach()
    return wrong(certificate, kernel)


def test_where_the_fence_always_stands_the_proof_holds() -> None:
    assert refused(FENCE) == {}


LATE = {
    "not after a hundred turns": f"if m.index < 100:\n    {FENCE}",
    "but for one turn": f"if m.index != 70:\n    {FENCE}",
    "but for one in nineteen": f"if m.index % 19 != 18:\n    {FENCE}",
    "one in eleven, or early": f"if m.index % 11 != 7 or m.index < 30:\n    {FENCE}",
}


@pytest.mark.parametrize("way", LATE)
def test_a_fence_that_is_left_out_late_is_no_proof(way: str) -> None:
    found = refused(LATE[way])
    assert any("nothing orders" in why for why in found.values()), found


UNSEEN = {
    "a number too large to run to": f"if m.index < 1000000:\n    {FENCE}",
    "an argument": f"if flag != 7:\n    {FENCE}",
    "an argument among others": f"if flag != 7 or m.index == 1:\n    {FENCE}",
    "half of a warp": f"if lane < 16:\n    {FENCE}",
}


@pytest.mark.parametrize("way", UNSEEN)
def test_what_no_run_shows_is_not_known(way: str) -> None:
    with pytest.raises(Unknown, match=r"one way only|too long"):
        refused(UNSEEN[way], ", flag: i32")


def test_a_fence_in_a_loop_that_may_stop_turning_is_no_proof() -> None:
    found = refused(f"for j in range(40 - m.index):\n    {FENCE}")
    assert any("may not turn" in why for why in found.values()), found


SURE = {
    "less": f"if m.index < 40:\n    for j in range(m.index, 40):\n        {FENCE}",
    "greater": f"if 40 > m.index:\n    for j in range(m.index, 40):\n        {FENCE}",
    "from a number": f"if 0 < m.index:\n    for j in range(m.index):\n        {FENCE}",
    "in steps": f"if m.index < 40:\n    for j in range(m.index, 40, 3):\n        {FENCE}",
    "among others": f"if m.index % 2 == 0 and n.index < m.index:\n    for j in range(n.index, m.index):\n        {FENCE}",
    "further out": f"if m.index < 40:\n    if n.index % 2 == 0:\n        for j in range(m.index, 40):\n            {FENCE}\n"
    f"    else:\n        {FENCE}",
}


@pytest.mark.parametrize("way", SURE)
def test_a_loop_that_a_condition_makes_turn_is_as_good_as_none(way: str) -> None:
    assert refused(f"{SURE[way]}\nelse:\n    {FENCE}") == {}


UNSURE = {
    "to elsewhere": "range(n.index, 40)",
    "from elsewhere": "range(2 * n.index - 40, m.index)",
    "only more": "range(0, 40 - m.index)",
}


@pytest.mark.parametrize("way", UNSURE)
def test_a_condition_on_other_bounds_makes_no_loop_turn(way: str) -> None:
    body = (
        f"if n.index < m.index:\n    for j in {UNSURE[way]}:\n        {FENCE}\nelse:\n    {FENCE}"
    )
    found = refused(body)
    assert any("may not turn" in why for why in found.values()), found


BOUNDED = {
    "what is left over": "range(m.index % 3 + 1)",
    "from what is left over": "range(m.index % 3, n.index % 2 + 3)",
    "a product": "range(2 * (m.index % 3) + 1)",
    "a difference": "range(3 - m.index % 3)",
    "at most": "range(min(m.index % 5, 2) + 1)",
    "at least": "range(max(n.index, 1))",
    "a quotient": "range(n.index // 4 + 1)",
    "in steps": "range(m.index % 3, 3, m.index % 2 + 1)",
}


@pytest.mark.parametrize("way", BOUNDED)
def test_a_loop_whose_bounds_leave_a_turn_is_as_good_as_none(way: str) -> None:
    assert refused(f"for j in {BOUNDED[way]}:\n    {FENCE}") == {}


UNBOUNDED = {
    "a sum that may wrap": "range(m.index + 1)",
    "a product that may wrap": "range(2 * m.index + 1)",
    "a quotient that may wrap": "range(m.index // 2 + 1)",
    "a difference that ends late": "range(100 - m.index % 101)",
    "from as far as the end": "range(m.index % 64, 63)",
    "left over from what is not known": "range(m.index % (n.index + 1) + 1)",
    "at least nothing": "range(max(50 - m.index, 0))",
}


@pytest.mark.parametrize("way", UNBOUNDED)
def test_a_loop_whose_bounds_may_leave_no_turn_is_no_proof(way: str) -> None:
    found = refused(f"for j in {UNBOUNDED[way]}:\n    {FENCE}")
    assert any("may not turn" in w or "nothing orders" in w for w in found.values()), found


def test_a_fence_like_the_named_one_in_a_loop_that_may_stop_turning_is_no_proof() -> None:
    loop = f"for j in range(41 - m.index):\n        {FENCE}"
    found = refused(f"if m.index % 2 == 0:\n    {FENCE}\nelse:\n    {loop}")
    assert any("nothing orders" in why for why in found.values()), found

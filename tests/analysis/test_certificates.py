"""The checker of certificates takes what holds, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from tkc.analysis.certificates import wrong
from tkc.analysis.instances import Unknown
from tkc.driver import to_module
from tkc.ir import certificates as c
from tkc.ir.stage import ops as s
from tkc.job import Job

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("gemm_bf16", "gemm_bf16_level2", "gemm_nvfp4", "row_softmax", "gemm_2cta")


def made(
    name: str, target: str = "sm_100a", model: str = "practice"
) -> tuple[s.KernelOp, c.Certificate, ModuleOp]:
    path = EXAMPLES / f"{name}.tk"
    module = to_module(
        Job(path.read_text(), str(path), target, model=model), after="eliminate-fences"
    )
    kernel = next(op for op in module.body.block.ops if isinstance(op, s.KernelOp))
    return kernel, c.read(module)[0], module


@pytest.mark.parametrize("name", NAMES)
def test_what_the_pass_writes_holds(name: str) -> None:
    kernel, certificate, _module = made(name)
    assert certificate.orders
    assert wrong(certificate, kernel) == {}


def chains(order: c.Order) -> list[tuple[str, tuple[c.Link, ...]]]:
    return [
        (side, chain) for side in ("forward", "back") if (chain := getattr(order, side)) is not None
    ]


@pytest.mark.parametrize("name", ["gemm_bf16", "gemm_bf16_level2", "gemm_nvfp4"])
def test_a_chain_with_a_step_left_out_does_not_hold(name: str) -> None:
    """Any step but a group, which is counted where it is awaited, and a warp's own meeting."""
    kernel, certificate, _module = made(name)
    taken: list[tuple[int, c.Certificate]] = []
    for number, order in enumerate(certificate.orders):
        alone = [
            o
            for o in certificate.orders
            if (o.first, o.second, o.operands) == (order.first, order.second, order.operands)
        ]
        for side, chain in chains(order):
            for i, link in enumerate(chain[:-1]):
                if (
                    link.rule in ("group", "read-between", "meet-warp", "meet-warp-async")
                    or len(alone) > 1
                ):
                    continue
                shorter = order._replace(**{side: (*chain[:i], *chain[i + 1 :])})
                if order.first == order.second and order.operands[0] == order.operands[1]:
                    shorter = shorter._replace(
                        forward=(*chain[:i], *chain[i + 1 :]), back=(*chain[:i], *chain[i + 1 :])
                    )
                changed = certificate._replace(
                    orders=(
                        *certificate.orders[:number],
                        shorter,
                        *certificate.orders[number + 1 :],
                    )
                )
                taken.append((number, changed))
    assert len(taken) > 5
    for number, changed in random.Random(7).sample(taken, 6):
        assert number in wrong(changed, kernel), changed.orders[number]


def test_a_rule_of_another_model_is_refused() -> None:
    kernel, certificate, _module = made("gemm_bf16")
    strict = certificate._replace(
        orders=tuple(o._replace(model="strict") for o in certificate.orders)
    )
    refused = wrong(strict, kernel)
    assert refused
    assert all("assumes" in why for why in refused.values())


def test_a_certificate_of_another_program_does_not_hold() -> None:
    """The same, but the fence that was needed is gone too; or a wait is relaxed."""
    kernel, certificate, _module = made("gemm_bf16_level2")
    fence = next(op for op in kernel.walk() if isinstance(op, s.ProxyFenceOp))
    fence.detach()
    assert any("proxy-fence" in certificate.orders[i].rules() for i in wrong(certificate, kernel))
    kernel, certificate, _module = made("gemm_bf16_level2")
    wait = next(op for op in kernel.walk() if c.label(op) == "math.user.wait.full")
    wait.properties["sem"] = c.StringAttr("relaxed")
    assert wrong(certificate, kernel)


def test_a_ring_with_one_slot_too_few_barriers_does_not_hold() -> None:
    """The counts of a barrier are part of what is checked: fewer arrivals than it takes, and a phase ends too early."""
    kernel, certificate, _module = made("gemm_bf16")
    drained = next(
        op
        for op in kernel.body.block.ops
        if isinstance(op, s.BarriersOp) and op.sym_name.data == "result.empty"
    )
    drained.count = type(drained.count)(1, drained.count.type)
    with pytest.raises(Unknown, match="more arrivals"):
        wrong(certificate, kernel)


def test_without_a_wait_chains_do_not_hold() -> None:
    kernel, certificate, _module = made("gemm_bf16")
    wait = next(op for op in kernel.walk() if isinstance(op, s.BulkWaitOp))
    wait.detach()
    assert wrong(certificate, kernel)


def test_without_a_wait_phases_are_lapped() -> None:
    """Whoever goes on first ends a phase that others have not seen: nothing can be checked."""
    kernel, certificate, _module = made("gemm_bf16")
    wait = next(op for op in kernel.walk() if isinstance(op, s.MbarrierWaitOp))
    wait.detach()
    with pytest.raises(Unknown, match="before all have seen"):
        wrong(certificate, kernel)


def test_attributes_that_are_no_certificate_are_told() -> None:
    _, _, module = made("gemm_bf16")
    module.attributes[c.KEY] = c.ArrayAttr([c.StringAttr("nonsense")])
    with pytest.raises(ValueError, match="cannot be read"):
        c.read(module)

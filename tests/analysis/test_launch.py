"""What the tile level says of a launch: symbols, arguments, what is written, what is empty, what must hold."""

from __future__ import annotations

import pytest
from passes.programs import gemm, operations, parse

from tkc.analysis.launch import MOST_ITEMS, expression, launch_of
from tkc.backend.expressions import Scope, evaluate
from tkc.ir.stage.scalar import arith, const
from tkc.ir.tile import ops as t


def launch(text: str) -> dict[str, object]:
    (kernel,) = operations(parse(text), t.KernelOp)
    return launch_of(kernel)


def test_symbols_are_read_from_every_dimension_that_has_them() -> None:
    found = launch(gemm())
    assert found["symbols"] == {
        "M": [{"argument": "A", "dimension": 0}, {"argument": "C", "dimension": 0}],
        "K": [{"argument": "A", "dimension": 1}, {"argument": "B", "dimension": 1}],
        "N": [{"argument": "B", "dimension": 0}, {"argument": "C", "dimension": 1}],
    }


def test_arguments_are_in_order_and_say_what_is_done_to_them() -> None:
    found = launch(gemm(out="f16"))
    assert found["arguments"] == [
        {"name": "A", "dtype": "bf16", "dims": ["M", "K"], "access": "read"},
        {"name": "B", "dtype": "bf16", "dims": ["N", "K"], "access": "read"},
        {"name": "C", "dtype": "f16", "dims": ["M", "N"], "access": "write"},
    ]
    assert found["outputs"] == ["C"]
    assert found["params"] == {"BM": 128}


def test_a_tensor_that_is_read_and_written_is_both() -> None:
    text = gemm(bm=64, bn=64, bk=64).replace(
        "%sa = tile.slice %A, %m, %k\n            : (!tile.tensor<bf16, [M, K]>",
        "%sa = tile.slice %C, %m, %k\n            : (!tile.tensor<bf16, [M, K]>",
    )
    text = text.replace("%C : !tile.tensor<bf16, [M, N]>", "%C : !tile.tensor<bf16, [M, K]>")
    text = text.replace(
        "%sc = tile.slice %C, %m, %n : (!tile.tensor<bf16, [M, N]>",
        "%sc = tile.slice %C, %m, %n : (!tile.tensor<bf16, [M, K]>",
    )
    text = text.replace("!tile.block<64, N>", "!tile.block<64, K>").replace(
        'symbol = "N"', 'symbol = "K"'
    )
    text = text.replace(
        "%B : !tile.tensor<bf16, [N, K]>", "%B : !tile.tensor<bf16, [K, K]>"
    ).replace("[N, K]", "[K, K]")
    arguments = {a["name"]: a["access"] for a in launch(text)["arguments"]}  # type: ignore[attr-defined]
    assert arguments == {"A": "read", "B": "read", "C": "readwrite"}


def test_nothing_is_launched_where_an_axis_of_the_schedule_is_empty() -> None:
    """K = 0 is no such axis: the tiles are there, and their products are empty sums."""
    assert launch(gemm())["empty"] == [{"when": ["M", "N"], "do": "nothing"}]


@pytest.mark.parametrize(
    ("m", "n", "group", "fits"),
    [
        (4096, 4096, 8, True),
        (0, 4096, 8, True),
        (MOST_ITEMS * 64, 64, 1, True),
        ((MOST_ITEMS + 1) * 64, 64, 1, False),
        (64, MOST_ITEMS // 8 * 64, 8, True),
        (
            64,
            (MOST_ITEMS // 8 + 1) * 64,
            8,
            False,
        ),  # one row of blocks, but a band of 8 is computed with
        (64, (MOST_ITEMS // 8 + 1) * 64, 1, True),
    ],
)
def test_more_items_than_32_bits_count_are_refused(m: int, n: int, group: int, fits: bool) -> None:
    (requirement,) = launch(gemm(bm=64, bn=64, group=group))["requires"]  # type: ignore[misc]
    assert evaluate(requirement["test"], Scope({"M": m, "N": n})) == fits
    assert f"schedule work has more than {MOST_ITEMS} items" in requirement["message"]


def test_an_expression_is_made_of_sizes_and_constants() -> None:
    (kernel,) = operations(parse(gemm()), t.KernelOp)
    m, n, *_ = [op.results[0] for op in kernel.body.block.ops if op.name == "stage.size"]
    block = const(64)
    total = arith("mul", m, arith("cdiv", n, block.value).value)
    assert expression(total.value) == {
        "op": "mul",
        "of": [{"sym": "M"}, {"op": "ceildiv", "of": [{"sym": "N"}, 64]}],
    }
    with pytest.raises(ValueError, match="not made of sizes"):
        expression(arith("shl", m, n).value)
    with pytest.raises(ValueError, match="not made of sizes"):
        expression(kernel.body.block.args[0])

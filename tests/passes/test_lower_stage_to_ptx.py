"""Whole kernels as PTX: the contract, the frame round the roles, barriers, and what is refused."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules

import pytest
from passes.programs import gemm, lowered, operations, parse, ptx, run

import tkc.passes.lowering
from tkc.backend.ptx_text import print_ptx
from tkc.diagnostics import TargetError, TkcError
from tkc.ir.contract import from_attribute
from tkc.ir.ptx.kernel import KernelOp
from tkc.passes.lowering.state import Kernel


def contract(target: str, **sizes: int) -> dict[str, object]:
    (kernel,) = operations(lowered(gemm(**sizes), target, "lower-stage-to-ptx"), KernelOp)
    assert kernel.contract is not None
    return from_attribute(kernel.contract)


def test_maps_and_sizes_are_arguments_in_the_order_of_the_parameters() -> None:
    (kernel,) = operations(lowered(gemm(), "sm_100a", "lower-stage-to-ptx"), KernelOp)
    assert kernel.contract is not None
    args = from_attribute(kernel.contract)["args"]
    params = [(from_attribute(p)["name"], from_attribute(p)["kind"]) for p in kernel.params]
    assert [a["name"] for a in args] == [name for name, _ in params]
    maps = {a["argument"]: a for a in args if a["kind"] == "tensormap"}
    assert set(maps) == {"A", "B", "C"}
    assert maps["A"]["box"] == [64, 128]
    assert maps["B"]["box"] == [64, 256]
    assert maps["C"]["box"] == [64, 128]
    assert maps["A"]["sizes"] == [
        {"op": "max", "of": [{"sym": "K"}, 1]},
        {"op": "max", "of": [{"sym": "M"}, 1]},
    ]
    assert {m["swizzle"] for m in maps.values()} == {"128B"}
    assert [a["name"] for a in args if a["kind"] == "scalar"] == ["M", "N", "K"]


@pytest.mark.parametrize(
    ("target", "block", "columns"), [("sm_100a", [192, 1, 1], 512), ("sm_90a", [384, 1, 1], 0)]
)
def test_the_launch_is_what_the_passes_settled(target: str, block: list[int], columns: int) -> None:
    found = contract(target)
    assert found["block"] == block
    assert found["tensor_columns"] == columns
    assert found["cluster"] == {"size": [1, 1, 1], "preferred": None, "minimum": None}
    assert 200_000 < found["shared_bytes"] <= 232448  # type: ignore[operator]


def test_rows_of_a_stored_tensor_are_whole_granules() -> None:
    """The copy engine writes 16 bytes at once, so C's rows are a multiple of 8 bf16; A's and B's need not be."""
    requires = contract("sm_100a")["requires"]
    tests = [r["test"] for r in requires]  # type: ignore[attr-defined]
    assert {"op": "eq", "of": [{"op": "mod", "of": [{"sym": "N"}, 8]}, 0]} in tests
    assert len(tests) == 2


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_every_barrier_is_initialised_with_its_count_before_the_cta_meets(target: str) -> None:
    text = ptx(gemm(), target)
    head = text[: text.index("barrier.cta.sync 0;")]
    found = re.findall(r"mbarrier\.init\.shared::cta\.b64 \[%r\d+\+(\d+)\], (\d+);", head)
    counts = [1] * 4 + ([1] * 4 + [1] * 2 + [4] * 2 if target == "sm_100a" else [8] * 4)
    assert [int(count) for _, count in found] == counts
    offsets = [int(offset) for offset, _ in found]
    assert offsets == list(range(offsets[0], offsets[0] + 8 * len(counts), 8))
    assert "fence.mbarrier_init.release.cluster;" in head
    assert "mbarrier.init" not in text[len(head) :]


def test_tensor_memory_is_freed_by_the_warp_that_allocated_it_after_all_are_done() -> None:
    text = ptx(gemm(), "sm_100a")
    allocated = text.index("tcgen05.alloc")
    freed = text.index("tcgen05.dealloc")
    last_read = text.rindex("tcgen05.ld")
    meeting = text.rindex("barrier.cta.sync 0;")
    assert allocated < text.index("barrier.cta.sync 0;") < last_read < meeting < freed
    assert text.count("tcgen05.alloc.") == text.count("tcgen05.dealloc.") == 1
    assert "tcgen05.relinquish_alloc_permit" in text[allocated:last_read]
    assert "tcgen05" not in ptx(gemm(), "sm_90a")


def test_registers_move_first_in_every_warpgroup() -> None:
    """All warps of a warpgroup execute one setmaxnreg, before anything that may wait (R16)."""
    text = ptx(gemm(), "sm_90a")
    moves = [m.start() for m in re.finditer("setmaxnreg", text)]
    assert re.findall(r"setmaxnreg\.(\w+)\.sync\.aligned\.u32 (\d+);", text) == [
        ("inc", "240"),
        ("dec", "24"),
    ]
    assert all(text.index("try_wait") > moves[0] for _ in moves)
    assert text.index("barrier.cta.sync 0;") < moves[0]
    between = text[moves[1] : text.index("try_wait", moves[1])]
    assert "setp.eq.u32" in between, (
        "the loader's warp is chosen behind the dec of its whole warpgroup"
    )


def test_named_barriers_of_warpgroups_that_split_rows_are_different() -> None:
    text = ptx(gemm(), "sm_90a")
    assert re.search(
        r"shr\.u32 (%r\d+), %r2, 2;\n\s+add\.u32 (%r\d+), \1, 2;\n\s+barrier\.cta\.sync \2, 128;",
        text,
    )
    assert "barrier.cta.sync 3, 128;" in ptx(gemm(), "sm_100a")


def roles(count: int, meeting: int) -> str:
    """`count` roles of one warp, of which `meeting` have a barrier of their own."""
    lines: list[str] = []
    for i in range(count):
        clauses = f'sym_name = "r{i}", warps = 1 : i32, first_warp = {i} : i32, groups = 1 : i32'
        lines.append(f"stage.role {{{clauses}}} do {{")
        if i < meeting:
            lines.append(f'stage.role_barrier {{id = "b{i}"}}')
        lines.append("}")
    body = "\n".join(lines)
    clauses = (
        f'sym_name = "k", arg_names = [], contract = {{requires = []}}, threads = {32 * count}'
    )
    return f"""builtin.module attributes {{tkc.target = "sm_90a"}} {{
stage.kernel {{{clauses} : i32}} do {{
{body}
}}
}}"""


def test_where_named_barriers_are_few_only_roles_that_meet_have_one() -> None:
    text = print_ptx(run(parse(roles(20, 15)), "lower-stage-to-ptx", "name-registers"))
    assert re.findall(r"barrier\.cta\.sync (\d+), 32;", text) == [str(n) for n in range(1, 16)]
    said = "take 16 named barriers; a CTA has 15 beside its own"
    with pytest.raises(TkcError, match=said) as error:
        run(parse(roles(20, 16)), "lower-stage-to-ptx")
    assert error.value.diagnostics[0].code == "TK209"
    assert len(error.value.diagnostics[0].notes) == 16


def test_an_operation_that_the_target_has_no_way_to_do_names_what_it_takes() -> None:
    text = """builtin.module attributes {tkc.target = "sm_90a"} {
stage.kernel {sym_name = "k", arg_names = [], contract = {requires = []}, threads = 32 : i32} do {
stage.role {sym_name = "r", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
stage.tcgen05_fence {side = "before_thread_sync", id = "f"}
}
}
}"""
    with pytest.raises(
        TargetError, match=r"`fence tcgen05` needs tcgen05 and tensor memory; sm_90a has none"
    ) as error:
        run(parse(text), "lower-stage-to-ptx")
    location = error.value.diagnostics[0].location
    assert location is not None
    assert location.line == 4


def test_every_operation_that_may_reach_lowering_has_a_way() -> None:
    from tkc.ir.stage import STAGE

    for module in iter_modules(
        tkc.passes.lowering.__path__
    ):  # most are loaded when a program needs them
        import_module(f"tkc.passes.lowering.{module.name}")

    gone = {
        "stage.work_loop",
        "stage.pipe",
        "stage.acquire",
        "stage.commit",
        "stage.wait",
        "stage.release",
        "stage.turn",
        "stage.skip",
    }
    frame = {"stage.kernel", "stage.role", "stage.alloc", "stage.barriers"}
    known = {kind.name for kind in Kernel.TABLE}
    assert {op.name for op in STAGE.operations} - gone - frame == known

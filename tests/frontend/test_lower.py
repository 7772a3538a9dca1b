"""What programs become: the operations, their places, their names, and the variables that loops carry."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from programs import EXAMPLES, GEMM, SILU, changed, compiled, elementwise, mistakes, only
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, FileLineColLoc, ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer

from tkc.frontend import compile_source
from tkc.ir.tile import TILE


def printed(module: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue() + "\n"


def lines(text: str, part: str) -> list[str]:
    """The operations of a program's module that contain a text, without their types."""
    return [
        line.split(" : (")[0].strip()
        for line in printed(compiled(text)).splitlines()
        if part in line
    ]


EXACT = ("gemm_bf16", "row_softmax", "silu_mul", "tma_copy")


@pytest.mark.parametrize("path", [EXAMPLES / f"{name}.tk" for name in EXACT], ids=lambda p: p.stem)
def test_an_example_becomes_exactly_this(path: object, golden: Callable[[str, str], None]) -> None:
    assert isinstance(path, type(EXAMPLES))
    module = compile_source(path.read_text(encoding="utf-8"), path.name)
    module.verify()
    golden(printed(module), f"{path.stem}.mlir")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.tk")), ids=lambda p: p.stem)
def test_the_text_form_parses_back(path: object) -> None:
    from tkc.ir import stage

    assert isinstance(path, type(EXAMPLES))
    module = compile_source(path.read_text(encoding="utf-8"), path.name)
    context = Context()
    for dialect in (Builtin, TILE, stage.STAGE):
        context.load_dialect(dialect)
    back = Parser(context, printed(module)).parse_module()
    back.verify()
    assert back.is_structurally_equivalent(module)


@pytest.mark.parametrize("text", [GEMM, SILU], ids=["gemm", "silu"])
def test_every_operation_and_argument_knows_its_place(text: str) -> None:
    module = compile_source(text, "k.tk")
    count = text.count("\n") + 1
    for op in module.walk():
        places = [op.location, *(a.location for r in op.regions for b in r.blocks for a in b.args)]
        for place in places:
            assert isinstance(place, FileLineColLoc), op.name
            assert place.filename.data == "k.tk"
            assert 1 <= place.line.data <= count
            assert place.column.data >= 1


def test_places_are_those_of_the_statements() -> None:
    module = compile_source(GEMM, "k.tk")
    rows = GEMM.split("\n")
    starts = {
        "tile.mma": "d += a",
        "tile.zero": "d = 0",
        "tile.schedule": "work: m",
        "tile.role": "role ",
        "tile.for_blocks": "for k in",
        "tile.for_tiles": "for m, n in work",
        "tile.read": "read(d)",
        "tile.cast": "bf16(read(d))",
    }
    seen = set()
    for op in module.walk():
        if op.name in starts:
            place = op.location
            assert isinstance(place, FileLineColLoc)
            assert rows[place.line.data - 1][place.column.data - 1 :].startswith(starts[op.name])
            seen.add(op.name)
    assert seen == starts.keys()


def test_values_are_named_after_the_program() -> None:
    text = printed(compile_source(GEMM, "k.tk"))
    for name in ("%A:", "%M =", "%work =", "%inputs =", "%m: ", "%k: ", "%d_values ="):
        assert name in text


# params and kernels


def test_params_are_overridden_and_what_follows_from_them() -> None:
    text = changed(GEMM, ("BM = 128, BN = 256", "BM = 128, BN = 2 * BM"))
    module = printed(compiled(text, params={"BM": 64, "BK": 32}))
    assert "params = {BM = 64 : i64, BN = 128 : i64, BK = 32 : i64, STAGES = 4 : i64}" in module
    assert "!tile.shared<bf16, [128, 32], 4>" in module
    assert "sizes = [64 : i32, 128 : i32]" in module


PARAMS = [
    ({"BMM": 64}, "no param `BMM`; did you mean `BM`"),
    ({"tiles": 64}, "no param `tiles`"),
    ({"BM": 0}, "param BM is overridden by 0, expected 1 to 2147483647"),
    ({"BM": -5}, "overridden by -5"),
    ({"BM": 2**31}, "overridden by 2147483648"),
    ({"BM": "64"}, "set to '64', expected an integer"),
    ({"BM": True}, "set to True, expected an integer"),
    ({"BM": 1.5}, "set to 1.5, expected an integer"),
]


@pytest.mark.parametrize(("params", "told"), PARAMS, ids=[c[1] for c in PARAMS])
def test_wrong_overrides(params: dict[str, int], told: str) -> None:
    said = only(mistakes(GEMM, params=params))
    assert said.code == "TK111"
    assert told in said.message
    assert said.line in (4, 5)


def test_an_axis_may_be_a_param_or_a_number() -> None:
    text = changed(
        GEMM, ("A: global[bf16, M, K]", "A: global[bf16, M, K], D: global[f32, BM, 2 * BM]")
    )
    assert "!tile.tensor<f32, [128, 256]>" in printed(compiled(text))


def test_kernels_are_chosen_by_name() -> None:
    two = GEMM + SILU
    assert [op.sym_name.data for op in compiled(two).ops] == ["gemm", "silu_mul"]  # type: ignore[attr-defined]
    assert [op.sym_name.data for op in compiled(two, kernel="silu_mul").ops] == ["silu_mul"]  # type: ignore[attr-defined]
    said = only(mistakes(two, kernel="silumul"))
    assert (said.code, said.message) == (
        "TK102",
        "no kernel `silumul`; did you mean `silu_mul`; the program has `gemm`, `silu_mul`",
    )
    assert only(mistakes(GEMM + GEMM)).code == "TK103"


def test_an_override_serves_the_kernels_that_have_it() -> None:
    module = printed(compiled(GEMM + SILU, params={"BK": 32}))
    assert "BK = 32" in module


# integers


def test_integer_expressions_stand_once_at_the_top() -> None:
    text = elementwise(
        "half = M // 2",
        "for i in blocks(half + 1, BM):",
        "    for j in blocks(1 + M // 2, BM):",
        "        v = read(y)",
        "for i in blocks(min(count, 7), 1): v = read(y)",
        arguments=", count: i32",
    )
    module = printed(compiled(text))
    top = module.split("tile.role")[0]
    assert top.count('kind = "div"') == top.count('kind = "add"') == 1
    assert "!tile.block<128, add.div.M.2.1>" in module
    assert '%min.count.7 = stage.arith %count, %c7 {kind = "min"}' in top


def test_an_index_may_be_an_integer() -> None:
    text = changed(
        SILU,
        ("X: global[bf16, M, N]", "X: global[bf16, 4, M, N]"),
        ("x <- X[m, n]", "x <- X[3, m, n]"),
    )
    assert lines(text, "tile.slice %X") == ["%0 = tile.slice %X, %c3, %m, %n"]
    said = only(mistakes(changed(text, ("X[3,", "X[4,"))))
    assert (said.code, said.message) == (
        "TK104",
        "index 4 lies outside axis 0 of X, whose extent is 4",
    )


# statements and expressions


def test_a_product_that_clears() -> None:
    text = changed(GEMM, ("d += a @ b.T", "d = a @ b.T"))
    assert [line.split(" ")[0] for line in lines(text, "%d_1")[1:]] == [
        "tile.zero", "tile.zero", "tile.mma",
    ]  # fmt: skip


def test_transposes_become_properties() -> None:
    text = changed(
        GEMM,
        ("shared b: tile[bf16, BN, BK]", "shared b: tile[bf16, BK, BN]"),
        ("shared a: tile[bf16, BM, BK]", "shared a: tile[bf16, BK, BM]"),
        ("A: global[bf16, M, K]", "A: global[bf16, K, M]"),
        ("B: global[bf16, N, K]", "B: global[bf16, K, N]"),
        ("A[m, k]", "A[k, m]"),
        ("B[n, k]", "B[k, n]"),
        ("a @ b.T", "a.T @ b.T.T"),
    )
    assert "{trans_a = 1 : i32, trans_b = 0 : i32}" in lines(text, "tile.mma")[0]


@pytest.mark.parametrize(
    ("expression", "kinds"),
    [
        ("read(y) + 1", "add"),
        ("2 * read(y) - scale", "mul sub"),
        ("-read(y) / 3.5", "neg div"),
        ("max(min(read(y), 1), -1.0)", "min max"),
        ("exp2(log2(abs(read(y))))", "abs log2 exp2"),
        ("rsqrt(sqrt(read(y))) * rcp(tanh(log(exp(read(y)))))", "sqrt rsqrt exp log tanh rcp mul"),
        ("read(y) * (scale * 2 + scale)", "mul add mul"),
        ("relu(read(y))", "max"),
        ("sigmoid(read(y))", "neg exp add rcp"),
        ("silu(read(y))", "neg exp add rcp mul"),
        ("gelu(read(y))", "mul mul add mul neg exp add rcp mul"),
        ("f32(bf16(read(y)))", ""),
        ("max(read(y), -inf)", "max"),
        ("read(y) * sqrt(2) * (1.5 - 0.5)", "mul mul"),
        ("+read(y)", ""),
    ],
)
def test_expressions_become_operations(expression: str, kinds: str) -> None:
    text = elementwise(f"Z[m, n] <- {expression}", arguments=", scale: f32")
    module = printed(compiled(text)).split("tile.role")[2]
    found = [
        line.split('kind = "')[1].split('"')[0] for line in module.splitlines() if "kind =" in line
    ]
    assert found == kinds.split()


def test_casts_between_narrow_floats_go_through_f32() -> None:
    text = elementwise("Z[m, n] <- f32(f16(read(x)))")
    types = [
        line.split("-> (")[1]
        for line in printed(compiled(text)).splitlines()
        if "tile.cast" in line
    ]
    assert [t.split("<")[1][:3] for t in types] == ["f32", "f16", "f32"]


def test_constants_are_exact() -> None:
    text = elementwise("Z[m, n] <- read(y) * 0.1 + 16777217 + max(read(y), -inf)")
    found = [line for line in printed(compiled(text)).splitlines() if "stage.const" in line]
    assert "1.000000e-01 : f32" in found[0] or "0.1" in found[0]
    assert len(found) == 3


def test_a_tile_is_read_where_the_program_reads_it() -> None:
    text = elementwise("a = read(y)", "Z[m, n] <- a + a", "b = read(y) * a")
    assert len(lines(text, "tile.read")) == 2


# carried variables


def test_a_loop_carries_what_it_changes() -> None:
    text = elementwise(
        "total = read(y)",
        "other = read(y)",
        "for j in blocks(N, BN):",
        "    step = read(y) * other",
        "    total = total + step",
        "Z[m, n] <- total",
    )
    loop = lines(text, "tile.for_blocks")
    assert loop == ["%total_1 = tile.for_blocks %N, %total {size = 64 : i32}"]
    assert lines(text, "tile.yield %")[0] == "tile.yield %total_3"


def test_a_variable_set_anew_in_each_turn_is_not_carried() -> None:
    text = elementwise(
        "v = read(y)",
        "w = v",
        "for j in blocks(N, BN):",
        "    v = read(y)",
        "    w = w + v",
        "Z[m, n] <- w",
    )
    assert lines(text, "tile.for_blocks") == ["%w = tile.for_blocks %N, %v {size = 64 : i32}"]


def test_a_variable_read_after_the_loop_is_carried_though_it_is_set_anew() -> None:
    text = elementwise(
        "v = read(y)", "for j in blocks(N, BN):", "    v = read(y) * 2", "Z[m, n] <- v"
    )
    assert lines(text, "tile.for_blocks") == ["%v_1 = tile.for_blocks %N, %v {size = 64 : i32}"]


def test_nested_loops_carry_through() -> None:
    text = elementwise(
        "v = read(y)",
        "for i in blocks(M, BM):",
        "    for j in blocks(N, BN):",
        "        v = v * 2",
        "Z[m, n] <- v",
    )
    assert [line.split(" = ")[1] for line in lines(text, "tile.for_blocks")] == [
        "tile.for_blocks %M, %v {size",
        "tile.for_blocks %N, %v_2 {size",
    ]


def test_a_get_hands_on_what_is_read_later() -> None:
    text = elementwise("v = read(y)", "dead = v * 2", before="first = 1.5") + (
        "            Z[m, n] <- v * first\n"
    )
    assert lines(text, "tile.get") == ["%v = tile.get %p"]
    assert lines(text, "tile.yield %") == ["tile.yield %y_values"] or lines(text, "tile.yield %")


def test_a_value_goes_round_the_work_loop() -> None:
    text = changed(
        elementwise("total = total + read(y)", "Z[m, n] <- total"),
        ("role math, warps 4:\n", "role math, warps 4:\n        total = 0.0\n"),
    )
    assert lines(text, "tile.fill")  # a number before the loop, a tile in it: a tile of that number
    scalar = changed(
        elementwise(
            "total = total + scale", "Z[m, n] <- read(y) * total", arguments=", scale: f32"
        ),
        ("role math, warps 4:\n", "role math, warps 4:\n        total = 0.0\n"),
    )
    assert lines(scalar, "tile.for_tiles")[1].startswith("%total_1 = tile.for_tiles %work, %total")


def test_a_put_and_a_get_in_one_header_nest_in_written_order() -> None:
    text = changed(
        GEMM,
        ("                d = 0\n                for k in blocks(K, BK):\n", ""),
        (
            "            put result:\n                    get inputs:\n    ",
            "            put result, get inputs:\n",
        ),
        ("    d += a @ b.T", "d = a @ b.T"),
    )
    said = only(mistakes(text))
    assert said.code == "TK109"  # one item for each tile of work is got, and K / BK are put
    loop = "            for k in blocks(K, BK):\n                put inputs:\n"
    fits = changed(
        text,
        (loop, "            put inputs:\n"),
        ("                    a <- A[m, k]", "                a <- A[m, n]"),
        ("                    b <- B[n, k]", "                b <- B[n, n]"),
        (
            "A: global[bf16, M, K], B: global[bf16, N, K]",
            "A: global[bf16, M, N], B: global[bf16, N, N]",
        ),
        ("BN = 256, BK = 64, STAGES = 4", "BN = 64, BK = 64, STAGES = 4"),
    )
    found = [line for line in printed(compiled(fits)).splitlines() if "tile.put %result" in line]
    assert len(found) == 1
    inner = printed(compiled(fits)).split("tile.put %result")[1].split("tile.yield")[0]
    assert "tile.get %inputs" in inner


def test_scalars_of_the_launch() -> None:
    text = changed(GEMM, ("C: global", "alpha: f32, C: global"), ("read(d)", "read(d) * alpha"))
    assert "tile.map %d_values, %alpha" in lines(text, "tile.map")[0]
    assert "%alpha: f32, %C: !tile.tensor<bf16, [M, N]>" in printed(compiled(text))

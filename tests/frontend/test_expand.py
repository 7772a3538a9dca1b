"""Families: several tiles, pipes and roles of one name, loops that choose among them, and names for items."""

from __future__ import annotations

import pytest
from programs import GEMM, changed, compiled, mistakes

from tkc.ir.tile import ops as t

HALVES = """\
kernel halves(A: global[bf16, M, K], B: global[bf16, N, K], C: global[bf16, M, N]):
    param BM = 128, BN = 64, BK = 64, COUNT = 2
    launch persistent
    schedule work: m, n in tiles(blocks(M, COUNT * BM), blocks(N, BN))
    shared a[COUNT]: tile[bf16, BM, BK] * 2
    shared b: tile[bf16, BN, BK] * 2
    accum d[COUNT]: tile[f32, BM, BN]
    pipe inputs(a, b): load -> math
    pipe result[i](d[i]): math -> store[i]
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs:
                    for i in 0, 1: a[i] <- A[m.part(i, COUNT), k]
                    b <- B[n, k]
    role math:
        for m, n in work:
            put result[0], result[1]:
                for i in 0, COUNT - 1: d[i] = 0
                for k in blocks(K, BK):
                    get inputs:
                        for i in 0, 1: d[i] += a[i] @ b.T
    role store[i in 0, 1], registers 64 + 8 * i:
        for m, n in work:
            get result[i]:
                C[m.part(i, COUNT), n] <- bf16(read(d[i]))
"""

TWO_ITEMS = """\
kernel pairs(A: global[bf16, M, K], B: global[bf16, N, K], C: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 128))
    shared t: tile[bf16, 128, 64] * 4
    accum d: tile[f32, 128, 128]
    pipe inputs(t): load -> math
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, 64):
                put inputs: t <- A[m, k]
                put inputs as other: other <- B[n, k]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, 64):
                    get inputs as a, inputs as b: d += a @ b.T
    role store:
        for m, n in work:
            get result as x: C[m, n] <- bf16(read(x))
"""


def test_members_are_declared_one_by_one() -> None:
    module = compiled(HALVES)
    names = [
        o.sym_name.data
        for o in module.walk()
        if isinstance(o, t.SharedOp | t.AccumOp | t.PipeOp | t.RoleOp)
    ]
    assert names == [
        "a[0]", "a[1]", "b", "d[0]", "d[1]", "inputs", "result[0]", "result[1]",
        "load", "math", "store[0]", "store[1]",
    ]  # fmt: skip
    roles = {o.sym_name.data: o for o in module.walk() if isinstance(o, t.RoleOp)}
    registers = [roles[n].registers for n in ("store[0]", "store[1]")]
    assert [r.value.data for r in registers if r is not None] == [64, 72]


def test_a_family_is_gone_through_by_its_count() -> None:
    """`unroll(COUNT)` is 0, 1, and a family of pipes without an index all of them; also of one."""
    said = str(compiled(HALVES))
    counted = changed(
        HALVES,
        ("for i in 0, 1: a[i]", "for i in unroll(COUNT): a[i]"),
        ("for i in 0, COUNT - 1: d[i] = 0", "for i in unroll(COUNT): d[i] = 0"),
        ("for i in 0, 1: d[i] += a[i]", "for i in unroll(COUNT): d[i] += a[i]"),
        ("put result[0], result[1]", "put result"),
    )
    assert str(compiled(counted)) == said
    one = changed(counted, ("COUNT = 2", "COUNT = 1"), ("store[i in 0, 1]", "store[i in 0]"))
    assert len([o for o in compiled(one).walk() if isinstance(o, t.AccumOp)]) == 1


def test_the_text_of_the_module_reads_back() -> None:
    from xdsl.parser import Parser

    from tkc.ir import context

    text = str(compiled(HALVES))
    assert str(Parser(context(), text).parse_module()) == text


def test_items_have_names() -> None:
    gets = [o for o in compiled(TWO_ITEMS).walk() if isinstance(o, t.GetOp)]
    assert [len(g.pipes) for g in gets] == [2, 1]
    assert [a.name_hint for a in gets[0].body.block.args] == ["a", "b"]


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("shared a[COUNT]", "shared a[K]", "TK117", "and `K` is not: an integer, a param or an index fits"),
        ("shared a[COUNT]", "shared a[0]", "TK117", "0 shared tiles of one name"),
        ("accum d[COUNT]", "accum d[100]", "TK117", "1 to 64 fit"),
        ("accum d[COUNT]", "accum d[2000000000 * 2000000000 * 200]", "TK117", "1 to 64 fit"),
        ("a[i] <- A[m.part(i, COUNT), k]", "a[i + 1] <- A[m.part(i, COUNT), k]", "TK102", "no shared tile `a[2]`; there are"),
        ("C[m.part(i, COUNT), n] <- bf16(read(d[i]))", "C[m.part(i, COUNT), n] <- bf16(read(d))", "TK106", "`d` is 2 accumulators"),
        ("C[m.part(i, COUNT), n] <- bf16(read(d[i]))", "C[m.part(i, COUNT), n] <- bf16(read(d[m]))", "TK117", "`m` is not"),
        ("C[m.part(i, COUNT), n] <- bf16(read(d[i]))", "i = 0", "TK106", "`i` is an index"),
        ("get result[i]", "get result as x", "TK106", "`result` is 2 pipes: `result[0]` is one"),
        ("get result[i]", "get result", "TK107", "role store[0] does not get pipe result[1]"),
        ("for i in 0, 1: a[i]", "for i in unroll(M): a[i]", "TK117", "`i` is not"),
        ("for i in 0, 1: a[i]", "for i in unroll(65): a[i]", "TK117", "`i` is not"),
        ("get result[i]", "get result[2]", "TK102", "no pipe `result[2]`"),
        ("store[i in 0, 1]", "store[i in 0, 0]", "TK103", "stands there twice"),
        ("store[i in 0, 1]", "store[i in 0, N]", "TK117", "an index of a role is known at compile time"),
        ("pipe result[i](d[i])", "pipe result[j](d[i])", "TK102", "`j` is the index of nothing"),
        ("pipe result[i](d[i])", "pipe result[2](d[i])", "TK106", "says which index it has"),
        ("put inputs:", "put inputs[0]:", "TK106", "`inputs` is no family"),
    ],
)  # fmt: skip
def test_mistakes(old: str, new: str, code: str, message: str) -> None:
    said = [s for s in mistakes(changed(HALVES, (old, new))) if message in s.message]
    assert said, [s.message for s in mistakes(changed(HALVES, (old, new)))]
    assert said[0].code == code


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("inputs as a, inputs as b", "inputs, inputs as b", "TK102", "unknown name `a`"),
        ("inputs as a, inputs as b", "inputs as a, inputs as a", "TK103", "`a` is defined twice"),
        ("inputs as a, inputs as b", "inputs as a, inputs as A", "TK103", "`A` is defined twice"),
        ("inputs as a, inputs as b", "inputs, inputs", "TK103", "another name tells the items apart"),
        ("128, 64] * 4", "128, 64]", "TK314", "2 items of pipe inputs are held at once, which has 1 slot"),
        ("get result as x:", "get result as x, result as y:", "TK314", "which has 1 slot"),
        ("bf16(read(x))", "bf16(read(d))", "TK108", "`d`"),
        ("d += a @ b.T", "d += a @ b.T\n                d += a @ b.T", "TK102", "unknown name `a`"),
        ("put inputs as other: other", "put inputs as other: t", "TK108", "`t`"),
    ],
)  # fmt: skip
def test_mistakes_about_items(old: str, new: str, code: str, message: str) -> None:
    said = [s for s in mistakes(changed(TWO_ITEMS, (old, new))) if message in s.message]
    assert said, [s.message for s in mistakes(changed(TWO_ITEMS, (old, new)))]
    assert said[0].code == code


def test_one_name_is_for_one_tile() -> None:
    said = mistakes(changed(GEMM, ("get inputs:", "get inputs as x:")))
    assert [(s.code, s.text) for s in said][:1] == [("TK116", "x")]

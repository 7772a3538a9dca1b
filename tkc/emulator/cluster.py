"""Cluster addresses, spaces of generic addresses, cache policies, and cluster launch control (PTX 9.7.9, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tkc.emulator.bulk import aligned, receivers, scalar_reader, shared_place
from tkc.emulator.elementwise import unary
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import F32, LANES, U8, U32, U64, Vec, constant, mask_of, view
from tkc.emulator.mbarrier import find
from tkc.emulator.report import Stop
from tkc.emulator.spaces import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Origin
from tkc.ir.isa.layouts import cache_policy
from tkc.ir.isa.memory import Done, Proxy

_RANK_SHIFT = np.array([24], U64)
_RANK_BITS = np.array([0xFF], U64)
_HIGH = np.array([32], U64)


def _mapa(i: Instruction) -> Step:
    """The same offset in the CTA of another rank; 64-bit addresses keep their window."""
    keep = np.array([0xFFFFFFFF_00FFFFFF], U64)

    def run(a: Vec, rank: Vec) -> Vec:
        return (a & keep) | (rank.astype(U64) << _RANK_SHIFT)

    d, a, rank = i.dst("d", 64), i.src("a", U64), i.src("rank", U32)
    return lambda w: w.put(d, run(view(w.R[a], U64), view(w.R[rank], U32)))


def _rank_of(i: Instruction) -> Step:
    dtype = U32 if i.mod("type") == "u32" else U64
    return unary(i, lambda x: ((x.astype(U64) >> _RANK_SHIFT) & _RANK_BITS).astype(U32), dtype, U32)


def _is_space(i: Instruction) -> Step:
    space = i.mod("space")
    p, a = i.dst("p", 1), i.src("a", U64)
    windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
    base = space.partition("::")[0]

    def run(w: Any) -> None:
        x = view(w.R[a], U64)
        window = x >> _HIGH
        if base in windows:
            inside = window == np.uint64(windows[base] >> 32)
            if space == "shared::cta" or space == "shared":
                inside &= ((x >> _RANK_SHIFT) & _RANK_BITS) == np.uint64(w.cta.rank)
        elif base == "const":
            inside = np.zeros(LANES, bool)
        else:
            inside = x < np.uint64(PARAM_WINDOW)
        w.put_predicate(p, mask_of(inside))

    return run


# Cache policies: values that change nothing here


def _policy(i: Instruction) -> Step:
    d = i.dst("d", 64)
    for name in ("primary_size", "total_size"):
        if i.given(name):
            i.src(name, U32)
    primary = i.mod("primary").removeprefix("L2::")
    secondary = i.mod("secondary").removeprefix("L2::") or "unchanged"
    names = {"evict_unchanged": "unchanged"}
    words = np.array(
        [
            cache_policy(names.get(primary, primary), names.get(secondary, secondary), n)
            for n in range(1, 17)
        ],
        U64,
    )
    if not i.given("fraction"):
        return lambda w: w.put(d, words[[15] * LANES])
    fraction = i.src("fraction", F32)

    def run(w: Any) -> None:
        sixteenths = np.rint(16 * np.nan_to_num(view(w.R[fraction], F32)))
        w.put(d, words[np.clip(sixteenths, 1, 16).astype(np.int64) - 1])

    return run


def _policy_from(i: Instruction) -> Step:
    return unary(i, lambda x: x, U64)


# Cluster launch control

ANSWER_BYTES = 16


def _answer(base: tuple[int, int, int] | None) -> Vec:
    """The 16 bytes of an answer: a flag, and the first CTA of the cluster that was taken."""
    words = np.zeros(4, U32)
    if base is not None:
        words[:] = (*base, 1)
    return words.view(U8)


def _try_cancel(i: Instruction) -> Step:
    dst, bar = scalar_reader(i, "dst"), scalar_reader(i, "bar")
    everybody = i.has("multicast")
    origin = Origin(i, Proxy.ASYNC, Done.MBARRIER_TX)

    def steps(w: Any, place: int, bar_place: int, ctas: list[Any]) -> Iterator[None]:
        machine = w.machine
        yield
        answer = _answer(machine.cancel_next(w.cta.cluster.dims))
        for cta in ctas:
            machine.memory.write_box("launch control", origin, cta.shared, place, (1,), answer)
            yield
            find(cta, bar_place, i, w).complete(ANSWER_BYTES, i, w)

    def run(w: Any) -> None:
        if w.cta.refused:
            raise Stop(
                "TK330",
                "another cluster is asked for though this CTA has seen that one was refused: what happens then is not "
                "defined",
                ins=i,
                warp=w,
            )
        for lane in w.lanes():
            to, place = shared_place(w, dst(w, lane), i)
            aligned(place, ANSWER_BYTES, "the address of the answer", i, w)
            _, bar_place = shared_place(w, bar(w, lane), i)
            ctas = w.cta.cluster.ctas if everybody else receivers(w, None, to, i)
            w.machine.issue("try_cancel", steps(w, place, bar_place, list(ctas)), i, w, lane)

    return run


def _words(w: Any, slot: int) -> Vec:
    """(32, 4) words of a 128-bit register."""
    return np.ascontiguousarray(w.R[slot]).view(U32).reshape(LANES, 4)


def _answer_slot(i: Instruction) -> int:
    slot, bits = i.src_wide("answer", U64)
    if bits != 128:
        raise ValueError(f"the answer has {bits} bits, expected 128")
    return slot


def _is_canceled(i: Instruction) -> Step:
    p, slot = i.dst("p", 1), _answer_slot(i)

    def run(w: Any) -> None:
        taken = mask_of(_words(w, slot)[:, 3] != 0)
        if w.mask & ~taken:
            w.cta.refused = True
        w.put_predicate(p, taken)

    return run


def _undefined(w: Any, words: Vec, slots: list[int]) -> None:
    """A refusal names no CTA: what one reads out of it is no value."""
    bad = mask_of(words[:, 3] == 0) & w.mask
    if bad:
        for slot in slots:
            w.taint_result(slot, bad)


def _first_cta(i: Instruction) -> Step:
    slot = _answer_slot(i)
    if i.given("d") and not i.row.name.endswith("v4"):
        axis = "xyz".index(i.mod("axis").lstrip(":") or "x")
        d = i.dst("d", 32)

        def one(w: Any) -> None:
            words = _words(w, slot)
            w.put(d, np.ascontiguousarray(words[:, axis]))
            _undefined(w, words, [d])

        return one
    slots = [s for s, _ in i.dsts("d")]

    def run(w: Any) -> None:
        words = _words(w, slot)
        for k, one in enumerate(slots[:3]):
            w.put(one, np.ascontiguousarray(words[:, k]))
        if len(slots) > 3:
            w.put(slots[3], constant(0, U32))
        _undefined(w, words, slots[:3])

    return run


_ADDRESSES: dict[str, Callable[[Instruction], Step]] = {
    "mapa.generic": _mapa,
    "mapa.u64": _mapa,
    "getctarank": _rank_of,
    "getctarank.generic": _rank_of,
    "isspacep": _is_space,
}

SEMANTICS: dict[str, Builder] = {
    **_ADDRESSES,
    "createpolicy.fractional": _policy,
    "createpolicy.range": _policy,
    "createpolicy.cvt": _policy_from,
    "clusterlaunchcontrol.try_cancel": _try_cancel,
    "clusterlaunchcontrol.query_cancel.is_canceled": _is_canceled,
    "clusterlaunchcontrol.query_cancel.get_first_ctaid": _first_cta,
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4": _first_cta,
}

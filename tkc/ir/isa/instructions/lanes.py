"""Rows of exchanges between the lanes of a warp, which belong to the family `control`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.targets import Feature, Version

_MOVE = "data-movement-and-conversion-instructions-"
_SYNC = "parallel-synchronization-and-communication-instructions-"
_REDUX_F32 = frozenset({Feature.REDUX_F32})


def _row(
    name: str,
    mnemonic: str,
    syntax: str,
    operands: Mapping[str, str],
    results: tuple[str, ...],
    slots: Mapping[str, tuple[Choice, ...]],
    section: str,
    doc: str,
    ptx: Version = (6, 0),
    needs: frozenset[Feature] = frozenset(),
    emitted: bool = True,
    pure: bool = True,
) -> Row:
    return Row(
        name, mnemonic, syntax, operands, results, slots,
        ptx=ptx, needs=needs, section=section, doc=doc, emitted=emitted, convergent=True, pure=pure,
    )


_SHUFFLE = {"d": "b32", "a": "b32", "lane": "b32", "clamp": "b32", "mask": "b32"}
_MODE = texts(".bfly", ".idx", ".up", ".down")

LANES = (
    _row("shfl.sync", "shfl.sync<mode>.b32", "d, a, lane, clamp, mask", _SHUFFLE, ("d",),
         {"mode": _MODE}, _MOVE + "shfl-sync",
         "a of another lane: its number, or the distance to it; clamp bounds segments"),
    _row("shfl.sync.valid", "shfl.sync<mode>.b32", "d|p, a, lane, clamp, mask",
         {**_SHUFFLE, "p": "pred"}, ("d", "p"), {"mode": _MODE}, _MOVE + "shfl-sync",
         "as shfl.sync; p says whether the lane was in range", emitted=False),
    _row("vote.sync", "vote.sync<mode>.pred", "p, a, mask",
         {"p": "pred", "a": "pred", "mask": "b32"}, ("p",),
         {"mode": texts(".all", ".any", ".uni")}, _SYNC + "vote-sync",
         "whether a predicate holds in all or any lanes, or is the same in all"),
    _row("vote.sync.ballot", "vote.sync.ballot.b32", "d, a, mask",
         {"d": "b32", "a": "pred", "mask": "b32"}, ("d",), {}, _SYNC + "vote-sync",
         "the lanes in which a predicate holds"),
    _row("match.any.sync", "match.any.sync<type>", "d, a, mask",
         {"d": "b32", "a": "type", "mask": "b32"}, ("d",), {"type": texts(".b32", ".b64")},
         _SYNC + "match-sync", "the lanes that have the same value", emitted=False),
    _row("match.all.sync", "match.all.sync<type>", "d, a, mask",
         {"d": "b32", "a": "type", "mask": "b32"}, ("d",), {"type": texts(".b32", ".b64")},
         _SYNC + "match-sync", "the mask if every lane has the same value, else 0", emitted=False),
    _row("match.all.sync.pred", "match.all.sync<type>", "d|p, a, mask",
         {"d": "b32", "p": "pred", "a": "type", "mask": "b32"}, ("d", "p"),
         {"type": texts(".b32", ".b64")}, _SYNC + "match-sync",
         "as match.all.sync; p says whether every lane has the same value", emitted=False),
    _row("redux.sync", "redux.sync<op><type>", "d, a, mask",
         {"d": "type", "a": "type", "mask": "b32"}, ("d",),
         {"op": (*texts(".add", ".min", ".max"), *texts(".and", ".or", ".xor", along={"type": ".b32"})),
          "type": (*texts(".u32", ".s32"), Choice(".b32", along={"op": ".and"}))},
         _SYNC + "redux-sync", "reduces integers of the lanes of the mask", (7, 0)),
    _row("redux.sync.f32", "redux.sync<op><abs?><nan?>.f32", "d, a, mask",
         {"d": "f32", "a": "f32", "mask": "b32"}, ("d",),
         {"op": texts(".min", ".max"), "abs": texts(".abs"), "nan": texts(".NaN")},
         _SYNC + "redux-sync", "reduces floats of the lanes of the mask", (8, 6), _REDUX_F32),
    _row("activemask", "activemask.b32", "d", {"d": "b32"}, ("d",), {}, _SYNC + "activemask",
         "the lanes that execute this", (6, 2), emitted=False, pure=False),
)

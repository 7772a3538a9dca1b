"""Rows of mbarrier instructions (PTX 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.memory import Await, Effect, Kind, Scope, Signal, Space, Touch
from tkc.ir.isa.targets import Feature

_SECTION = "parallel-synchronization-and-communication-instructions-mbarrier-"
_CLUSTER = frozenset({Feature.CLUSTER})

_CTA = texts(".shared::cta", ".shared", ptx=(7, 8))

_ARRIVE_SEM = (
    Choice(".release", (8, 0), along={"scope": ".cta"}),
    Choice(".relaxed", (8, 6), along={"scope": ".cta"}),
)
_ARRIVE_SCOPE = texts(".cta", ".cluster", ptx=(8, 0), along={"sem": ".release"})
_WAIT_SEM = (
    Choice(".acquire", (8, 0), along={"scope": ".cta"}),
    Choice(".relaxed", (8, 6), along={"scope": ".cta"}),
)
_WAIT_SCOPE = texts(".cta", ".cluster", ptx=(8, 0), along={"sem": ".acquire"})

_WRITE = Touch(Kind.WRITE, "bar", Space.BARRIER)
_READ = Touch(Kind.READ, "bar", Space.BARRIER)
_LOCAL = (_WRITE, Signal("bar", 1))
_REMOTE = (_WRITE, Signal("bar", 1, scope=Scope.CLUSTER))


def _arrive(
    name: str,
    operation: str,
    syntax: str,
    operands: Mapping[str, str],
    space: str,
    effects: tuple[Effect, ...],
    doc: str,
    ptx: tuple[int, int] = (8, 0),
    results: tuple[str, ...] = (),
    emitted: bool = True,
) -> Row:
    remote = space == ".shared::cluster"
    scope = (Choice(".cluster", (8, 0), along={"sem": ".release"}),) if remote else _ARRIVE_SCOPE
    sem = _ARRIVE_SEM
    if remote:
        sem = (
            Choice(".release", (8, 0), along={"scope": ".cluster"}),
            Choice(".relaxed", (8, 6), along={"scope": ".cluster"}),
        )
    slots = {"sem": sem, "scope": scope}
    tail = space
    if not remote:
        slots["space"] = _CTA
        tail = "<space?>"
    return Row(
        name,
        f"mbarrier.{operation}<sem?><scope?>{tail}.b64",
        syntax,
        operands,
        results,
        slots,
        effects,
        ptx,
        _CLUSTER,
        _SECTION + operation.partition(".")[0].replace("_", "-"),
        doc,
        emitted,
    )


_BAR: Mapping[str, str] = {"bar": "address"}
_COUNT = {"bar": "address", "count": "b32"}
_BYTES = {"bar": "address", "bytes": "b32"}
_REMOTE_COUNT = {"bar": "b32", "count": "b32"}
_REMOTE_BYTES = {"bar": "b32", "bytes": "b32"}

ROWS = (
    Row("mbarrier.init", "mbarrier.init<space?>.b64", "[bar], count", _COUNT, (),
        {"space": _CTA}, (_WRITE,), (7, 0), section=_SECTION + "init",
        doc="makes a barrier of `count` arrivals (1..2^20-1) in the 8 bytes at `bar`"),
    Row("mbarrier.inval", "mbarrier.inval<space?>.b64", "[bar]", _BAR, (),
        {"space": _CTA}, (_WRITE,), (7, 0), section=_SECTION + "inval",
        doc="ends a barrier, so that its bytes may serve otherwise"),
    _arrive("mbarrier.arrive", "arrive", "_, [bar]{?, count}", _COUNT, ".shared::cta", _LOCAL,
            "one arrival, or `count`", (7, 8)),
    _arrive("mbarrier.arrive.state", "arrive", "state, [bar]{?, count}",
            {"state": "b64", **_COUNT}, ".shared::cta", _LOCAL,
            "one arrival, or `count`; returns the phase", (7, 0), ("state",), False),
    _arrive("mbarrier.arrive.cluster", "arrive", "_, [bar]{?, count}", _REMOTE_COUNT,
            ".shared::cluster", _REMOTE, "arrival on the barrier of another CTA"),
    _arrive("mbarrier.arrive.expect_tx", "arrive.expect_tx", "_, [bar], bytes", _BYTES,
            ".shared::cta", _LOCAL, "expects bytes, then arrives once"),
    _arrive("mbarrier.arrive.expect_tx.state", "arrive.expect_tx", "state, [bar], bytes",
            {"state": "b64", **_BYTES}, ".shared::cta", _LOCAL,
            "expects bytes, arrives once, returns the phase", (8, 0), ("state",), False),
    _arrive("mbarrier.arrive.expect_tx.cluster", "arrive.expect_tx", "_, [bar], bytes",
            _REMOTE_BYTES, ".shared::cluster", _REMOTE, "expects bytes and arrives on the barrier of another CTA"),
    Row("mbarrier.expect_tx", "mbarrier.expect_tx<sem?><scope?><space?>.b64", "[bar], bytes",
        _BYTES, (),
        {"sem": texts(".relaxed", along={"scope": ".cta"}),
         "scope": texts(".cta", ".cluster", along={"sem": ".relaxed"}),
         "space": (*_CTA, Choice(".shared::cluster", along={"sem": ".relaxed", "scope": ".cluster"}))},
        (_WRITE,), (8, 0), _CLUSTER, _SECTION + "expect-tx",
        "expects bytes without an arrival"),
    *(
        Row(f"mbarrier.{wait}.parity", f"mbarrier.{wait}.parity<sem?><scope?><space?>.b64",
            f"p, [bar], parity{hint}",
            {"p": "pred", "bar": "address", "parity": "b32"} | ({"hint": "b32"} if hint else {}),
            ("p",), {"sem": _WAIT_SEM, "scope": _WAIT_SCOPE, "space": _CTA},
            (_READ, Await("bar")), version, _CLUSTER, _SECTION + "test-wait-mbarrier-try-wait", doc)
        for wait, hint, version, doc in (
            ("try_wait", "{?, hint}", (7, 8),
             "true if the phase of this parity has completed; may suspend for `hint` ns"),
            ("test_wait", "", (7, 1), "true if the phase of this parity has completed"),
        )
    ),
    *(
        Row(f"mbarrier.{wait}", f"mbarrier.{wait}<sem?><scope?><space?>.b64",
            f"p, [bar], state{hint}",
            {"p": "pred", "bar": "address", "state": "b64"} | ({"hint": "b32"} if hint else {}),
            ("p",), {"sem": _WAIT_SEM, "scope": _WAIT_SCOPE, "space": _CTA},
            (_READ, Await("bar")), version, _CLUSTER, _SECTION + "test-wait-mbarrier-try-wait",
            "true if the phase of the given state has completed")
        for wait, hint, version in (("try_wait", "{?, hint}", (7, 8)), ("test_wait", "", (7, 0)))
    ),
)

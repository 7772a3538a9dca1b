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


_LAYOUT = texts(".layout::v0", ".layout::v1", ptx=(9, 3))
_PHASE = texts(".phase_type::conditional", ".phase_type::primary", ptx=(9, 3))
_MASKED = frozenset({Feature.MULTICAST_32})

_BAR: Mapping[str, str] = {"bar": "address"}
_COUNT = {"bar": "address", "count": "b32"}
_BYTES = {"bar": "address", "bytes": "b32"}
_REMOTE_COUNT = {"bar": "b32", "count": "b32"}
_REMOTE_BYTES = {"bar": "b32", "bytes": "b32"}

ROWS = (
    Row("mbarrier.init", "mbarrier.init<layout?><space?>.b64", "[bar], count", _COUNT, (),
        {"layout": _LAYOUT, "space": _CTA}, (_WRITE,), (7, 0), section=_SECTION + "init",
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
        Row(f"mbarrier.{wait}.parity", f"mbarrier.{wait}.parity<phase?><sem?><scope?><space?>.b64",
            f"p, [bar], parity{hint}",
            {"p": "pred", "bar": "address", "parity": "b32"} | ({"hint": "b32"} if hint else {}),
            ("p",),
            {"phase": _PHASE, "sem": _WAIT_SEM, "scope": _WAIT_SCOPE, "space": _CTA},
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
    *(
        Row(f"mbarrier.{wait}.parity.report",
            f"mbarrier.{wait}.parity.phase_type::primary<sem?><scope?><space?>.b64",
            f"p|q, [bar], parity{hint}",
            {"p": "pred", "q": "pred", "bar": "address", "parity": "b32"}
            | ({"hint": "b32"} if hint else {}),
            ("p", "q"), {"sem": _WAIT_SEM, "scope": _WAIT_SCOPE, "space": _CTA},
            (_READ, Await("bar")), (9, 3), _CLUSTER, _SECTION + "test-wait-mbarrier-try-wait",
            "as the plain form; q says whether a tracked copy reported a problem", False)
        for wait, hint in (("try_wait", "{?, hint}"), ("test_wait", ""))
    ),
    Row("mbarrier.complete_tx", "mbarrier.complete_tx<sem?><scope?><space?>.b64", "[bar], bytes",
        _BYTES, (),
        {"sem": texts(".relaxed", along={"scope": ".cta"}),
         "scope": texts(".cta", ".cluster", along={"sem": ".relaxed"}),
         "space": (*_CTA, Choice(".shared::cluster", along={"sem": ".relaxed", "scope": ".cluster"}))},
        (_WRITE, Signal("bar", bytes_of="bytes")), (8, 0), _CLUSTER, _SECTION + "complete-tx",
        "counts bytes as arrived without copying any", False),
    Row("mbarrier.pending_count", "mbarrier.pending_count.b64", "d, state",
        {"d": "b32", "state": "b64"}, ("d",), ptx=(7, 0), section=_SECTION + "pending-count",
        doc="pending arrivals that a phase state tells", emitted=False, pure=True),
    Row("mbarrier.check_layout", "mbarrier.check_layout<layout><space?>.b64", "p, [bar]",
        {"p": "pred", "bar": "address"}, ("p",),
        {"layout": texts(".layout::v0", ".layout::v1"), "space": _CTA}, (_READ,), (9, 3),
        _CLUSTER, _SECTION + "check-layout", "whether a barrier has a layout", False),
    _arrive("mbarrier.arrive_drop", "arrive_drop", "_, [bar]{?, count}", _COUNT, ".shared::cta",
            _LOCAL, "arrives, and lowers the count of later phases", (7, 8), emitted=False),
    _arrive("mbarrier.arrive_drop.state", "arrive_drop", "state, [bar]{?, count}",
            {"state": "b64", **_COUNT}, ".shared::cta", _LOCAL,
            "arrives, lowers the count of later phases, returns the phase", (7, 0), ("state",),
            False),
    _arrive("mbarrier.arrive_drop.cluster", "arrive_drop", "_, [bar]{?, count}", _REMOTE_COUNT,
            ".shared::cluster", _REMOTE, "arrives on and lowers the barrier of another CTA",
            emitted=False),
    _arrive("mbarrier.arrive_drop.expect_tx", "arrive_drop.expect_tx", "_, [bar], bytes", _BYTES,
            ".shared::cta", _LOCAL, "expects bytes, then arrives and lowers", emitted=False),
    _arrive("mbarrier.arrive_drop.expect_tx.state", "arrive_drop.expect_tx",
            "state, [bar], bytes", {"state": "b64", **_BYTES}, ".shared::cta", _LOCAL,
            "expects bytes, arrives and lowers, returns the phase", (8, 0), ("state",), False),
    _arrive("mbarrier.arrive_drop.expect_tx.cluster", "arrive_drop.expect_tx", "_, [bar], bytes",
            _REMOTE_BYTES, ".shared::cluster", _REMOTE,
            "expects bytes, arrives on and lowers the barrier of another CTA", emitted=False),
    *(
        Row(f"mbarrier.{name}.noComplete", f"mbarrier.{name}.noComplete<sem?><scope?><space?>.b64",
            "state, [bar], count", {"state": "b64", **_COUNT}, ("state",),
            {"sem": texts(".release", ptx=(8, 0), along={"scope": ".cta"}),
             "scope": texts(".cta", ptx=(8, 0), along={"sem": ".release"}), "space": _CTA},
            _LOCAL, (7, 0), section=_SECTION + name.replace("_", "-"),
            doc="arrives where that cannot complete the phase", emitted=False)
        for name in ("arrive", "arrive_drop")
    ),
    *(
        Row(f"mbarrier.{operation}.multicast",
            f"mbarrier.{operation}<sem>.cluster.shared::cluster.multicast::cluster::32b.b64",
            syntax, {"bar": "b32", **more, "mask": "b32"}, (), {"sem": sem}, effects, (9, 4),
            _MASKED, _SECTION + section, doc, False)
        for operation, syntax, more, sem, effects, section, doc in (
            ("arrive", "_, [bar]{?, count}, mask", {"count": "b32"}, texts(".release", ".relaxed"),
             _REMOTE, "arrive", "arrives in every CTA of the mask"),
            ("arrive.expect_tx", "_, [bar], bytes, mask", {"bytes": "b32"},
             texts(".release", ".relaxed"), _REMOTE, "arrive",
             "expects bytes and arrives in every CTA of the mask"),
            ("expect_tx", "[bar], bytes, mask", {"bytes": "b32"}, texts(".relaxed"), (_WRITE,),
             "expect-tx", "expects bytes in every CTA of the mask"),
        )
    ),
    Row("cp.async.mbarrier.arrive", "cp.async.mbarrier.arrive<noinc?><space?>.b64", "[bar]",
        _BAR, (), {"noinc": texts(".noinc"), "space": _CTA}, _LOCAL, (7, 0),
        section="parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive",
        doc="arrives when the thread's cp.async so far are done", emitted=False),
)

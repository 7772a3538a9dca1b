"""Certificates of what became of a program's fences: data on the module, which survives printing and parsing.

A kernel's certificate says which accesses conflict and by which chain each pair is in order in the program as it now
is, and for every fence that was taken away or changed, which of those pairs it might have guarded. Places are named by
the ids of operations, never by lines of text. `analysis.certificates` checks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

KEY = "tkc.certificates"
SITE = "site"
"""The attribute that names an operation which has no id of its own."""


class End(NamedTuple):
    """An operation of one warpgroup's copy of a role in one CTA: `math.mma`, copy 0, CTA 0. `site` "": past the
    last."""

    site: str
    role: str
    copy: int = 0
    cta: int = 0

    def __str__(self) -> str:
        return f"{self.site or '-'}@{self.role}.{self.copy}.{self.cta}"

    @staticmethod
    def of(text: str) -> End:
        site, _, where = text.rpartition("@")
        role, copy, cta = where.rsplit(".", 2)
        return End("" if site == "-" else site, role, int(copy), int(cta))


class Link(NamedTuple):
    """One step of a chain: what `start` does by a rule of `analysis.happens_before.rules` leads to `end`."""

    start: End
    end: End
    rule: str


class Order(NamedTuple):
    """Two accesses of the same memory of CTA `owner`, and the chains that put them in order: `forward` from an
    instance of
    the first to the instances of the second after it, `back` from the second's to the first's; None: no such chain.
    `model`: the profile whose assumptions they use. That is `practice` in a strict certificate for what no fence would
    put in order strictly, `unhidden` or `fenced` where it takes less."""

    first: End
    second: End
    operands: tuple[str, str]
    owner: int
    forward: tuple[Link, ...] | None
    back: tuple[Link, ...] | None
    model: str = "practice"

    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(x.rule for x in (*(self.forward or ()), *(self.back or ()))))


class Site(NamedTuple):
    """What became of one synchronisation: `before` and `after` in words (`after` "": nothing is left of it).

    `orders`: numbers of the pairs that it might have guarded; `rested`: of those whose first proof used it.
    """

    id: str
    op: str
    origin: str
    verdict: str
    before: str
    after: str
    place: str
    orders: tuple[int, ...]
    rested: tuple[int, ...] = ()


class Certificate(NamedTuple):
    """All of a kernel's. `model`: the profile whose assumptions the chains may use."""

    kernel: str
    model: str
    orders: tuple[Order, ...]
    sites: tuple[Site, ...]


def label(op: Operation) -> str:
    """The name of an operation in certificates: its id, or the one given by `name_sites`."""
    given = op.attributes.get(SITE) or op.properties.get("id")
    return given.data if given.__class__ is StringAttr else ""  # pyright: ignore


def name_sites(role: str, ops: Sequence[Operation]) -> None:
    """Gives operations of a role that have no id, or one that another has too, a name of their own."""
    counts: dict[str, int] = {}
    taken: set[str] = set()
    for op in ops:
        own = op.properties.get("id")
        if own.__class__ is StringAttr and own.data not in taken:  # pyright: ignore
            taken.add(own.data)  # pyright: ignore
            continue
        base = f"{role}.{op.name.removeprefix('stage.')}"
        while (name := f"{base}.{counts.get(base, 0)}") in taken:
            counts[base] = counts.get(base, 0) + 1
        taken.add(name)
        op.attributes[SITE] = StringAttr(name)


def origin(id: str) -> str:
    """Who put a synchronisation where it is: the program (its ids say so) or the compiler."""
    return "user" if ".user." in id else "compiler"


# As attributes -------------------------------------------------------------------------------------------------------


def write(module: ModuleOp, certificates: Sequence[Certificate]) -> None:
    if certificates:
        module.attributes[KEY] = ArrayAttr([_Writer().kernel(c) for c in certificates])


def read(module: ModuleOp) -> list[Certificate]:
    """A module's certificates; raises ValueError where they are not what `write` makes."""
    found = module.attributes.get(KEY)
    if found is None:
        return []
    try:
        return [_read_kernel(_plain(c)) for c in found]  # pyright: ignore
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError(f"the certificates of the module cannot be read: {error}") from None


class _Writer:
    """Makes each text, number and step of a certificate once: most stand in many chains."""

    def __init__(self) -> None:
        self.word, self.number = cache(StringAttr), cache(IntAttr)
        self.links: dict[Link, Attribute] = {}

    def words(self, words: Sequence[str]) -> ArrayAttr[StringAttr]:
        return ArrayAttr([self.word(w) for w in words])

    def numbers(self, numbers: Sequence[int]) -> ArrayAttr[IntAttr]:
        return ArrayAttr([self.number(n) for n in numbers])

    def link(self, link: Link) -> Attribute:
        if link not in self.links:
            self.links[link] = self.words([str(link.start), str(link.end), link.rule])
        return self.links[link]

    def chain(self, chain: tuple[Link, ...] | None) -> Attribute:
        return self.word("none") if chain is None else ArrayAttr([self.link(x) for x in chain])

    def order(self, o: Order) -> DictionaryAttr:
        return DictionaryAttr(
            {
                "first": self.word(str(o.first)),
                "second": self.word(str(o.second)),
                "operands": self.words(o.operands),
                "owner": self.number(o.owner),
                "forward": self.chain(o.forward),
                "back": self.chain(o.back),
                "model": self.word(o.model),
            }
        )

    def site(self, s: Site) -> DictionaryAttr:
        return DictionaryAttr(
            {
                **{name: self.word(getattr(s, name)) for name in Site._fields[:7]},
                "orders": self.numbers(s.orders),
                "rested": self.numbers(s.rested),
            }
        )

    def kernel(self, c: Certificate) -> DictionaryAttr:
        return DictionaryAttr(
            {
                "kernel": self.word(c.kernel),
                "model": self.word(c.model),
                "orders": ArrayAttr([self.order(o) for o in c.orders]),
                "sites": ArrayAttr([self.site(s) for s in c.sites]),
            }
        )


def _plain(attribute: Attribute) -> Any:
    match attribute:
        case StringAttr() | IntAttr():
            return attribute.data
        case ArrayAttr():
            return [_plain(a) for a in attribute]
        case DictionaryAttr():
            return {name: _plain(a) for name, a in attribute.data.items()}
        case _:
            raise ValueError(f"{attribute} is no part of a certificate")


def _read_chain(found: Any) -> tuple[Link, ...] | None:
    if found == "none":
        return None
    return tuple(Link(End.of(a), End.of(b), rule) for a, b, rule in found)


def _read_kernel(c: dict[str, Any]) -> Certificate:
    orders = tuple(
        Order(
            End.of(o["first"]),
            End.of(o["second"]),
            (o["operands"][0], o["operands"][1]),
            o["owner"],
            _read_chain(o["forward"]),
            _read_chain(o["back"]),
            o["model"],
        )
        for o in c["orders"]
    )
    sites = tuple(
        Site(*(x[name] for name in Site._fields[:7]), tuple(x["orders"]), tuple(x["rested"]))
        for x in c["sites"]
    )
    return Certificate(c["kernel"], c["model"], orders, sites)

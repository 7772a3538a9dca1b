"""Code of dataclasses and named tuples: kept from one process to the next, and never wrong, damaged or old."""

from __future__ import annotations

import collections
import copy
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tkc import generated_code
from tkc.generated_code import DATACLASSES_OF, GeneratedCode

META: Any = vars(typing)["NamedTupleMeta"]
COMPILE, ENGINE = re._compiler.compile, re._compiler._sre  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A file of this test's own, where bytecode may be written; afterwards Python generates code as ever."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setitem(vars(dataclasses), "_is_type", vars(dataclasses)["_is_type"])
    monkeypatch.setitem(vars(dataclasses), "_process_class", vars(dataclasses)["_process_class"])
    monkeypatch.setattr(META, "__new__", META.__new__)
    yield
    for module, name in ((dataclasses, "exec"), (collections, "eval"), (typing, "compile")):
        vars(module).pop(name, None)
    vars(dataclasses)["inspect"] = inspect
    vars(re._compiler).update(compile=COMPILE, _sre=ENGINE)  # type: ignore[attr-defined]


def kept() -> GeneratedCode:
    found = generated_code.keep()
    assert found is not None
    Path(found.path).parent.mkdir(parents=True, exist_ok=True)
    return found


def point() -> type[Any]:
    """A dataclass and a named tuple, made anew."""
    Pair = collections.namedtuple("Pair", "left right")

    @dataclasses.dataclass(frozen=True)
    class Point:
        x: int
        pair: Any = dataclasses.field(default_factory=lambda: Pair(1, 2))

    return Point


def works(made: type[Any]) -> None:
    assert made(3) == made(3) != made(4)
    assert repr(made(3)).endswith("Point(x=3, pair=Pair(left=1, right=2))")
    assert hash(made(3)) == hash(made(3))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made(3).x = 4


def test_a_second_process_compiles_nothing() -> None:
    first = kept()
    works(point())
    assert first.added
    first.write()
    second = kept()
    works(point())
    assert second.known.keys() == first.known.keys()
    assert not second.added


def test_patterns_and_annotations_are_kept_too() -> None:
    def made() -> list[Any]:
        re.purge()
        pattern = re.compile(r"(?P<word>[a-f]+)\s(?:\d|x){2,3}", re.IGNORECASE)
        found = pattern.fullmatch("AbC 1x2")
        assert found is not None
        assert pattern.fullmatch("abg 1x2") is None
        hint = typing.ForwardRef("dict[str, int]")
        return [found["word"], pattern.groupindex, pattern.flags, eval(hint.__forward_code__)]

    first = kept()
    before = made()
    assert before[0] == "AbC"
    assert before[3] == dict[str, int]
    first.write()
    second = kept()
    assert made() == before
    assert not second.added
    with pytest.raises(re.error, match="unterminated"):
        re.compile("(a")


@pytest.mark.parametrize("spoil", [lambda d: d[:-1], lambda d: b"", lambda d: b"\0" * 12 + d[12:]])
def test_a_damaged_file_is_made_anew(spoil: Any) -> None:
    first = kept()
    works(point())
    first.write()
    path = Path(first.path)
    whole = path.read_bytes()
    path.write_bytes(spoil(whole))
    second = kept()
    assert not second.known
    works(point())
    second.write()
    assert path.read_bytes() == whole


def test_nothing_is_written_where_python_writes_no_bytecode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = kept()
    works(point())
    found.write()
    assert not Path(found.path).exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    found.path = str(tmp_path / "no such folder" / "code")
    found.write()
    assert not list(tmp_path.rglob("*code"))


def test_a_file_that_grew_too_large_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept()
    works(point())
    first.write()
    second = kept()
    monkeypatch.setattr(generated_code, "_MOST", 100)
    second.code("1 + 1", "eval")
    second.write()
    assert not Path(second.path).exists()


def test_nothing_is_kept_where_python_names_no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.implementation, "cache_tag", None)
    assert generated_code.keep() is None
    assert "exec" not in vars(dataclasses)


def named() -> type[Any]:
    class Place(typing.NamedTuple):
        """Where."""

        line: int
        column: int = 1

        @property
        def both(self) -> tuple[int, int]:
            return self.line, self.column

    return Place


def test_named_tuples_are_as_ever() -> None:
    before = named()
    kept()
    after = named()
    assert after is not before
    assert vars(after).keys() == vars(before).keys()
    for name in ("_fields", "_field_defaults", "__doc__", "__module__", "__bases__", "__mro__"):
        assert str(getattr(after, name)) == str(getattr(before, name)), name
    assert after(3) == before(3) == (3, 1)
    assert repr(after(3, column=2)) == repr(before(3, 2)) == "Place(line=3, column=2)"
    assert after(3).both == (3, 1)
    assert after(3)._replace(line=4)._asdict() == {"line": 4, "column": 1}
    assert typing.get_type_hints(after) == typing.get_type_hints(before)


def test_wrong_named_tuples_are_refused_as_ever() -> None:
    kept()
    with pytest.raises(TypeError, match="Non-default namedtuple field b cannot follow"):

        class Late(typing.NamedTuple):
            a: int = 1
            b: int  # type: ignore[misc]

    with pytest.raises(AttributeError, match="Cannot overwrite NamedTuple attribute _fields"):

        class Own(typing.NamedTuple):
            a: int
            _fields = ()  # type: ignore[misc, assignment]

    with pytest.raises(TypeError, match="can only inherit from a NamedTuple type and Generic"):

        class Two(typing.NamedTuple, dict[str, int]):  # type: ignore[misc]
            a: int


def test_generic_named_tuples_are_as_ever() -> None:
    kept()
    T = typing.TypeVar("T")

    class Pair(typing.NamedTuple, typing.Generic[T]):
        left: T
        right: T

    assert Pair[int](1, 2) == (1, 2)


def test_marks_of_fields_are_seen() -> None:
    kept()

    @dataclasses.dataclass
    class Counted:
        count: typing.ClassVar[int] = 3
        start: dataclasses.InitVar[int]
        _: dataclasses.KW_ONLY
        total: int = 0

        def __post_init__(self, start: int) -> None:
            self.total += start

    assert Counted(2, total=1) == Counted(1, total=2)
    assert [f.name for f in dataclasses.fields(Counted)] == ["total"]
    assert Counted.count == 3
    with pytest.raises(TypeError):
        Counted(1, 2)  # type: ignore[misc]


def _makers() -> list[Any]:
    """Classes of every form that makes methods differ, each with arguments for it."""
    field = dataclasses.field

    class Plain:
        x: int
        y: str = "a"

        def twice(self) -> int:
            return 2 * self.x

    class Frozen:
        """Says what it is."""

        x: int
        more: list[int] = field(default_factory=lambda: [1], compare=False)
        hidden: int = field(default=3, repr=False, hash=False)

    class Started:
        x: int
        made: int = field(init=False)
        kept: dict[str, int] = field(init=False, default_factory=dict[str, int])
        fixed: int = field(init=False, default=5)

        def __post_init__(self) -> None:
            object.__setattr__(self, "made", self.x + 1)

    class Own:
        self: int
        name: typing.ClassVar[str] = "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    class Hashed:
        x: int

        def __hash__(self) -> int:
            return 7

    class Ring:
        around: Any = None

    class Nothing:
        pass

    ways: list[dict[str, Any]] = [
        {},
        {"frozen": True},
        {"slots": True},
        {"frozen": True, "slots": True},
    ]
    ways += [
        {"eq": False},
        {"order": True},
        {"init": False},
        {"repr": False},
        {"unsafe_hash": True},
    ]
    ways += [{"kw_only": True}, {"match_args": False}]
    return [
        (kind, how) for kind in (Plain, Frozen, Started, Own, Hashed, Ring, Nothing) for how in ways
    ]


def _attempt(what: Any) -> Any:
    """What comes of something: its value, or the error."""
    try:
        return what()
    except Exception as error:
        return type(error), str(error).replace("__create_fn__.<locals>.", "")


def _shown(value: object) -> Any:
    return _attempt(lambda: re.sub(" at 0x[0-9a-f]*", "", repr(value)))


def _described(kind: type, how: dict[str, Any]) -> list[Any]:
    """All that one can see of the dataclass that is made of a class, and of one that inherits from it."""
    said: list[Any] = []
    space = {
        n: copy.copy(v) if isinstance(v, dataclasses.Field) else v for n, v in vars(kind).items()
    }
    above = _attempt(lambda: dataclasses.dataclass(**how)(type(kind.__name__, (), space)))
    below = {"__annotations__": {"z": "float"}, "__module__": __name__, "z": 0.5}
    for made in (
        above,
        _attempt(lambda: dataclasses.dataclass(**how)(type("Below", (above,), below))),
    ):
        said.append(made if isinstance(made, tuple) else made.__name__)
        if isinstance(made, tuple):
            continue
        space = vars(made)
        said += [
            sorted(space),
            str(made.__doc__).partition("(")[0],
            space.get("__match_args__"),
            space.get("__slots__"),
        ]
        said += [str(made.__dataclass_params__), _attempt(lambda m=made: str(inspect.signature(m)))]
        said.append([_shown(f) for f in made.__dataclass_fields__.values()])
        for name in ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"):
            function: Any = space.get(name)
            said.append(
                function and (function.__name__, function.__qualname__, function.__module__)
            )
        said.append(_attempt(lambda m=made: str(m.__init__.__annotations__)))
        one, other = _attempt(lambda m=made: m(1)), _attempt(lambda m=made: m(1))
        said += [_shown(one), one == other, _attempt(lambda o=one, p=other: hash(o) == hash(p))]
        if not isinstance(one, tuple):
            said.append(_attempt(lambda o=one: setattr(o, "x", 5)))
            said += [
                _attempt(lambda o=one: setattr(o, "w", 5)),
                _attempt(lambda o=one: delattr(o, "x")),
            ]
            said += [_attempt(lambda o=one: _shown(dataclasses.replace(o))), _shown(one)]
            said += [_attempt(lambda o=one: setattr(o, "around", o)), _shown(one)]
    return said


def test_a_dataclass_of_kept_methods_is_as_dataclasses_makes_it() -> None:
    makers = _makers()
    expected = [_described(kind, how) for kind, how in makers]
    first = kept()
    for (kind, how), before in zip(makers, expected, strict=True):
        assert _described(kind, how) == before, (kind, how)
    first.write()
    second = kept()
    for (kind, how), before in zip(makers, expected, strict=True):
        assert _described(kind, how) == before, (kind, how)
    assert not second.added
    of_kept = sum(key[0] == sys.hexversion for key in second.known)
    assert of_kept > 50 if sys.version_info[:2] == DATACLASSES_OF else not of_kept


def test_wrong_dataclasses_are_refused_as_ever() -> None:
    kept()

    @dataclasses.dataclass(frozen=True)
    class Frozen:
        x: int

    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Thawed", (Frozen,), {}))
    with pytest.raises(ValueError, match="mutable default <class 'list'> for field x"):
        dataclasses.dataclass(type("Mutable", (), {"__annotations__": {"x": "list"}, "x": []}))
    with pytest.raises(TypeError, match="'x' is a field but has no type annotation"):
        dataclasses.dataclass(type("Bare", (), {"x": dataclasses.field()}))
    late = {"__annotations__": {"x": "int", "y": "int"}, "x": 1}
    with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):
        dataclasses.dataclass(type("Late", (), late))

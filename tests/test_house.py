"""The rules of the house, checked on the source text itself: who may import whom, sizes, names, words."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterable
from functools import cache, wraps
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
TKC = ROOT / "tkc"
MODULES = sorted(p for p in TKC.rglob("*.py") if "__pycache__" not in p.parts)
TESTS = sorted(p for p in (ROOT / "tests").rglob("*.py") if "__pycache__" not in p.parts)

MAY_IMPORT = {
    "ir.isa": {"ir.isa"},
    "ir": {"ir", "ir.isa", "diagnostics"},
    "frontend": {"frontend", "ir", "diagnostics", "digests"},
    "analysis": {"analysis", "ir", "ir.isa", "diagnostics"},
    "passes": {"passes", "analysis", "ir", "ir.isa", "diagnostics"},
    "backend": {"backend", "ir", "ir.isa", "diagnostics", "version", "cache", "digests"},
    "emulator": {"emulator", "ir.isa", "diagnostics"},
    "bench": {"bench", "", "diagnostics"},
    "lsp": {"lsp", "", "diagnostics"},
    "diagnostics": set[str](),
    "generated_code": set[str](),
    "late_modules": set[str](),
    "quick_imports": set[str](),
    "scales": set[str](),
    "version": set[str](),
    "cache": {"version", "digests"},
    "digests": set(),
}
"""Room → rooms it may import; `""` is the public API, `tkc` itself."""

OVER_ALL = {
    "",
    "__main__",
    "argument_words",
    "arguments",
    "cached_run",
    "clock",
    "commands",
    "comparison",
    "driver",
    "dump",
    "expectations",
    "job",
    "kernel",
    "opt",
    "reproducer",
}
"""Who stands above the rooms and may import every one."""

NO_XDSL = {"ir.isa", "emulator", "diagnostics", "scales"}
NO_LARK = {"ir.isa", "ir", "passes", "analysis", "backend", "emulator", "diagnostics", "scales"}
NEVER = {"frontend": "tkc.ir.ptx"}
"""A front end lowers to tile and stage; what a target's instructions are is no question of the language."""

FORMLESS = {"utils", "helpers", "common", "misc"}
LINES = 600


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(dotted: str) -> str:
    """The room of a module name: `tkc.ir.isa.mma` → `ir.isa`; the package itself is `""`."""
    parts = dotted.split(".")[1:]
    if parts[:2] == ["ir", "isa"]:
        return "ir.isa"
    return parts[0] if parts else ""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """Every module that a file imports, function-level and type-checking imports too."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            assert node.module is not None
            found.add(node.module)
            # `from tkc.ir import isa` imports a module as well as a name
            found.update(m for a in node.names if is_module(m := f"{node.module}.{a.name}"))
        elif isinstance(node, ast.Import):
            found.update(a.name for a in node.names)
    return found


def is_module(dotted: str) -> bool:
    path = ROOT.joinpath(*dotted.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def by_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def of_each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """One test of what a rule says of each of many files: it tells all those that break it."""

    def asked(rule: Callable[[Path], None]) -> Callable[[], None]:
        @wraps(rule)
        def test() -> None:
            broken: list[str] = []
            for path in paths:
                try:
                    rule(path)
                except AssertionError as error:
                    broken.append(f"{by_path(path)}: {str(error).splitlines()[0]}")
            assert not broken, "\n".join(broken)

        del test.__wrapped__  # or pytest would look for a fixture `path`
        return test

    return asked


@of_each(MODULES)
def test_imports_go_one_way(path: Path) -> None:
    here = room(module_name(path))
    assert here in MAY_IMPORT or here in OVER_ALL, f"{here}: a room that nobody gave a rule"
    for name in sorted(imports(path)):
        top = name.split(".")[0]
        assert not (top == "xdsl" and here in NO_XDSL), f"{here} knows no IR, and imports {name}"
        assert not (top == "lark" and here in NO_LARK), (
            f"{here} knows no grammar, and imports {name}"
        )
        if top == "tkc" and here in MAY_IMPORT:
            assert room(name) in MAY_IMPORT[here], f"{here} imports {name}"
            assert not name.startswith(NEVER.get(here, "\0")), f"{here} imports {name}"


def defines_pass(path: Path) -> bool:
    if "ModulePass" not in path.read_text(encoding="utf-8"):
        return False
    bases = (
        base
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    )
    return any(isinstance(base, ast.Name) and base.id == "ModulePass" for base in bases)


PASS_MODULES = {
    module_name(p) for p in MODULES if room(module_name(p)) == "passes" and defines_pass(p)
}


@of_each([p for p in MODULES if module_name(p) in PASS_MODULES])
def test_a_pass_imports_no_other_pass(path: Path) -> None:
    others = imports(path) & PASS_MODULES - {module_name(path)}
    assert not others, f"what two passes share is an analysis: {sorted(others)}"


@of_each(MODULES + TESTS)
def test_a_module_says_what_it_is_and_fits_on_a_desk(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    said = ast.get_docstring(tree(path))
    assert said, "a module begins with one sentence"
    first = said.split("\n\n")[0].strip()
    assert re.search(r"\w.*[.:]$", first, re.DOTALL), f"one sentence first, found {first!r}"
    assert text.count("\n") <= LINES, f"{text.count(chr(10))} lines; a file has at most {LINES}"
    assert path.stem not in FORMLESS, "name the thing"


def docstrings(module: ast.Module) -> set[int]:
    """Identities of the string nodes that only document."""
    return {
        id(node.value)
        for node in ast.walk(module)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


@of_each([p for p in MODULES if room(module_name(p)) == "passes"])
def test_a_pass_names_no_chip(path: Path) -> None:
    """What a target has is a row in `isa.targets`; a pass asks the row."""
    spoken = docstrings(tree(path))
    for node in ast.walk(tree(path)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in spoken
        ):
            assert not re.search(r"sm_\d", node.value), f"line {node.lineno}: {node.value!r}"
        name = (
            node.attr
            if isinstance(node, ast.Attribute)
            else node.id
            if isinstance(node, ast.Name)
            else ""
        )
        assert "capability" not in name, f"line {getattr(node, 'lineno', 0)}: {name}"


def swallows(node: ast.AST) -> bool:
    """`except Exception: pass`, and its sisters."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    broad = node.type is None or (
        isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
    )
    empty = all(
        isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in node.body
    )
    return broad and empty


@of_each(MODULES)
def test_nothing_is_left_for_later(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    later = re.search(r"\b(TODO|FIXME|XXX)\b", text)
    assert later is None, f"line {text.count(chr(10), 0, later.start()) + 1}: {later[0]}"
    for node in ast.walk(tree(path)):
        assert not swallows(node), f"line {getattr(node, 'lineno', 0)}: an exception is swallowed"
        if isinstance(node, ast.Raise):
            assert "NotImplementedError" not in ast.dump(node), f"line {node.lineno}: a stub"


def test_each_pass_is_registered_and_has_lit_tests() -> None:
    from tkc.passes import PASSES

    homes = {name: load().__module__ for name, load in PASSES.items()}
    assert {home for home in homes.values() if home.startswith("tkc.")} == PASS_MODULES
    for name, home in homes.items():
        if home.startswith("tkc."):
            assert home.rsplit(".", 1)[1].replace("_", "-") == name, f"pass {name} lives in {home}"
            folder = ROOT / "lit_tests" / name
            assert any(folder.glob("*.mlir")), f"{folder.relative_to(ROOT)} has no test"


def test_each_room_has_a_readme() -> None:
    rooms = [p.parent for p in TKC.glob("*/__init__.py")]
    missing = [r.name for r in rooms if not (r / "README.md").exists()]
    assert not missing, f"no README.md in {missing}"
    long = [r.name for r in rooms if (r / "README.md").read_text(encoding="utf-8").count("\n") > 90]
    assert not long, f"a README fits on a screen or two: {long}"


def test_each_example_is_named_where_they_are_listed() -> None:
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert {f"`{p.name}`" for p in (ROOT / "examples").glob("*.tk")} == set(
        re.findall(r"`\w+\.tk`", listed)
    )


def test_no_property_asks_how_fast_the_machine_is() -> None:
    """Hypothesis gives each example 200 ms, unless told otherwise: conftest.py does."""
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
    own = [by_path(p) for p in TESTS if re.search(r"\bdeadline=(?!None)", p.read_text("utf-8"))]
    assert own == [], own


@cache
def tracked() -> list[Path]:
    """The text files that are part of the project."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / n for n in done.stdout.decode().split("\0") if n and (ROOT / n).is_file()]


def test_no_file_names_a_machine() -> None:
    """Paths of the machine that a file was made on, or hosts that packages came from."""
    places = "|".join(("work", "root", "home/[a-z]", "Users/[A-Za-z]", "tmp/[a-z]"))
    pattern = re.compile(rf"(?<![\w.:/}}$*-])/(?:{places})/|pypi\.|pythonhosted")
    found: list[str] = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path == Path(__file__):
            continue
        found += [f"{by_path(path)}: {m[0]}" for m in pattern.finditer(text)]
    assert not found, "\n".join(found)

"""PTX text to its syntax tree: directives, variables, registers, labels and instructions, each with its line.

What it cannot read is refused with TK417 and the line, before anything runs. Debug sections, `.pragma` and the like
are skipped. Instructions are not looked at here: `decode` matches them with the rows of `tkc.ir.isa`.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from tkc.diagnostics import Location, TkcError
from tkc.emulator.operands import parse_operands
from tkc.emulator.syntax import Function, Module, Register, Scope, Statement, Variable
from tkc.emulator.variables import TYPE_BITS, declare_variables, one_variable

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*[\s\S]*?\*/')
_SPACE = re.compile(r"\s*")
_NAME = r"[A-Za-z_$%][\w$]*"
_LABEL = re.compile(rf"({_NAME})\s*:(?!:)")
_DIRECTIVE = re.compile(r"\.(\w+)")
_REGISTER = re.compile(rf"({_NAME})\s*(?:<\s*(\d+)\s*>)?\s*(?:,|$)")
_INSTRUCTION = re.compile(rf"(?:@\s*(!?)\s*({_NAME})\s+)?([a-z][\w.:]*)\s*([\s\S]*)")
_HEAD = re.compile(
    rf"(?:\((?P<results>[^)]*)\)\s*)?(?P<name>{_NAME})\s*(?:\((?P<params>[^)]*)\))?", re.S
)
_ATTRIBUTE = re.compile(r'\.(\w+)((?:\s*,?\s*\d+)*)\s*("[^"]*"\s*;?)?')
_LINKAGE = {"visible", "extern", "weak", "common"}
_SPACES = {"global", "const", "shared", "local", "param", "tex"}
_LINE_ONLY = {"loc", "file", "pragma"}
_IGNORED = {"pragma", "alias", "minnctapersm"}
_TRAILING_DIGITS = re.compile(r"\d*$")


def _blank(match: re.Match[str]) -> str:
    text = match.group()
    if text[0] == '"':
        return text
    return "\n" * text.count("\n") or " "


class Reader:
    """One pass over a text; `module` is the result."""

    def __init__(self, text: str, file: str) -> None:
        self.text = _COMMENT.sub(_blank, text)
        self.file = file
        self.at = 0
        self.lines = [m.end() for m in re.finditer(r"\n", self.text)]
        self.module = Module()

    def line(self, position: int | None = None) -> int:
        return bisect_right(self.lines, self.at if position is None else position) + 1

    def refuse(self, message: str, position: int | None = None) -> TkcError:
        return TkcError.at("TK417", message, Location(self.file, self.line(position)))

    def skip(self) -> bool:
        """Moves over white space; false at the end of the text."""
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return self.at < len(self.text)

    def until(self, mark: str) -> str:
        """The text up to `mark`, which is consumed."""
        end = self.text.find(mark, self.at)
        if end < 0:
            raise self.refuse(f"expected {mark!r} before the end of the text")
        found = self.text[self.at : end]
        self.at = end + len(mark)
        return found

    def rest_of_line(self) -> str:
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        found = self.text[self.at : end]
        self.at = end
        return found

    def read(self) -> Module:
        """The whole text."""
        while self.skip():
            found = _DIRECTIVE.match(self.text, self.at)
            if not found:
                shown = self.text[self.at :].split("\n", 1)[0].strip()[:40]
                raise self.refuse(f"expected a directive, found {shown!r}")
            self._top(found.group(1))
        if not self.module.target:
            self.at = 0
            raise self.refuse("the text has no .target")
        return self.module

    def _top(self, word: str) -> None:
        start = self.at
        if word == "version":
            found = re.compile(r"\.version\s+(\d+)\.(\d+)").match(self.text, self.at)
            if not found:
                raise self.refuse("expected .version MAJOR.MINOR")
            self.module.version = (int(found.group(1)), int(found.group(2)))
            self.at = found.end()
        elif word == "target":
            names = [n.strip() for n in self.rest_of_line().replace(".target", "").split(",")]
            self.module.target = names[0]
        elif word == "address_size":
            self.module.address_size = int(self.rest_of_line().split()[1])
            if self.module.address_size != 64:
                raise self.refuse("only .address_size 64 is covered", start)
        elif word == "file":
            found = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"').match(self.rest_of_line())
            if found:
                self.module.files[int(found.group(1))] = found.group(2)
        elif word == "section":
            self.until("{")
            self.until("}")
        elif word in _IGNORED:
            self.until(";")
        elif word in _LINKAGE or word in _SPACES or word in ("entry", "func"):
            self._linked()
        else:
            raise self.refuse(f"directive .{word} is not covered")

    def _linked(self) -> None:
        """A function or a variable, with its linkage words."""
        words: list[str] = []
        start = self.at
        while True:
            found = _DIRECTIVE.match(self.text, self.at)
            if not found or found.group(1) not in _LINKAGE:
                break
            words.append(found.group(1))
            self.at = found.end()
            self.skip()
        word = found.group(1) if found else ""
        if word in ("entry", "func"):
            assert found is not None
            self.at = found.end()
            # `.attribute(...)` may stand before the name of a function.
            self.skip()
            self._function(word == "entry")
        elif word in _SPACES:
            line = self.line()
            text = self._declaration()
            made = declare_variables(text, line, self.file, "extern" in words)
            for variable in made:
                self.module.scope.variables[variable.name] = variable
                self.module.variables.append(variable)
        else:
            raise self.refuse(f"expected .entry, .func or a variable, found .{word}", start)

    def _declaration(self) -> str:
        return self.until(";")

    def _function(self, entry: bool) -> None:
        line = self.line()
        found = _HEAD.match(self.text, self.at)
        if not found:
            raise self.refuse("expected the name of a function")
        self.at = found.end()
        function = Function(found["name"], entry, line)
        function.params = self._params(found["params"], line)
        function.results = self._params(found["results"], line)
        for variable in (*function.params, *function.results):
            function.scope.variables[variable.name] = variable
        function.scope.parent = self.module.scope
        self.skip()
        while self.at < len(self.text) and self.text[self.at] == ".":
            attribute = _ATTRIBUTE.match(self.text, self.at)
            assert attribute is not None
            numbers = re.findall(r"\d+", attribute.group(2))
            function.directives[attribute.group(1)] = tuple(map(int, numbers))
            self.at = attribute.end()
            self.skip()
        mark = self.text[self.at : self.at + 1]
        if mark == ";":
            self.at += 1
            self.module.functions.setdefault(function.name, function)
            return
        if mark != "{":
            raise self.refuse(f"expected the body of {function.name}")
        self.at += 1
        before = self.module.functions.get(function.name)
        if before is not None and before.defined:
            raise self.refuse(f"{function.name} is defined twice")
        function.defined = True
        self.module.functions[function.name] = function
        _Body(self, function).read()

    def _params(self, text: str | None, line: int) -> list[Variable]:
        if not text or not text.strip():
            return []
        return [
            one_variable(part.strip(), "param", line, self.file)
            for part in re.split(r",(?![^{\[]*[}\]])", text)
        ]


class _Body:
    """The statements of one function."""

    def __init__(self, reader: Reader, function: Function) -> None:
        self.reader = reader
        self.function = function
        self.scope = function.scope
        self.place: tuple[int, int, int] | None = None

    def read(self) -> None:
        reader, text = self.reader, self.reader.text
        depth = 1
        while depth:
            if not reader.skip():
                raise reader.refuse(f"{self.function.name} is not closed")
            mark = text[reader.at]
            if mark == "{":
                reader.at += 1
                self.scope = Scope(self.scope)
                depth += 1
            elif mark == "}":
                reader.at += 1
                assert self.scope.parent is not None
                self.scope = self.scope.parent
                depth -= 1
            elif mark == ";":
                reader.at += 1
            elif mark == ".":
                self._directive()
            else:
                label = _LABEL.match(text, reader.at)
                if label:
                    self._label(label)
                else:
                    self._instruction()

    def _label(self, found: re.Match[str]) -> None:
        reader = self.reader
        name = found.group(1)
        if name in self.scope.labels:
            raise reader.refuse(f"label {name} is defined twice")
        reader.at = found.end()
        reader.skip()
        table = _DIRECTIVE.match(reader.text, reader.at)
        if table and table.group(1) in ("branchtargets", "calltargets", "callprototype"):
            body = reader.until(";").split(None, 1)
            names = tuple(n.strip() for n in body[1].split(",")) if len(body) > 1 else ()
            self.scope.tables[name] = names
            return
        self.scope.labels[name] = len(self.function.statements)

    def _directive(self) -> None:
        reader = self.reader
        found = _DIRECTIVE.match(reader.text, reader.at)
        word = found.group(1) if found else ""
        if word == "loc":
            numbers = re.findall(r"\d+", reader.rest_of_line().split(",")[0])
            if len(numbers) >= 2:
                file, line, column = (*map(int, numbers[:3]), 0)[:3]
                self.place = (file, line, column)
        elif word == "file":
            reader.rest_of_line()
        elif word == "reg":
            self._registers(reader.until(";"))
        elif word in _SPACES:
            line = reader.line()
            made = declare_variables(reader.until(";"), line, reader.file, False)
            for variable in made:
                self.scope.variables[variable.name] = variable
                self.function.variables.append(variable)
        elif word in ("pragma", "attribute"):
            reader.until(";")
        else:
            raise reader.refuse(f"directive .{word} is not covered")

    def _registers(self, text: str) -> None:
        reader = self.reader
        found = re.compile(r"\s*\.reg\s*(?:\.(v[24])\s*)?\.(\w+)\s+").match(text)
        if not found or found.group(2) not in TYPE_BITS:
            raise reader.refuse(f"cannot read {text.strip()!r}")
        if found.group(1):
            raise reader.refuse(f"vector registers (.{found.group(1)}) are not covered")
        kind = found.group(2)
        at = found.end()
        body = text.rstrip()
        while at < len(body):
            one = _REGISTER.match(body, at)
            if not one:
                raise reader.refuse(f"cannot read {text.strip()!r}")
            name, count = one.group(1), one.group(2)
            if count:
                self.scope.ranges[name] = (int(count), kind)
            else:
                self._register(self.scope, name, kind)
            at = one.end()
            while at < len(body) and body[at].isspace():
                at += 1

    def _register(self, scope: Scope, name: str, kind: str) -> Register:
        register = Register(name, kind, TYPE_BITS[kind], self.function.registers)
        self.function.registers += 1
        scope.registers[name] = register
        return register

    def _instruction(self) -> None:
        reader = self.reader
        start = reader.at
        text = reader.until(";")
        found = _INSTRUCTION.fullmatch(text.strip())
        if not found:
            shown = " ".join(text.split())[:50]
            raise reader.refuse(f"cannot read the instruction {shown!r}", start)
        negated, predicate, mnemonic, rest = found.groups()
        try:
            operands = parse_operands(rest.strip())
        except ValueError as error:
            raise reader.refuse(f"{mnemonic}: {error}", start) from None
        guard = (predicate, bool(negated)) if predicate else None
        self.function.statements.append(
            Statement(reader.line(start), mnemonic, operands, guard, self.scope, self.place)
        )


def find_register(function: Function, scope: Scope, name: str) -> Register | None:
    """The register called `name` seen from `scope`; one of a range `%r<5>` is made when it is first met."""
    for level in scope.outwards():
        found = level.registers.get(name)
        if found is not None:
            return found
        if level.ranges:
            digits = _TRAILING_DIGITS.search(name)
            assert digits is not None
            for start in range(digits.start(), len(name)):
                number = name[start:]
                if number[0] == "0" and len(number) > 1:
                    continue
                limit, kind = level.ranges.get(name[:start], (0, ""))
                if int(number) < limit:
                    register = Register(name, kind, TYPE_BITS[kind], function.registers)
                    function.registers += 1
                    level.registers[name] = register
                    return register
    return None


def read(text: str, file: str = "<ptx>") -> Module:
    """The module that `text` says; raises TkcError TK417 with the line of what cannot be read."""
    # NVRTC ends its text with a zero byte.
    return Reader(text.rstrip("\0"), file).read()

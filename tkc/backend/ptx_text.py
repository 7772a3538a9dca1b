"""Prints the ptx dialect as PTX text: header, kernels, one line for each instruction, and the source line of each.

The form it needs, and verifies: operations of the ptx dialect alone, inside kernels, and a name on every register
(`name-registers` gives them). Whatever is not so is a bug of a pass and raises `Bug`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FileLineColLoc, LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Block, Operation, SSAValue

from tkc.diagnostics import Bug
from tkc.ir.isa.system import VPRINTF
from tkc.ir.isa.targets import Version
from tkc.ir.locations import places
from tkc.ir.ptx.control import (
    ForOp,
    IfOp,
    ProceedOp,
    RepeatOp,
    UntilOp,
    WhileOp,
    YieldOp,
)
from tkc.ir.ptx.instruction import Instruction, register_text
from tkc.ir.ptx.kernel import (
    PARAM_KINDS,
    KernelOp,
    ParamAddressOp,
    ParamOp,
    SharedBaseOp,
    SpecialOp,
)
from tkc.ir.ptx.printing import PrintOp
from tkc.ir.ptx.registers import PREFIXES, WIDTHS, type_of
from tkc.ir.ptx.values import ImmOp, JoinOp, SliceOp, UndefOp, is_constant
from tkc.ir.target import target_of

_TAKES_NAMES = frozenset({"WARP_SZ"})
"""Names that PTX gives a meaning of its own (PTX 4.4)."""

_B128: Version = (8, 3)
"""The first version with 128-bit registers (PTX 5.2.1)."""

_SILENT = frozenset({ImmOp, SliceOp, UndefOp, YieldOp, UntilOp, ProceedOp})
"""Operations that print nothing: terminators too, since names agree by now."""

_LOOP_PREDICATE = "%p0"
"""Holds a loop's own comparison between two instructions; `name-registers` gives it to no value."""


def print_ptx(module: ModuleOp) -> str:
    """The module as PTX text for the target in its `tkc.target`."""
    target = target_of(module)
    kernels: list[KernelOp] = []
    for op in module.body.block.ops:
        if not isinstance(op, KernelOp):
            raise Bug("ptx text", f"{op.name} stands beside kernels")
        kernels.append(op)
    taken = {n for k in kernels for n in (k.sym_name.data, *k.param_kinds())}
    shared = "sm"
    while shared in taken:
        shared += "$"

    files: dict[str, int] = {}
    formats: dict[str, str] = {}
    version = target.ptx
    texts: list[str] = []
    uses_shared = False
    for kernel in kernels:
        printer = _KernelPrinter(kernel, shared, files, formats)
        texts.append(printer.text())
        version = max(version, printer.version)
        uses_shared = uses_shared or printer.uses_shared or kernel.shared_bytes is not None
    head = [
        f".version {version[0]}.{version[1]}",
        f".target {target.name}",
        ".address_size 64",
        *(f'.file {number} "{_quoted(file)}"' for file, number in files.items()),
    ]
    if uses_shared:
        head.append(f".extern .shared .align 1024 .b8 {shared}[];")
    if formats:
        head.append(VPRINTF.declaration)
    for format, name in formats.items():
        bytes = [*format.encode(), 0]
        head.append(
            f".global .align 1 .b8 {name}[{len(bytes)}] = {{{', '.join(map(str, bytes))}}};"
        )
    return "\n".join([*head, *texts]) + "\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


class _KernelPrinter:
    """Prints one kernel; afterwards `version` is the lowest that its instructions need."""

    def __init__(
        self, kernel: KernelOp, shared: str, files: dict[str, int], formats: dict[str, str]
    ) -> None:
        self.kernel = kernel
        self.shared = shared
        self.files = files
        self.formats = formats
        self.version: Version = (1, 0)
        self.uses_shared = False
        self.kinds = kernel.param_kinds()
        self.lines: list[str] = []
        self.labels = 0
        self.location: LocationAttr | None = None
        self.place: tuple[int, int, int] | None = None
        self.tops = dict.fromkeys(PREFIXES, 0)

    def text(self) -> str:
        kernel = self.kernel
        self._block(kernel.body.block)
        params = ",\n".join(
            "    " + PARAM_KINDS[kind].declaration.replace("NAME", self._param(name))
            for name, kind in self.kinds.items()
        )
        head = [f".visible .entry {kernel.sym_name.data}(", *([params] if params else []), ")"]
        head.append(f".reqntid {kernel.reqntid.value.data}, 1, 1")
        min_ctas = kernel.min_ctas
        head.append(f".minnctapersm {min_ctas.value.data if min_ctas is not None else 1}")
        if kernel.cluster is not None:
            head.append(f".reqnctapercluster {kernel.cluster.value.data}, 1, 1")
            self.version = max(self.version, (7, 8))
        if kernel.most_ctas is not None:
            head += [".explicitcluster", f".maxclusterrank {kernel.most_ctas.value.data}"]
            self.version = max(self.version, (7, 8))
        head.append("{")
        for kind, top in self.tops.items():
            if top:
                head.append(f"    .reg .{kind} %{PREFIXES[kind]}<{top}>;")
        if self.tops["b128"]:
            self.version = max(self.version, _B128)
        return "\n".join([*head, *self.lines, "    ret;", "}"])

    def _param(self, name: str) -> str:
        return f"{name}$" if name in _TAKES_NAMES else name

    def _bug(self, op: Operation, message: str) -> Bug:
        return Bug("ptx text", f"{op.name} {message}")

    def _block(self, block: Block) -> None:
        """Every operation of a block; its terminator prints nothing, since names already agree."""
        op = block.first_op
        while op is not None:
            # Exact types: asking an abstract base class costs more than printing the line.
            kind = type(op)
            if kind.__base__ is Instruction:
                self._instruction(op, "")  # pyright: ignore[reportArgumentType]
            elif kind in _SILENT:
                self._declare(op.results)
            else:
                self._other(op)
            op = op.next_op

    def _instruction(self, op: Instruction, guard: str) -> None:
        try:
            spelling = op.spelling
            lines = op.lines(spelling)
        except ValueError as error:
            raise self._bug(op, str(error)) from None
        if op.location is not self.location:
            self._locate(op.location)
        if spelling.version > self.version:
            self.version = spelling.version
        for line in lines:
            self.lines.append(f"    {guard}{line};")
        self._declare(op.results)

    def _declare(self, values: Sequence[SSAValue]) -> None:
        """Counts the registers of values, which must have names unless they are constants."""
        for value in values:
            type = type_of(value)
            if type.named:
                top = type.top
                if top > self.tops[type.kind]:
                    self.tops[type.kind] = top
            elif not is_constant(value):
                raise Bug("ptx text", f"a register of type {type} has no name")

    def _locate(self, location: LocationAttr) -> None:
        """A `.loc` line where the source place differs from that of the line before."""
        self.location = location
        if isinstance(location, UnknownLoc):
            return
        place = location if isinstance(location, FileLineColLoc) else next(places(location), None)
        if place is not None:
            number = self.files.setdefault(place.filename.data, len(self.files) + 1)
            there = (number, place.line.data, place.column.data)
            # Equal, not identical: text read back has an attribute of its own for every operation.
            if there != self.place:
                self.place = there
                self.lines.append(f"    .loc {number} {place.line.data} {place.column.data}")

    def _plain(self, op: Operation, *lines: str) -> None:
        if op.location is not self.location:
            self._locate(op.location)
        self.lines += [f"    {line};" for line in lines]

    def _name(self, value: SSAValue) -> str:
        try:
            return register_text(value)
        except ValueError as error:
            raise Bug("ptx text", str(error)) from None

    def _label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"

    def _same(self, op: Operation, *groups: Sequence[SSAValue]) -> None:
        """Values that one register carries must have one name by now."""
        for values in zip(*groups, strict=True):
            if any(v.type is not values[0].type for v in values):
                names = ", ".join(str(v.type) for v in values)
                raise self._bug(op, f"carries one value under several names: {names}")

    def _other(self, op: Operation) -> None:
        match op:
            case ForOp():
                self._for(op)
            case IfOp():
                self._if(op)
            case RepeatOp():
                self._repeat(op)
            case WhileOp():
                self._while(op)
            case ParamOp():
                self._declare(op.results)
                load = PARAM_KINDS[self._kind(op, op.param.data)].load
                param = self._param(op.param.data)
                self._plain(op, f"ld.param{load} {self._name(op.result)}, [{param}]")
            case ParamAddressOp():
                self._declare(op.results)
                self._kind(op, op.param.data)
                name = self._name(op.result)
                param = self._param(op.param.data)
                self._plain(op, f"mov.b64 {name}, {param}", f"cvta.param.u64 {name}, {name}")
            case SharedBaseOp():
                self._declare(op.results)
                self.uses_shared = True
                self._plain(op, f"mov.u32 {self._name(op.result)}, {self.shared}")
            case SpecialOp():
                self._declare(op.results)
                width = type_of(op.result).kind[1:]
                self._plain(op, f"mov.u{width} {self._name(op.result)}, {op.register.data}")
            case PrintOp():
                self._print(op)
            case JoinOp():
                self._declare(op.results)
                type = type_of(op.result)
                moves = [
                    f"mov.b{WIDTHS[type.kind]} {to}, {self._name(part)}"
                    for to, part in zip(type.names, op.parts, strict=True)
                ]
                self._plain(op, *moves)
            case _:
                raise self._bug(op, "is no operation of a PTX kernel")

    def _print(self, op: PrintOp) -> None:
        """A call of `vprintf` in a scope of its own, which declares what the call needs."""
        format = self.formats.setdefault(op.format.data, f"$format{len(self.formats)}")
        stores: list[str] = []
        at = 0
        for argument in op.arguments:
            width = WIDTHS[type_of(argument).kind]
            at = -(-at // (width // 8)) * (width // 8)
            stores.append(f"st.local.b{width} [$arguments+{at}], {self._name(argument)}")
            at += width // 8
        (result,), (first, second) = VPRINTF.results, VPRINTF.params
        lines = [
            f".local .align 8 .b8 $arguments[{max(at, 8)}]",
            ".reg .b64 %address",
            f".param {first} $format",
            f".param {second} $list",
            f".param {result} $printed",
            *stores,
            f"mov.b64 %address, {format}",
            "cvta.global.u64 %address, %address",
            f"st.param{first} [$format], %address",
            "mov.b64 %address, $arguments",
            "cvta.local.u64 %address, %address",
            f"st.param{second} [$list], %address",
            f"call ($printed), {VPRINTF.name}, ($format, $list)",
        ]
        if op.location is not self.location:
            self._locate(op.location)
        self.lines += ["    {", *(f"    {line};" for line in lines), "    }"]

    def _kind(self, op: Operation, param: str) -> str:
        if param not in self.kinds:
            raise self._bug(op, f"names no parameter {param}")
        return self.kinds[param]

    def _for(self, op: ForOp) -> None:
        block = op.body.block
        counter = block.args[0]
        last = block.last_op
        nexts = last.values if isinstance(last, YieldOp) else ()
        self._same(op, (op.lower,), (counter,))
        self._same(op, op.inits, block.args[1:], nexts, op.carried)
        self._declare(block.args)
        if self.tops["pred"] == 0:
            self.tops["pred"] = 1
        compare, name = op.type.data, self._name(counter)
        upper, step = self._name(op.upper), self._name(op.step)
        end = ""
        if op.nonempty is None:
            top, end = self._label(), self._label()
            self._plain(
                op,
                f"setp.ge{compare} {_LOOP_PREDICATE}, {name}, {upper}",
                f"@{_LOOP_PREDICATE} bra {end}",
            )
        else:
            top = self._label()
        self.lines.append(f"{top}:")
        self._block(block)
        self._plain(
            op,
            f"add{compare} {name}, {name}, {step}",
            f"setp.lt{compare} {_LOOP_PREDICATE}, {name}, {upper}",
            f"@{_LOOP_PREDICATE} bra {top}",
        )
        if end:
            self.lines.append(f"{end}:")

    def _if(self, op: IfOp) -> None:
        condition = self._name(op.condition)
        holds, fails = ("!", "") if op.negated is not None else ("", "!")
        otherwise = op.otherwise
        for region in op.regions:
            last = region.block.last_op
            self._same(op, last.values if isinstance(last, YieldOp) else (), op.out)
        if otherwise is None:
            single = _single_instruction(op.then.block)
            if single is not None:
                for inner in op.then.block.ops:
                    self._declare(inner.results)
                self._instruction(single, f"@{holds}{condition} ")
                return
            end = self._label()
            self._plain(op, f"@{fails}{condition} bra {end}")
            self._block(op.then.block)
        else:
            other, end = self._label(), self._label()
            self._plain(op, f"@{fails}{condition} bra {other}")
            self._block(op.then.block)
            self._plain(op, f"bra {end}")
            self.lines.append(f"{other}:")
            self._block(otherwise.block)
        self.lines.append(f"{end}:")

    def _repeat(self, op: RepeatOp) -> None:
        block = op.body.block
        last = block.last_op
        if not isinstance(last, UntilOp):
            raise self._bug(op, "has no ptx.until")
        self._same(op, op.inits, block.args, last.values, op.carried)
        self._declare(block.args)
        top = self._label()
        self.lines.append(f"{top}:")
        self._block(block)
        self._plain(op, f"@!{self._name(last.condition)} bra {top}")

    def _while(self, op: WhileOp) -> None:
        test, body = op.test.block, op.body.block
        proceed, last = test.last_op, body.last_op
        if not isinstance(proceed, ProceedOp):
            raise self._bug(op, "has no ptx.proceed")
        nexts = last.values if isinstance(last, YieldOp) else ()
        self._same(op, op.inits, test.args, body.args, nexts, op.carried)
        self._declare(test.args)
        top, end = self._label(), self._label()
        self.lines.append(f"{top}:")
        self._block(test)
        self._plain(op, f"@!{self._name(proceed.condition)} bra {end}")
        self._block(body)
        self._plain(op, f"bra {top}")
        self.lines.append(f"{end}:")


def _single_instruction(block: Block) -> Instruction | None:
    """The only thing that a block prints, if that is one line which may be predicated."""
    found: Instruction | None = None
    op = block.first_op
    while op is not None:
        if isinstance(op, Instruction):
            if found is not None or op.ROW.convergent:
                return None
            if any(type_of(v).count for v in op.results) and op.SHAPE.maps:
                return None
            found = op
        elif not isinstance(op, ImmOp | SliceOp | UndefOp | YieldOp):
            return None
        op = op.next_op
    return found

"""The kernel: its parameters, its launch bounds, its shared memory, and its body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Operation as IrOperation
from xdsl.irdl import opt_prop_def, prop_def, region_def, result_def, traits_def
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.ptx.registers import RegisterType, reg, type_of
from tkc.ir.syntax import Operation

_IDENTIFIER = re.compile(r"[a-zA-Z][a-zA-Z0-9_$]*|[_$%][a-zA-Z0-9_$]+")
"""A name in PTX (PTX 4.4)."""


@dataclass(frozen=True, slots=True)
class ParamKind:
    """How a kind of parameter is declared, with `NAME` for its name, and what loads it into which class."""

    declaration: str
    load: str
    kind: str


PARAM_KINDS: Mapping[str, ParamKind] = {
    **{
        name: ParamKind(f".param .{name} NAME", f".{name}", kind)
        for name, kind in (
            ("u32", "b32"),
            ("s32", "b32"),
            ("b32", "b32"),
            ("u64", "b64"),
            ("s64", "b64"),
            ("b64", "b64"),
            ("u16", "b16"),
            ("s16", "b16"),
            ("b16", "b16"),
            ("f32", "f32"),
            ("f64", "f64"),
        )
    },
    "pointer": ParamKind(".param .u64 .ptr .global .align 16 NAME", ".u64", "b64"),
    "tensormap": ParamKind(".param .align 64 .b8 NAME[128]", "", ""),
}
"""Every kind of parameter. A tensor map is 128 bytes that the kernel takes the address of (PTX 5.4.8)."""

SPECIAL_REGISTERS: Mapping[str, str] = {
    **{f"%{n}.{axis}": "b32" for n in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"},
    **{
        f"%{n}.{axis}": "b32"
        for n in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyz"
    },
    **{
        f"%{n}": "b32"
        for n in (
            *("laneid", "warpid", "nwarpid", "smid", "nsmid", "clock"),
            *("cluster_ctarank", "cluster_nctarank", "dynamic_smem_size", "total_smem_size"),
            *("lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"),
        )
    },
    **{f"%{n}": "b64" for n in ("clock64", "globaltimer", "gridid")},
}
"""Special registers that can be read, with the class that holds them (PTX 10)."""


class _Isolated(IsolatedFromAbove):
    """xDSL's, which climbs from each operand to the kernel: here what is used is compared with what is inside."""

    def verify(self, op: IrOperation) -> None:
        inside: set[int] = set()
        used: set[int] = set()
        for inner in op.walk():
            if inner is not op:
                inside.update(map(id, inner.results))
                used.update(map(id, inner._operands))  # pyright: ignore[reportPrivateUsage]
            for region in inner.regions:
                for block in region.blocks:
                    inside.update(map(id, block.args))
        if not used <= inside:
            super().verify(op)


@irdl_op_definition
class KernelOp(Operation):
    """`ptx.kernel {sym_name = "k", params = [{name = "n", kind = "u32"}], reqntid = 128} do { … }`.

    `reqntid` threads a CTA, `min_ctas` CTAs an SM (1), `cluster` CTAs a cluster along x, or as many as the launch says
    up to `most_ctas`, `shared_bytes` of dynamic shared memory; `contract` is the launch contract, which passes carry
    along unread.
    """

    name = "ptx.kernel"
    sym_name = prop_def(StringAttr)
    params = prop_def(ArrayAttr[DictionaryAttr])
    reqntid = prop_def(IntegerAttr)
    min_ctas = opt_prop_def(IntegerAttr)
    cluster = opt_prop_def(IntegerAttr)
    most_ctas = opt_prop_def(IntegerAttr)
    shared_bytes = opt_prop_def(IntegerAttr)
    contract = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), _Isolated(), SymbolOpInterface())

    def param_kinds(self) -> dict[str, str]:
        """Kinds of the parameters by name, in order."""
        found = [(p.data["name"], p.data["kind"]) for p in self.params]
        return {
            name.data: kind.data
            for name, kind in found
            if isinstance(name, StringAttr) and isinstance(kind, StringAttr)
        }

    def verify_(self) -> None:
        for param in self.params:
            if not all(isinstance(param.data.get(k), StringAttr) for k in ("name", "kind")):
                raise VerifyException("a parameter has a name and a kind")
        kinds = self.param_kinds()
        if len(kinds) != len(self.params):
            raise VerifyException("two parameters have one name")
        for name in (self.sym_name.data, *kinds):
            if not _IDENTIFIER.fullmatch(name):
                raise VerifyException(f"{name!r} is no name in PTX")
        for name, kind in kinds.items():
            if kind not in PARAM_KINDS:
                raise VerifyException(
                    f"parameter {name} is of no kind {kind}: one of {', '.join(PARAM_KINDS)}"
                )
        if not 1 <= self.reqntid.value.data <= 1024:
            raise VerifyException(f"{self.reqntid.value.data} threads instead of 1 to 1024")


@irdl_op_definition
class ParamOp(Operation):
    """The value of a scalar parameter or pointer: `ld.param`."""

    name = "ptx.param"
    param = prop_def(StringAttr)
    result = result_def(RegisterType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        kind = _param_kind(self, self.param.data)
        if PARAM_KINDS[kind].kind != type_of(self.result).kind:
            raise VerifyException(f"parameter {self.param.data} is a {kind}")


@irdl_op_definition
class ParamAddressOp(Operation):
    """The generic address of a parameter: what a tensor copy takes as its map."""

    name = "ptx.param_address"
    param = prop_def(StringAttr)
    result = result_def(RegisterType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        _param_kind(self, self.param.data)
        if type_of(self.result).unnamed() != reg("b64"):
            raise VerifyException("a generic address is a b64")


@irdl_op_definition
class SharedBaseOp(Operation):
    """The address of the kernel's dynamic shared memory in the shared window; a multiple of 1024."""

    name = "ptx.shared_base"
    result = result_def(RegisterType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if type_of(self.result).unnamed() != reg("b32"):
            raise VerifyException("a shared address is a b32")


@irdl_op_definition
class SpecialOp(Operation):
    """A special register: `%t = ptx.special {register = "%tid.x"} : () -> (!ptx.reg<b32>)`.

    Clocks among them change, so that none is pure and two reads stay two.
    """

    name = "ptx.special"
    register = prop_def(StringAttr)
    result = result_def(RegisterType)

    def verify_(self) -> None:
        kind = SPECIAL_REGISTERS.get(self.register.data)
        if kind is None:
            raise VerifyException(f"no special register {self.register.data}")
        if type_of(self.result).unnamed() != reg(kind):
            raise VerifyException(f"{self.register.data} is a {kind}")


def _param_kind(op: Operation, name: str) -> str:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, KernelOp):
        parent = parent.parent_op()
    kinds = parent.param_kinds() if parent is not None else {}
    if name not in kinds:
        raise VerifyException(
            f"the kernel has no parameter {name}; it has {', '.join(kinds) or 'none'}"
        )
    return kinds[name]

"""PTX text and launch descriptions: what the other modules of this package write with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

Json = dict[str, Any]

REGISTERS = ".reg .pred %p<16>;\n.reg .b16 %h<{half}>;\n.reg .b32 %r<{word}>;\n.reg .b64 %d<{wide}>;\n.reg .b128 %q<4>;"
DTYPES = {"b8": "uint8", "b16": "uint16", "b32": "uint32", "b64": "uint64"}


def lines(text: str) -> str:
    return dedent(text).strip("\n")


def joined(*parts: str) -> str:
    """Pieces of a body, each with an indentation of its own."""
    return "\n".join(lines(p) for p in parts if p)


@dataclass
class Program:
    """One PTX file and its launches. `name` is the stem of both files, `doc` the comment at their head."""

    name: str
    doc: str
    version: str = "8.6"
    parts: list[str] = field(default_factory=list)
    launches: list[Json] = field(default_factory=list)

    def text(self, text: str) -> None:
        """Adds module-level text, such as a variable."""
        self.parts.append(lines(text))

    def entry(
        self,
        name: str,
        params: Mapping[str, str],
        body: str,
        threads: int | tuple[int, int, int] = 128,
        cluster: int | tuple[int, int, int] = 1,
        registers: Mapping[str, int] | None = None,
        limit: str = ".minnctapersm 1",
    ) -> None:
        """Adds an entry. `params` maps a name to `u64`, `u32`, `map` ...; `body` uses %p, %h, %r, %d and %q."""
        counts = {"half": 64, "word": 96, "wide": 64, **(registers or {})}
        declared = ",\n".join(
            f"    .param .align 64 .b8 {n}[128]" if t == "map" else f"    .param .{t} {n}"
            for n, t in params.items()
        )
        block = (threads, 1, 1) if isinstance(threads, int) else threads
        ctas = (cluster, 1, 1) if isinstance(cluster, int) else cluster
        head = (
            f".visible .entry {name}(\n{declared})\n.reqntid {block[0]}, {block[1]}, {block[2]}\n"
        )
        if ctas != (1, 1, 1):
            head += f".reqnctapercluster {ctas[0]}, {ctas[1]}, {ctas[2]}\n"
        inside = f"{REGISTERS.format(**counts)}\n{lines(body)}\nret;"
        self.parts.append(f"{head}{limit}\n{{\n{_indented(inside)}\n}}")

    def launch(
        self,
        name: str,
        entry: str,
        args: Sequence[Any],
        buffers: Mapping[str, Json],
        outputs: Sequence[str] = ("out",),
        grid: int | tuple[int, int, int] = 1,
        block: int | tuple[int, int, int] = 128,
        cluster: int | tuple[int, int, int] = 1,
        shared: int = 0,
        **more: Any,
    ) -> None:
        """Adds a launch; an argument is the name of a buffer, or a description."""
        if any(launch["name"] == name for launch in self.launches):
            raise ValueError(f"{self.name}: two launches {name}")
        described = [{"buffer": a} if isinstance(a, str) else a for a in args]
        used = {a.get("buffer") or a.get("map", {}).get("buffer") for a in described} - {None}
        if not used <= set(buffers) or not set(outputs) <= set(buffers):
            raise ValueError(
                f"{self.name}: {name} names a buffer that it has not: {used}, {outputs}"
            )
        triple = [list((v, 1, 1) if isinstance(v, int) else v) for v in (grid, block, cluster)]
        self.launches.append(
            {
                "name": name,
                "entry": entry,
                "grid": triple[0],
                "block": triple[1],
                "cluster": triple[2],
                "shared_bytes": shared,
                "args": described,
                "buffers": dict(buffers),
                "outputs": list(outputs),
                **more,
            }
        )

    def write(self, folder: Path) -> None:
        head = "\n".join(f"// {line}" for line in self.doc.splitlines())
        top = f"{head}\n.version {self.version}\n.target sm_90a\n.address_size 64"
        (folder / f"{self.name}.ptx").write_text(
            "\n\n".join([top, *self.parts]) + "\n", encoding="utf-8"
        )
        rows = ",\n".join(json.dumps(launch, separators=(",", ":")) for launch in self.launches)
        title = json.dumps(self.doc.splitlines()[0])
        (folder / f"{self.name}.json").write_text(
            f'{{"schema":"tkc-recording/1","ptx":"{self.name}.ptx","doc":{title},"launches":[\n{rows}\n]}}\n',
            encoding="utf-8",
        )


def _indented(text: str) -> str:
    """Instructions are indented, labels are not."""
    return "\n".join(
        line if line.endswith(":") else indent(line, "    ") for line in text.splitlines()
    )


def u32(value: int) -> Json:
    return {"scalar": "uint32", "value": value % (1 << 32)}


def u64(value: int) -> Json:
    return {"scalar": "uint64", "value": value}


def buffer(dtype: str, count: int, kind: str, **make: Any) -> Json:
    """A buffer of `count` words of b8, b16, b32 or b64."""
    return {"dtype": DTYPES[dtype], "count": count, "make": {"kind": kind, **make}}


def out(dtype: str, count: int, value: int = 0) -> Json:
    return buffer(dtype, count, "fill", value=value)


def tensor_map(
    name: str,
    type_name: str,
    sizes: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int] | None = None,
    swizzle: str = "none",
    interleave: str = "none",
    fill: str = "zero",
    offset: int = 0,
) -> Json:
    """A tensor map over a buffer: the fields of cuTensorMapEncodeTiled, the type by the end of its constant's name."""
    return {
        "map": {
            "buffer": name,
            "type": type_name,
            "sizes": list(sizes),
            "strides": list(strides),
            "box": list(box),
            "element_strides": list(element_strides or [1] * len(sizes)),
            "swizzle": swizzle,
            "interleave": interleave,
            "fill": fill,
            "offset": offset,
        }
    }


GLOBAL_INDEX = """
mov.u32 %r0, %ctaid.x;
mov.u32 %r1, %ntid.x;
mov.u32 %r2, %tid.x;
mad.lo.u32 %r0, %r0, %r1, %r2;
"""
"""%r0 becomes the number of the thread in the grid."""


def copy_in(source: str, words: str, label: str, step: int = 128) -> str:
    """Threads copy `words` words from the address in `source` to shared memory at %r4; %r5, %r6, %d9, %p9 are used."""
    return lines(f"""
        mov.u32 %r5, %tid.x;
        {label}:
        setp.ge.u32 %p9, %r5, {words};
        @%p9 bra {label}_END;
        mul.wide.u32 %d9, %r5, 4;
        add.u64 %d9, {source}, %d9;
        ld.global.b32 %r6, [%d9];
        mad.lo.u32 %r7, %r5, 4, %r4;
        st.shared.b32 [%r7], %r6;
        add.u32 %r5, %r5, {step};
        bra {label};
        {label}_END:
    """)


def fill_shared(words: str, label: str, value: str = "0xA5A5A5A5", step: int = 128) -> str:
    """Threads write a pattern to `words` words of shared memory at %r4."""
    return lines(f"""
        mov.u32 %r5, %tid.x;
        mov.b32 %r6, {value};
        {label}:
        setp.ge.u32 %p9, %r5, {words};
        @%p9 bra {label}_END;
        mad.lo.u32 %r7, %r5, 4, %r4;
        st.shared.b32 [%r7], %r6;
        add.u32 %r5, %r5, {step};
        bra {label};
        {label}_END:
    """)


def copy_out(target: str, words: str, label: str, step: int = 128) -> str:
    """Threads copy `words` words of shared memory at %r4 to the address in `target`."""
    return lines(f"""
        mov.u32 %r5, %tid.x;
        {label}:
        setp.ge.u32 %p9, %r5, {words};
        @%p9 bra {label}_END;
        mad.lo.u32 %r7, %r5, 4, %r4;
        ld.shared.b32 %r6, [%r7];
        mul.wide.u32 %d9, %r5, 4;
        add.u64 %d9, {target}, %d9;
        st.global.b32 [%d9], %r6;
        add.u32 %r5, %r5, {step};
        bra {label};
        {label}_END:
    """)


def wait_parity(barrier: str, parity: str, label: str) -> str:
    return lines(f"""
        {label}:
        mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p8, [{barrier}], {parity};
        @!%p8 bra {label};
    """)

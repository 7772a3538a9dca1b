"""Tensor maps at and beyond the limits: what cuTensorMapEncodeTiled makes and what it refuses. No program runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from generate.tma_loads import ATOMS, BITS, SWIZZLES
from generate.writing import Json

PLAIN: Json = {
    "type": "FLOAT16",
    "sizes": [64, 8],
    "strides": [128],
    "box": [16, 4],
    "element_strides": [1, 1],
    "swizzle": "none",
    "interleave": "none",
    "fill": "zero",
    "l2_promotion": "none",
    "offset": 0,
}
THREE: Json = {
    **PLAIN,
    "sizes": [16, 8, 8],
    "strides": [256, 2048],
    "box": [16, 4, 4],
    "element_strides": [1, 1, 1],
}


class MapTrials:
    """Written like a program, but only maps are made of it."""

    name = "tensor_map_limits"
    doc = "Tensor maps at and beyond the limits of cuTensorMapEncodeTiled."

    def __init__(self) -> None:
        self.launches: list[Json] = []

    def add(self, name: str, base: Json = PLAIN, **changed: Any) -> None:
        if any(m["name"] == name for m in self.launches):
            raise ValueError(f"two maps {name}")
        self.launches.append({"name": name, "map": {**base, **changed}})

    def write(self, folder: Path) -> None:
        rows = ",\n".join(json.dumps(m, separators=(",", ":")) for m in self.launches)
        text = f'{{"schema":"tkc-recording/1","doc":{json.dumps(self.doc)},"maps":[\n{rows}\n]}}\n'
        (folder / f"{self.name}.json").write_text(text, encoding="utf-8")


def _lengths(t: MapTrials) -> None:
    for box in (0, 1, 2, 4, 7, 8, 9, 255, 256, 257, 264):
        t.add(f"inner_box_{box}", box=[box, 4], sizes=[512, 8], strides=[1024])
        t.add(f"outer_box_{box}", box=[16, box], sizes=[64, 512])
    for size in (
        0,
        1,
        7,
        1 << 31,
        (1 << 31) - 1,
        (1 << 31) + 1,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 1,
    ):
        t.add(f"inner_size_{size}", sizes=[size, 8], strides=[1 << 34])
        t.add(f"outer_size_{size}", sizes=[64, size])
    for stride in (0, 8, 16, 32, 64, 120, 112, 1 << 39, (1 << 40) - 16, 1 << 40, 1 << 41):
        t.add(f"stride_{stride}", strides=[stride])
    for stride in (0, 1, 2, 3, 7, 8, 9):
        t.add(f"inner_element_stride_{stride}", element_strides=[stride, 1])
        t.add(f"outer_element_stride_{stride}", element_strides=[1, stride], box=[16, 56])
        t.add(f"outer_element_stride_{stride}_uneven", element_strides=[1, stride], box=[16, 5])
    for offset in (1, 2, 4, 8, 16, 32, 48):
        t.add(f"offset_{offset}", offset=offset)
        t.add(
            f"offset_{offset}_interleave_32B",
            THREE,
            offset=offset,
            interleave="32B",
            swizzle="32B",
            box=[16, 4, 4],
        )
    for rank in (1, 2, 3, 4, 5):
        t.add(
            f"rank_{rank}",
            sizes=[16] * rank,
            strides=[32 * 16**i for i in range(rank - 1)],
            box=[8, *[2] * (rank - 1)],
            element_strides=[1] * rank,
        )
    t.add("row_longer_than_stride", sizes=[128, 8], strides=[128])
    t.add("box_larger_than_tensor", sizes=[8, 2], strides=[16], box=[64, 64])
    t.add("smaller_outer_stride", THREE, strides=[2048, 256])
    for rows in (128, 129, 192, 224, 226, 227, 228, 229, 230, 240, 255):
        t.add(
            f"box_kilobytes_{rows}",
            type="FLOAT64",
            sizes=[512, 512],
            strides=[4096],
            box=[128, rows],
        )
    for box in ([256, 256], [256, 255], [128, 256], [64, 256], [256, 128]):
        t.add(
            f"box_bytes_{box[0]}_{box[1]}_u8",
            type="UINT8",
            sizes=[512, 512],
            strides=[512],
            box=box,
        )
        t.add(
            f"box_bytes_{box[0]}_{box[1]}_f64",
            type="FLOAT64",
            sizes=[512, 512],
            strides=[4096],
            box=box,
        )


def _types(t: MapTrials) -> None:
    for name, bits in BITS.items():
        for fill in ("zero", "nan"):
            t.add(
                f"type_{name}_{fill}",
                type=name,
                box=[128 // bits * 2, 4],
                sizes=[64, 8],
                strides=[512],
                fill=fill,
            )
    for name in ("16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B"):
        t.add(f"type_{name}", type=name, sizes=[256, 8], strides=[256], box=[128, 4])


def _swizzles(t: MapTrials) -> None:
    for swizzle in (*SWIZZLES, *ATOMS):
        for inner in (8, 16, 32, 64, 128, 256):
            t.add(
                f"swizzle_{swizzle}_{inner * 2}",
                sizes=[512, 8],
                strides=[1024],
                box=[inner, 4],
                swizzle=swizzle,
            )
    for interleave in ("none", "16B", "32B"):
        for swizzle in (*SWIZZLES, *ATOMS):
            for inner in (8, 16, 32, 64):
                t.add(
                    f"interleave_{interleave}_{swizzle}_{inner}",
                    THREE,
                    interleave=interleave,
                    swizzle=swizzle,
                    box=[inner, 4, 4],
                )
        for inner in (1, 2, 4, 12, 17):
            box = [inner, 4, 4]
            name = f"interleave_{interleave}_box_{inner}"
            t.add(name, THREE, interleave=interleave, swizzle="32B", box=box)
        for size in (1, 3, 5):
            name = f"interleave_{interleave}_size_{size}"
            t.add(name, THREE, interleave=interleave, swizzle="32B", sizes=[size, 8, 8])
        t.add(
            f"interleave_{interleave}_two_axes", interleave=interleave, swizzle="32B", box=[16, 4]
        )
        t.add(
            f"interleave_{interleave}_u8",
            THREE,
            type="UINT8",
            interleave=interleave,
            swizzle="32B",
            box=[16, 4, 4],
        )
        t.add(
            f"interleave_{interleave}_stride",
            THREE,
            interleave=interleave,
            swizzle="32B",
            strides=[272, 2064],
        )
        t.add(
            f"interleave_{interleave}_size",
            THREE,
            interleave=interleave,
            swizzle="32B",
            sizes=[12, 8, 8],
        )
        t.add(
            f"interleave_{interleave}_inner_stride",
            THREE,
            interleave=interleave,
            swizzle="32B",
            element_strides=[2, 1, 1],
        )
    for promotion in ("64B", "128B", "256B"):
        t.add(f"l2_{promotion}", l2_promotion=promotion)


def programs() -> list[MapTrials]:
    t = MapTrials()
    _lengths(t)
    _types(t)
    _swizzles(t)
    return [t]

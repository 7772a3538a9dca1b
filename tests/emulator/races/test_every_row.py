"""Which collected bug has which twin in PTX: the table, held to what is there.

A twin is a pair of forms in a `TWINS` of these files whose name begins with the bug's, or a test that is named after it.
`by` says how the bad form shows: by a finding, by a refusal before anything runs, or in values alone (there is nothing to
find in memory or synchronisation; the twin compares results).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from emulator.races import (
    test_bugs,
    test_chains,
    test_clusters,
    test_operands,
    test_pairs,
    test_shared,
    test_tensor,
)
from emulator.races.twins import Twin


class Row(NamedTuple):
    """A bug of the collection, in which file its twin is, and how the bad form shows."""

    bug: str
    file: str
    by: str = "finding"


ROWS = (
    Row("PRX-1", "shared"), Row("PRX-3", "shared"), Row("PRX-3", "tensor"), Row("PRX-5", "bugs"),
    Row("PRX-7", "clusters"), Row("PRX-9", "bugs"),
    Row("MBR-1", "clusters"), Row("MBR-2", "shared"), Row("MBR-4", "shared"), Row("MBR-6", "shared"),
    Row("MBR-8", "bugs"), Row("MBR-11", "shared"),
    Row("PIP-1", "shared"), Row("PIP-3", "shared"), Row("PIP-5", "bugs"), Row("PIP-7", "bugs"), Row("PIP-9", "shared"),
    Row("TMM-1", "tensor"), Row("TMM-3", "shared"), Row("TMM-5", "bugs"), Row("TMM-7", "operands"),
    Row("TMM-9", "tensor"), Row("TMM-11", "bugs"),
    Row("CTA2-1", "clusters"), Row("CTA2-3", "bugs"), Row("CTA2-5", "clusters"), Row("CTA2-7", "bugs"),
    Row("CTA2-7", "operands"), Row("CTA2-9", "bugs"),
    Row("WGM-1", "bugs"), Row("WGM-3", "bugs"), Row("WGM-3", "operands"), Row("WGM-5", "operands"),
    Row("CVG-1", "bugs"), Row("CVG-3", "bugs"), Row("CVG-5", "bugs"), Row("CVG-5", "operands"),
    Row("TMA-1", "operands"), Row("TMA-3", "operands"), Row("TMA-5", "bugs"), Row("TMA-7", "bugs"), Row("TMA-9", "bugs"),
    Row("BSC-1", "operands"), Row("BSC-3", "bugs"), Row("BSC-5", "operands"), Row("BSC-7", "operands", "values"),
    Row("BSC-9", "operands"),
    Row("NUM-1", "operands", "refusal"), Row("NUM-3", "operands", "values"), Row("NUM-5", "operands", "values"),
    Row("NUM-7", "operands", "values"), Row("NUM-9", "bugs"), Row("NUM-11", "operands", "values"),
    Row("LCH-1", "bugs"),
    Row("FP-1", "shared", "silence"), Row("FP-3", "shared", "silence"), Row("FP-5", "shared", "silence"),
    Row("FP-7", "tensor", "silence"), Row("FP-9", "operands", "silence"),
)  # fmt: skip
"""FP are kernels that people took for wrong and that are right: the twin is silent, and one step on it is not."""

NUMBERS = {
    "PRX": (1, 3, 5, 7, 9), "MBR": (1, 2, 4, 6, 8, 11), "PIP": (1, 3, 5, 7, 9), "TMM": (1, 3, 5, 7, 9, 11),
    "CTA2": (1, 3, 5, 7, 9), "WGM": (1, 3, 5), "CVG": (1, 3, 5), "TMA": (1, 3, 5, 7, 9), "BSC": (1, 3, 5, 7, 9),
    "NUM": (1, 3, 5, 7, 9, 11), "FP": (1, 3, 5, 7, 9),
}  # fmt: skip
"""The collection's families of memory, synchronisation and numbers."""
FILES = {
    "shared": test_shared, "clusters": test_clusters, "tensor": test_tensor, "bugs": test_bugs,
    "operands": test_operands,
}  # fmt: skip


def test_every_bug_has_a_row() -> None:
    wanted = {f"{family}-{n}" for family, numbers in NUMBERS.items() for n in numbers}
    assert wanted == {row.bug for row in ROWS if not row.bug.startswith("LCH")}


def test_every_row_has_its_twin() -> None:
    for row in ROWS:
        module = FILES[row.file]
        held = [x for x in vars(module).values() if isinstance(x, tuple)]
        twins = [
            t for x in held for t in x if isinstance(t, Twin) and t.name.startswith(f"{row.bug} ")
        ]
        name = row.bug.replace("-", "_")
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        tests = re.findall(rf"^def test_\w*{name}(?!\d)\w*", text, re.MULTILINE)
        assert twins or tests, row


class ChainRow(NamedTuple):
    """A row of the table of asynchronous chains: its verdicts, the twin, and why a verdict of the twin is another one."""

    row: str
    strict: str
    practice: str
    twin: str
    but: str = ""


RACE, ORDERED = "race", "ordered"
CHAIN_ROWS = (
    ChainRow("load, product or store of the same CTA", ORDERED, ORDERED, "load, wait, store through the copy engine"),
    ChainRow("each CTA loads its half, a product of the pair reads both", RACE, ORDERED,
             "each CTA loads its own half, a thread of CTA 1 says so, the product reads both"),
    ChainRow("threads write, no fence, product or store", RACE, RACE, "threads write, barrier, store through the copy engine"),
    ChainRow("threads write, the issuer fences", ORDERED, ORDERED, "threads write, barrier, fence of the issuer, store"),
    ChainRow("CTA 1 writes its own memory and fences, a product of CTA 0 reads it", RACE, ORDERED,
             "CTA 1 writes its half and fences, a product of CTA 0 reads it"),
    ChainRow("CTA 1 writes into CTA 0 and fences, a product of CTA 0 reads it", RACE, RACE,
             "CTA 1 writes into CTA 0 and fences, a product of CTA 0 reads it"),
    ChainRow("a product reads, commit, wait, load", ORDERED, ORDERED, "products read, commit, wait, load overwrites"),
    ChainRow("a product reads, commit, wait, threads write", RACE, ORDERED, "products read, commit, wait, threads overwrite"),
    ChainRow("threads read, arrive, load", RACE, RACE, "threads read, arrive, load overwrites"),
    ChainRow("threads read, arrive, the producer fences, load", ORDERED, ORDERED,
             "threads read, arrive, the producer fences, load overwrites"),
    ChainRow("store reads, wait_group.read, barrier, threads write", RACE, ORDERED,
             "store reads, wait_group.read, barrier, threads overwrite"),
    ChainRow("load, product, commit, load over the same bytes", RACE, ORDERED,
             "a load, a product that reads all of it, its commit, a load over the same bytes",
             "strict proves it by the read between the writes, where that covers the bytes (S2)"),
    ChainRow("load, product, commit, load over the same bytes", RACE, ORDERED,
             "a load, a product that reads other bytes, its commit, a load over the same bytes"),
)  # fmt: skip


def test_every_chain_has_a_twin_with_its_verdicts() -> None:
    """`test_chains.py` and `test_pairs.py` run them under both profiles."""
    chains = {c.name: c for c in (*test_chains.CHAINS, *test_pairs.CHAINS)}
    for row in CHAIN_ROWS:
        twin = chains[row.twin]
        found = (
            RACE if twin.strict or twin.code else ORDERED,
            RACE if twin.code else ORDERED,
        )
        assert (found == (row.strict, row.practice)) == (not row.but), row

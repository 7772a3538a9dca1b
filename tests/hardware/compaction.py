"""What is kept of an output: all of it up to 64 KiB, else hashes, the beginning, and 4,096 samples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Words = np.ndarray[Any, Any]

WHOLE = 1 << 16
HEAD = 1 << 15
SAMPLES = 4096


def fingerprint(folder: Path, name: str) -> str:
    """SHA-256 of the text and the launches of a program; a recording holds for these alone."""
    found = hashlib.sha256()
    for suffix in (".ptx", ".json"):
        path = folder / f"{name}{suffix}"
        found.update(path.read_bytes() if path.exists() else b"")
    return found.hexdigest()


def sample_places(count: int) -> Words:
    """Which words are kept of an output of `count` words; the same on every machine."""
    return np.sort(np.random.PCG64(count).random_raw(SAMPLES) % np.uint64(count)).astype(np.int64)


def _rows(words: Words, rows: int) -> Words:
    return words.reshape(max(rows, 1), -1)


def digests(words: Words, rows: int) -> Words:
    """SHA-256 of each row, 32 bytes each."""
    found = [
        np.frombuffer(hashlib.sha256(row.tobytes()).digest(), np.uint8)
        for row in _rows(words, rows)
    ]
    return np.stack(found)


def head_columns(words: Words, rows: int) -> int:
    table = _rows(words, rows)
    return min(table.shape[1], max(32, HEAD // (table.shape[0] * words.itemsize)))


def compact(words: Words, rows: int) -> dict[str, Words]:
    """The arrays that are kept, by what they are: `whole`, or `sha256`, `head` and `samples`."""
    if words.nbytes <= WHOLE:
        return {"whole": words}
    return {
        "sha256": digests(words, rows),
        "head": np.ascontiguousarray(_rows(words, rows)[:, : head_columns(words, rows)]),
        "samples": words[sample_places(len(words))],
    }


def differences(
    kept: Mapping[str, Words], words: Words, rows: int
) -> Iterator[tuple[int, int, int, int]]:
    """(row, column, recorded, found) of words that differ from those kept; (row, -1, 0, 0) if only the hash does."""
    table = _rows(words, rows)
    width = table.shape[1]
    if "whole" in kept:
        recorded = _rows(kept["whole"], rows)
        for r, c in np.argwhere(recorded != table):
            yield int(r), int(c), int(recorded[r, c]), int(table[r, c])
        return
    head = kept["head"]
    shown = set()
    for r, c in np.argwhere(head != table[:, : head.shape[1]]):
        shown.add(int(r))
        yield int(r), int(c), int(head[r, c]), int(table[r, c])
    places = sample_places(len(words))
    for i in np.flatnonzero(kept["samples"] != words[places]):
        at = int(places[i])
        shown.add(at // width)
        yield at // width, at % width, int(kept["samples"][i]), int(words[at])
    for r in np.flatnonzero((kept["sha256"] != digests(words, rows)).any(axis=1)):
        if int(r) not in shown:
            yield int(r), -1, 0, 0

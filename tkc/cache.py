"""A cache on disk: bytes by a digest of everything that made them; damage, races and full disks only cost time.

It lies in `$TKC_CACHE_DIR/tkc`, else `$XDG_CACHE_HOME/tkc`, else `~/.cache/tkc`; `TKC_CACHE=off` switches it off.
An entry is written to a temporary neighbour and renamed, so that a reader meets a whole one or none; it begins with a
digest of itself, and one that does not fit is no entry. Beyond `LIMIT` bytes the entries longest unused go.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from tkc.digests import sha256

LIMIT = 256 << 20
"""Bytes that all entries may take."""

STALE = 3600.0
"""Seconds after which a temporary file belongs to nobody."""

_DIGEST = 32
_SUFFIX = ".entry"
_on: ContextVar[bool] = ContextVar("cache_on", default=True)


def switch_off() -> None:
    """No entry is read or written from here on, in this thread and its tasks."""
    _on.set(False)


def folder() -> Path | None:
    """Where entries are; None where the cache is off or has no home."""
    if not _on.get() or os.environ.get("TKC_CACHE", "").lower() in ("off", "0", "no"):
        return None
    root = os.environ.get("TKC_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.path.expanduser(root)
    return None if home.startswith("~") else Path(home, "tkc", "results")


def key(*parts: str) -> str:
    """A name for what these parts made; parts are kept apart."""
    digest = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@cache
def version() -> str:
    """tkc's version and, of every file that it is made of, size and time: a changed compiler finds nothing old."""
    from tkc.version import __version__

    digest = sha256()
    root = Path(__file__).parent
    work = [str(root)]
    found: list[str] = []
    while work:
        with os.scandir(work.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        work.append(entry.path)
                elif entry.name.endswith((".py", ".lark", ".json")):
                    about = entry.stat()
                    found.append(f"{entry.path} {about.st_size} {about.st_mtime_ns}")
    for line in sorted(found):
        digest.update(line.encode("utf-8", "surrogatepass"))
    return f"{__version__} {digest.hexdigest()}"


def get(name: str) -> bytes | None:
    """The entry of a key, and a note that it was used; None where there is no sound one."""
    home = folder()
    if home is None:
        return None
    path = home / f"{name}{_SUFFIX}"
    try:
        data = path.read_bytes()
    except OSError:
        return None
    content = data[_DIGEST:]
    if data[:_DIGEST] != sha256(content).digest():
        return None
    with suppress(OSError):
        os.utime(path)
    return content


def put(name: str, content: bytes, limit: int = LIMIT) -> None:
    """Keeps an entry, whoever else writes it; what cannot be kept is not."""
    home = folder()
    if home is None:
        return
    part = home / f"{name}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        home.mkdir(parents=True, exist_ok=True)
        part.write_bytes(sha256(content).digest() + content)
        os.replace(part, home / f"{name}{_SUFFIX}")
        _sweep(home, limit)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _sweep(home: Path, limit: int) -> None:
    """Removes the entries longest unused until a quarter of the room is free, once there is none."""
    entries: list[tuple[float, int, str]] = []
    now = time.time()
    with os.scandir(home) as files:
        for file in files:
            with suppress(OSError):
                about = file.stat()
                if file.name.endswith(_SUFFIX):
                    entries.append((about.st_mtime, about.st_size, file.path))
                elif about.st_mtime < now - STALE:
                    os.unlink(file.path)
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return
    for _, size, path in sorted(entries):
        with suppress(OSError):
            os.unlink(path)
        total -= size
        if total <= limit * 3 // 4:
            return

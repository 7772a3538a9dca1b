"""Where NVIDIA's command-line tools and libraries are: the pip packages, then the CUDA toolkit, then PATH."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def roots() -> Iterator[Path]:
    """Folders that hold `bin` and `lib`: pip's for each CUDA major version, newest first, then the toolkit's."""
    for site in dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))):
        folder = Path(site) / "nvidia"
        yield from sorted(folder.glob("cu[0-9]*"), key=lambda p: int(p.name[2:]), reverse=True)
        yield folder / "cuda_nvcc"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield Path(home)


def candidates(name: str) -> list[str]:
    """Every place where the tool `name` is, best first; `TKC_PTXAS` (`TKC_NVDISASM`, …) comes before all."""
    found: list[str] = []
    if own := os.environ.get(f"TKC_{name.upper()}"):
        found.append(own)
    found += [str(root / "bin" / name) for root in roots()]
    if path := shutil.which(name):
        found.append(path)
    return list(dict.fromkeys(f for f in found if os.access(f, os.X_OK) and os.path.isfile(f)))


@cache
def find(name: str) -> str | None:
    """The best place of the tool `name`; looked for once."""
    found = candidates(name)
    return found[0] if found else None


def library(name: str) -> Path | None:
    """A library file by name, from `lib` or `lib64` of the roots."""
    for root in roots():
        for folder in ("lib", "lib64"):
            if (root / folder / name).is_file():
                return root / folder / name
    return None

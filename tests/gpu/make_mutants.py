"""Packages of the bf16 GEMM for sm_90a with one synchronisation broken in each: `make_mutants.py FOLDER`.

For `check_mutants.py`. Each line of MUTANTS was chosen because the emulator has a finding for it and the hardware has
room to show it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from emulator.mutation.mutants import mutants  # noqa: E402

import tkc  # noqa: E402

MUTANTS: dict[str, tuple[str, str, bool]] = {
    "full_wait_passes": ("pass", r"mbarrier\.try_wait\S* %p\d+, \[%r\d+\+229376\]", False),
    "full_wait_other_phase": ("phase", r"mbarrier\.try_wait\S* %p\d+, \[%r\d+\+229376\]", False),
    "empty_wait_passes": ("pass", r"mbarrier\.try_wait\S* %p\d+, \[%r\d+\+229408\]", False),
    "stage_released_early": ("move", r"wgmma\.wait_group", False),
    "products_not_awaited": ("count", r"wgmma\.wait_group", False),
    "too_few_bytes": ("half", r"mbarrier\.arrive\.expect_tx", False),
    "no_barrier_before_store": ("delete", r"barrier\.cta\.sync %r", True),
    "no_proxy_fence": ("delete", r"fence\.proxy\.async", True),
    "staging_reused_early": ("delete", r"cp\.async\.bulk\.wait_group\.read", True),
    "barriers_not_published": ("delete", r"fence\.mbarrier_init|barrier\.cta\.sync 0", True),
}
"""Name to (kind, statements that are changed, whether all of them or the first)."""


def broken(text: str, kind: str, pattern: str, everywhere: bool) -> str:
    """The text with the statements of a pattern changed."""
    if kind == "half":
        return re.sub(
            rf"({pattern}.*, )(\d+);",
            lambda m: f"{m.group(1)}{int(m.group(2)) // 2};",
            text,
            count=1,
        )
    if kind == "move":
        # The arrival that frees the stage goes before the wait for the products that read it.
        found = re.search(
            r"(    wgmma\.wait_group\S* 0;\n)((?:.*\n)*?.*mbarrier\.arrive\.release\S* _, \[\S+\];\n\$L\d+:\n)",
            text,
        )
        assert found is not None
        return text[: found.start()] + found.group(2) + found.group(1) + text[found.end() :]
    if everywhere:
        return "\n".join(
            f"// {line}" if re.search(pattern, line) else line for line in text.split("\n")
        )
    return next(m.text for m in mutants(text, (kind,)) if re.match(pattern, m.what))


def main(folder: Path) -> None:
    kernel = tkc.compile(ROOT / "examples" / "gemm_bf16.tk", target="sm_90a")
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"original": kernel.ptx}
    texts |= {name: broken(kernel.ptx, *how) for name, how in MUTANTS.items()}
    kernel.save(folder)
    contract = json.loads((folder / f"{kernel.name}.json").read_text())
    for made in folder.glob(f"{kernel.name}.*"):
        made.unlink()
    contract.pop("ptx_sha256", None)
    contract.pop("cubin", None)
    for name, text in texts.items():
        assert name == "original" or text != kernel.ptx, name
        (folder / f"{name}.ptx").write_text(text)
        (folder / f"{name}.json").write_text(
            json.dumps({**contract, "ptx": f"{name}.ptx"}, indent=1)
        )
    print(f"{len(texts)} packages in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

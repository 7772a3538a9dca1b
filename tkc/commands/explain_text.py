"""What `tkc explain` prints on a terminal: a line for each synchronisation with the program's own words, then its proof
or what would race without it."""

from __future__ import annotations

import sys
import textwrap
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tkc.analysis.explanation import Site, Step, Witness
    from tkc.commands.explain import Explained
    from tkc.job import Job

WIDTH = 120
"""Columns where the output is no terminal."""
INDENT = 17
MARK = {"removed": "-", "weakened": "~", "moved": "~", "inserted": "+"}
STYLES = {
    "removed": "green",
    "weakened": "cyan",
    "moved": "cyan",
    "inserted": "yellow",
    "kept": "default",
}


class Printer:
    """Prints the sites of one kernel; `everything`: with each pair's proof."""

    def __init__(self, job: Job, everything: bool) -> None:
        from rich.console import Console

        width = None if sys.stdout.isatty() else WIDTH
        self.console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
        self.width = width or self.console.width
        self.job, self.everything = job, everything
        self.lines = job.text.splitlines()

    def kernel(self, x: Explained, whole: bool) -> None:
        """`whole`: no site has been left out, so that the instructions of none are there too."""
        counts = {v: sum(s.verdict == v for s in x.sites) for v in MARK}
        changed = ", ".join(f"{n} {v}" for v, n in counts.items() if n) or "nothing changed"
        kept = len(x.sites) - sum(counts.values())
        self._say([(x.name, "bold"), (f" for {self.job.target}: {changed}, {kept} kept;", "")])
        told = f" fences {self.job.fences}, model {self.job.model}"
        if whole:
            told = f" {x.count} synchronising instructions in the PTX;" + told
        self._say([(told.strip(), "dim")])
        role = ""
        for site in x.sites:
            if site.role != role:
                role = site.role
                self._say([])
                self._say([(f"role {role}", "bold")])
            self._site(site)
        if whole and x.others:
            self._others(x)

    def _others(self, x: Explained) -> None:
        self._say([])
        self._say([("of no role's own", "bold")])
        for mnemonic, why, count, line in x.others:
            times = f" x {count}" if count > 1 else ""
            self._say([(f"{line or '':>5}            {mnemonic}{times}", "default")])
            self._paragraph(why, "dim")

    def _site(self, site: Site) -> None:
        line = site.location.line if site.location is not None else 0
        style = STYLES[site.verdict]
        words = site.instructions or (site.before or site.after,)
        spelled = [f"{w} x {n}" if (n := words.count(w)) > 1 else w for w in dict.fromkeys(words)]
        if site.verdict in ("weakened", "moved"):
            spelled = [f"{site.before} → {site.after}"]
        head = (
            f"{line or '':>5}  {site.verdict:<9}{MARK.get(site.verdict, ' ')}{'; '.join(spelled)}"
        )
        source = (
            self.lines[line - 1].partition("  #")[0].strip() if 0 < line <= len(self.lines) else ""
        )
        self._say([(f"{head:<70}", style), (f"  {source}", "dim italic")])
        other = [f"{m}: {v}" for m, v in site.profiles.items() if v != site.verdict]
        self._paragraph(site.id + f" ({', '.join(other)})" * bool(other), "dim")
        if site.verdict != "kept":
            self._proof(site)
        elif site.witness is not None:
            self._paragraph(f"without it: {_would_race(site.witness)}", "red")
        else:
            self._paragraph(f"nothing needs it: {site.stays}", "dim")
            if site.chains:
                self._proof(site)

    def _proof(self, site: Site) -> None:
        if not site.chains:
            said = (
                "orders nothing" if site.verdict == "removed" else "orders nothing more than that"
            )
            self._paragraph(said, "dim")
            return
        for pair, there, back in site.chains if self.everything else site.chains[:1]:
            without = "by it" if site.verdict == "inserted" else "without it"
            if site.verdict in ("weakened", "moved"):
                without = "so, too"
            self._paragraph(f"{pair} are in order {without}:")
            self._chain("there", there)
            if back != there:
                self._chain("back", back)
        more = len({pair for pair, _, _ in site.chains}) - 1
        last = []
        if more and not self.everything:
            last.append(f"and {more} more {'pair' if more == 1 else 'pairs'} (--all)")
        if site.assumptions:
            last.append(f"assumes {', '.join(site.assumptions)}")
        if last:
            self._paragraph("; ".join(last), "yellow")

    def _chain(self, way: str, chain: tuple[Step, ...]) -> None:
        """A step a line: where it starts, by which rule, and by what of PTX."""
        for i, (step, again) in enumerate((k, len([*same])) for k, same in groupby(chain)):
            line = step.lines[0] or ""
            basis = ", ".join((f"§{step.section}" if step.section else "", *step.assumptions))
            told = f" → {step.end} (line {step.lines[1]})" if step.crosses and step.lines[1] else ""
            times = f" (x {again})" if again > 1 else ""
            said = f"{step.start}{told}: {step.says}{times}"
            begins = f"{'':{INDENT + 2}}{way if not i else '':<6}{line:>4}  "
            room = self.width - len(begins) - 28
            first, *rest = textwrap.wrap(said, max(room, 30)) or [""]
            self._say(
                [(begins, ""), (f"{first:<{max(room, 30)}}  ", ""), (basis.strip(", "), "dim")]
            )
            for piece in rest:
                self._say([(f"{'':{len(begins) + 2}}{piece}", "")])

    def _paragraph(self, text: str, style: str = "") -> None:
        for line in textwrap.wrap(text, max(self.width - INDENT, 40)):
            self._say([(" " * INDENT + line, style)])

    def _say(self, parts: list[tuple[str, str]]) -> None:
        from rich.text import Text

        pieces: list[Any] = list(parts)
        text = Text.assemble(*pieces)
        text.rstrip()
        self.console.print(text)


def _would_race(w: Witness) -> str:
    """The nearest two accesses that would meet, with the turns that they are in."""
    if not w.first:
        return w.why
    turns = ("", "")
    if w.instances is not None and w.instances[0] != w.instances[1]:
        turns = (f" ({w.loop} = {w.instances[0]})", f" ({w.loop} = {w.instances[1]})")
    return f"{w.first}{turns[0]} and {w.second}{turns[1]}: {w.why}"

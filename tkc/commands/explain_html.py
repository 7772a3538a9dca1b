"""The page of `tkc explain --html`: roles over time in a small run, every synchronisation, and each chain drawn into
it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from tkc.job import Job

if TYPE_CHECKING:
    from tkc.analysis.explanation import Site
    from tkc.analysis.instances import Copy, Event
    from tkc.commands.explain import Explained

WIDTH, HEIGHT, TOP, LEFT = 250, 16, 40, 30
ROWS = 160
"""Events of a role that are drawn at most."""

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 0; display: flex; height: 100vh; color: #222; background: #fff }
nav { width: 30em; overflow: auto; padding: 1em; border-right: 1px solid #ccc; flex: none }
main { overflow: auto; padding: 1em } h1 { font-size: 1.1em } h2 { font-size: 1em; margin: 1em 0 .3em }
.site { padding: .2em .5em; cursor: pointer; border-left: 4px solid #bbb; margin: .15em 0 }
.site:hover { background: #f3f3f3 }
.removed { border-color: #2a8f4f } .weakened { border-color: #2277aa } .removed code { text-decoration: line-through }
.on { background: #eef5ff } .why { display: none; font-size: .9em; margin: .3em 0 } .on .why { display: block }
.why p { margin: .2em 0 } small { color: #777 } text { font: 11px ui-monospace, monospace } .lane { fill: #f7f7f9 }
.sync { fill: #225588 } .touch { fill: #444 } .chain { display: none } .chain.on { display: inline; background: none }
.chain path { fill: none; stroke: #d0342c; stroke-width: 2 } .chain circle { fill: #d0342c }
.back path { stroke-dasharray: 5 3 }
@media (prefers-color-scheme: dark) {
 body { background: #1b1b1f; color: #ddd } .lane { fill: #26262c } .touch { fill: #ccc }
 .sync { fill: #7ab8ff } .on, .site:hover { background: #2b3440 } nav { border-color: #444 } }
"""

SCRIPT = """
for (const site of document.querySelectorAll('.site')) site.onclick = () => {
  for (const x of document.querySelectorAll('.on')) x.classList.remove('on')
  site.classList.add('on')
  for (const x of document.querySelectorAll('.chain')) if (x.dataset.site === site.dataset.site) x.classList.add('on')
}
"""


def page(job: Job, found: list[Explained]) -> str:
    """One page for all kernels; it needs nothing beside it."""
    sides = "".join(_side(x) for x in found)
    drawings = "".join(f"<h1>{escape(x.name)}</h1>{_drawing(x)}" for x in found)
    title = f"{escape(job.file)} for {escape(job.target)}: synchronisation"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
        f"<nav><h1>{title}</h1><p><small>fences {job.fences}, model {job.model}. Click one: its chain is drawn, "
        f"the way back dashed.</small></p>{sides}</nav><main>{drawings}</main><script>{SCRIPT}</script></html>\n"
    )


def _side(x: Explained) -> str:
    said, role = "", ""
    for site in x.sites:
        if site.role != role:
            role = site.role
            said += f"<h2>{escape(x.name)}: role {escape(role)}</h2>"
        changed = site.verdict in ("weakened", "moved")
        after = f" → <b>{escape(site.after)}</b>" if changed else ""
        line = f" <small>line {site.location.line}</small>" if site.location is not None else ""
        said += (
            f'<div class="site {site.verdict}" data-site="{escape(x.name)}.{escape(site.id)}">{site.verdict} '
            f"<code>{escape(site.before or site.after)}</code>{after}{line}<div class=why>{_why(site)}</div></div>"
        )
    said += f"<h2>{escape(x.name)}: of no role's own</h2>"
    for mnemonic, why, count, line in x.others:
        times = f" × {count}" if count > 1 else ""
        said += f"<p><code>{escape(mnemonic)}</code>{times} <small>line {line}: {escape(why)}</small></p>"
    return said


def _why(site: Site) -> str:
    said = [
        f"<p><small>{escape(site.id)}; "
        + ", ".join(f"{m}: {v}" for m, v in site.profiles.items())
        + "</small></p>"
    ]
    if site.stays:
        said.append(f"<p>Nothing needs it: {escape(site.stays)}</p>")
    for pair, there, back in site.chains:
        said.append(f"<p>{escape(pair)} are in order without it</p><ol>")
        for step in (*there, *back):
            basis = ", ".join(
                (f"PTX {step.section}" if step.section else "", *step.assumptions)
            ).strip(", ")
            line = f"<small>line {step.lines[0]}</small> " if step.lines[0] else ""
            said.append(
                f"<li>{line}{escape(step.start)} → {escape(step.end)}: {escape(step.says)} "
                f"<small>{escape(basis)}</small></li>"
            )
        said.append("</ol>")
    if site.witness is not None:
        w = site.witness
        pair = f"{w.first} and {w.second}: " if w.first else ""
        counts = (
            f" ({w.loop} {w.instances[0]} and {w.instances[1]})" if w.instances and w.loop else ""
        )
        said.append(f"<p>Without it: {escape(pair + w.why + counts)}</p>")
    return "".join(said)


# Drawing -------------------------------------------------------------------------------------------------------------


@dataclass
class Drawing:
    """Where the events of a run stand on the page."""

    traces: dict[Copy, list[Event]]

    def x(self, copy: Copy) -> int:
        return LEFT + WIDTH * list(self.traces).index(copy)

    def y(self, event: Event) -> int:
        return TOP + HEIGHT * (event.when + 1)

    def shown(self, copy: Copy, at: int) -> bool:
        return self.traces[copy][at].when < ROWS

    def path(self, trail: list[tuple[Copy, int]], back: bool) -> str:
        points = [
            (self.x(c) + 4, self.y(self.traces[c][at])) for c, at in trail if self.shown(c, at)
        ]
        if len(points) < 2:
            return ""
        curves = "".join(
            f"M{a},{b} C{(a + c) / 2},{b} {(a + c) / 2},{d} {c},{d} "
            if a != c
            else f"M{a},{b} C{a - 22},{b} {a - 22},{d} {c},{d} "
            for (a, b), (c, d) in pairwise(points)
        )
        dots = "".join(f'<circle cx="{a}" cy="{b}" r="3.5"/>' for a, b in points)
        return f'<g class="{"back" if back else "there"}"><path d="{curves}"/>{dots}</g>'


def _drawing(x: Explained) -> str:
    from tkc.analysis.instances import Unknown
    from tkc.analysis.machine import Code
    from tkc.analysis.phases import date, runs

    try:
        sizes, traces = next(iter(runs(Code(x.kernel))))
        date(traces)
    except Unknown as why:
        return f"<p>The kernel cannot be run on small numbers, so there is no drawing: {escape(str(why))}.</p>"
    drawing = Drawing(traces)
    last = min(ROWS, max((e.when for t in traces.values() for e in t), default=0) + 1)
    high, wide = TOP + HEIGHT * (last + 2), LEFT + WIDTH * len(traces)
    said = [
        f'<p><small>with {escape(sizes)}</small></p><svg width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">'
    ]
    for copy, trace in traces.items():
        said.append(_lane(drawing, copy, trace, high))
    for site in x.sites:
        said.append(_chain(x, drawing, site))
    return "".join([*said, "</svg>"])


def _lane(drawing: Drawing, copy: Copy, trace: list[Event], high: int) -> str:
    from tkc.analysis.explanation import kind_of

    at = drawing.x(copy)
    name = (
        copy.role
        + (f" [{copy.copy}]" if copy.copy else "")
        + (f" of CTA {copy.cta}" if copy.cta else "")
    )
    said = [
        f'<rect class=lane x="{at - 6}" y="8" width="{WIDTH - 14}" height="{high - 12}" rx="5"/>'
        f'<text x="{at}" y="26">{escape(name)}</text>'
    ]
    for event in trace:
        if event.when < ROWS:
            style = "sync" if kind_of(event.op) else "touch"
            said.append(
                f'<text class={style} x="{at + 12}" y="{drawing.y(event) + 4}">'
                f"{escape(event.name)}{_numbers(event)}</text>"
            )
    return "".join(said)


def _numbers(event: Event) -> str:
    """The slot and phase that an event is about."""
    if event.waited is not None:
        return f"[{event.waited[0].slot}] phase {event.waited[1]}"
    told = [word.slot for word, *_ in event.told()]
    return f"[{told[0]}]" if told else ""


def _chain(x: Explained, drawing: Drawing, site: Site) -> str:
    from tkc.analysis.certificates import trail
    from tkc.analysis.known import Broken

    if x.certificate is None or not site.orders:
        return ""
    paths = ""
    for number in site.orders:
        order = x.certificate.orders[number]
        for forward in (True, False):
            try:
                events = trail(order, forward, x.kernel, drawing.traces)
            except Broken:
                events = []
            paths += drawing.path(events, not forward)
    return f'<g class=chain data-site="{escape(x.name)}.{escape(site.id)}">{paths}</g>'

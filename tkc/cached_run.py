"""A compilation whose result may be there from an earlier one: nothing of the compiler is loaded where it is.

There are two kinds of entries. What passes make has the IR text before them as its key, with the pipeline, the target
and the compiler's version. What the front end makes has the source as its key, and is a digest of that IR text, so that
neither the front end nor xDSL is needed to find the result; a program that imports others is read anew each time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tkc import cache
from tkc.diagnostics import Diagnostic, Location, Note, Severity, listening
from tkc.job import Compiled, Job

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_IMPORTS = re.compile(r"^\s*from\b", re.MULTILINE)


def run_cached(job: Job) -> Compiled:
    """What `driver.run` makes of a job that nobody watches."""
    from tkc import driver

    if cache.folder() is None or job.verify_each:
        return driver.run(job)
    source = _source_key(job)
    if source is not None and (known := cache.get(source)) is not None:
        front: dict[str, Any] = json.loads(known)
        found = cache.get(front["ir"])
        if found is not None:
            return _restored(job, found, [_diagnostic(d) for d in front["diagnostics"]])
    with listening() as heard:
        module = driver.front(job)
    ir = _ir_key(job, module)
    found = cache.get(ir)
    if found is None:
        compiled = driver.run(job, module=module)
        cache.put(ir, _stored(compiled))
        compiled = replace(compiled, diagnostics=(*heard, *compiled.diagnostics))
    else:
        compiled = _restored(job, found, heard)
    if source is not None:
        front = {"ir": ir, "diagnostics": [_diagnostic_json(d) for d in heard]}
        cache.put(source, json.dumps(front).encode())
    return compiled


def _source_key(job: Job) -> str | None:
    """The key of a source; None where the source is not all that the program is made of."""
    if _IMPORTS.search(job.text):
        return None
    params = json.dumps(dict(job.params), sort_keys=True)
    return cache.key("source", job.text, job.file, job.kernel or "", params, *_how(job))


def _ir_key(job: Job, module: ModuleOp) -> str:
    from tkc.dump import ir_text

    return cache.key("ir", ir_text(module), *_how(job))


def _how(job: Job) -> tuple[str, ...]:
    without = ",".join(job.without)
    return cache.version(), job.target, job.pipeline, without, job.fences, job.model


def _stored(compiled: Compiled) -> bytes:
    said = [_diagnostic_json(d) for d in compiled.diagnostics]
    made = {"ptx": compiled.ptx, "contract": compiled.contract, "diagnostics": said}
    return json.dumps(made).encode()


def _restored(job: Job, data: bytes, before: Sequence[Diagnostic]) -> Compiled:
    """What an entry holds; its module is made anew where somebody asks for it."""
    from tkc.driver import to_module

    made: dict[str, Any] = json.loads(data)
    said = (*before, *(_diagnostic(d) for d in made["diagnostics"]))
    return Compiled(
        job,
        None,
        made["ptx"],
        made["contract"],
        lambda name: to_module(job, after=name),
        said,
    )


def _diagnostic_json(d: Diagnostic) -> list[Any]:
    notes = [[n.message, _place_json(n.location)] for n in d.notes]
    return [d.code, d.message, _place_json(d.location), str(d.severity), notes, d.help]


def _place_json(place: Location | None) -> list[Any] | None:
    return [place.file, place.line, place.column, place.end_column] if place else None


def _diagnostic(made: Sequence[Any]) -> Diagnostic:
    code, message, place, severity, notes, help = made
    return Diagnostic(
        code,
        message,
        _place(place),
        Severity(severity),
        tuple(Note(text, _place(at)) for text, at in notes),
        help=help,
    )


def _place(made: Sequence[Any] | None) -> Location | None:
    return Location(*made) if made else None

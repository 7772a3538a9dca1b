"""Random role programs with fences, waits and barriers of threads of every form, wherever they may stand.

`crowded` of `test_eliminate.py` puts in what people write; here are conditional rings with relaxed arrivals in one of
their branches, named barriers of several roles, items that go back by way of another CTA, fences by some lanes, of any
space and scope. A program need not be in order: what it had wrong is not counted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from oracles.generate import conditional, generate
from oracles.roles import For, Op, Program, parse

FENCES = (
    *("fence", "fence", "fence one", "fence lane", "fence any", "fence any one", "fence shared::cluster"),
    *("fence_release", "fence_release one", "fence_release read", "fence_release read lane"),
    *("fence_acquire", "fence_acquire all", "fence_acquire lane"),
    *("thread_fence", "thread_fence one", "thread_fence cluster", "thread_fence gpu"),
    *("warp_sync", "warp_sync", "sync 0"),
)  # fmt: skip
TENSOR = ("before", "after", "before one", "after one", "before lane")
TIED = ("wait_ld", "wgmma_commit", "else")
"""What nothing may come before."""
SCOPES = ("", " cluster", " gpu")


def wild(seed: int) -> tuple[Program, str]:
    rng = random.Random(seed)
    kind = rng.random()
    if kind < 0.15:
        return around(rng), "sm_100a"
    if kind < 0.55:
        program, target = conditional(seed)
    else:
        program, target = generate(seed, faults=rng.choice([0, 0, 0, 1]))
    if program.ctas() == 1 and rng.random() < 0.4:
        program = with_meetings(rng, program)
    return parse("\n".join(crowded_lines(rng, program, target))), target


def crowded_lines(rng: random.Random, program: Program, target: str) -> Iterator[str]:
    """The program's lines with others between them."""
    menu = FENCES + TENSOR * (target == "sm_100a")
    density, relaxed, wider = (
        rng.choice([0.1, 0.25, 0.5]),
        rng.choice([0, 0.1, 0.4]),
        rng.choice([0, 0.2]),
    )
    roles = False
    for line in str(program).splitlines():
        word, indent = line.split()[0], line[: len(line) - len(line.lstrip())]
        if not roles or word == "role":
            roles |= word == "role"
            yield line
            continue
        while word not in TIED and rng.random() < density:
            yield indent + rng.choice(menu)
        if word in ("wait", "arrive"):
            if "cluster" not in line and rng.random() < wider:
                line += rng.choice(SCOPES)
            beside = ordering(rng, "before" if word == "arrive" else "after", target)
            if rng.random() < relaxed:
                said = [line + " relaxed"]
                said = [*beside, *said] if word == "arrive" else [*said, *beside]
                yield from (indent + one.strip() for one in said)
                continue
        yield line
        if word in ("wait", "bulk_wait", "sync", "warp_sync") and rng.random() < 0.15:
            yield line  # once more, for nothing


def ordering(rng: random.Random, side: str, target: str) -> list[str]:
    """What may order for an arrival or a wait that is relaxed."""
    found = [
        "thread_fence",
        "thread_fence cluster",
        "warp_sync",
        "fence",
        *[side] * (target == "sm_100a"),
    ]
    return [one for one in found if rng.random() < 0.35]


def with_meetings(rng: random.Random, program: Program) -> Program:
    """Named barriers of several roles, in as many loops of each."""
    for number in range(1, rng.choice([2, 3])):
        depth, met = rng.choice([0, 1, 1, 2]), [r for r in program.roles if rng.random() < 0.8]
        for role in met if len(met) > 1 else ():
            body = role.body
            for _ in range(depth):
                body = next((s.body for s in body if isinstance(s, For)), body)
            body.insert(rng.randrange(len(body) + 1), Op("sync", number=number))
    return parse(str(program))


def around(rng: random.Random) -> Program:
    """A ring in one CTA whose items go back by way of the other."""
    depth, filled, drained = (
        rng.choice([1, 2, 2]),
        rng.choice(["tma", "st"]),
        rng.choice(["ld", "mma", "store"]),
    )
    lanes = "all" if drained == "ld" and rng.random() < 0.5 else "one"

    def wide() -> str:
        return rng.choice([" cluster", " cluster", *SCOPES])

    def told(line: str, put: Callable[[str, list[str]], list[str]]) -> list[str]:
        kind = rng.random()
        if kind < 0.15:
            return [line + " relaxed"]
        return (
            put(line + " relaxed", [f"thread_fence{rng.choice(SCOPES)}"]) if kind < 0.35 else [line]
        )

    def arrives(line: str) -> list[str]:
        return told(line, lambda one, fence: [*fence, one])

    def waits(line: str) -> list[str]:
        return told(line, lambda one, fence: [one, *fence])

    by = "one" if filled == "tma" else "all"
    fill = (
        ["expect f[i] 1", "tma a[i] f[i]"]
        if filled == "tma"
        else ["st a[i]", "fence", "arrive f[i] all"]
    )
    drain = {
        "ld": ["ld a[i]", *["fence"] * rng.choice([0, 1, 1]), *["warp_sync"] * (lanes == "one")],
        "mma": ["mma d[0] a[i]", "commit e[i]"],
        "store": ["store a[i]", "bulk_commit", "bulk_wait 0 read"],
    }[drained]
    if drained != "mma":
        drain += arrives(f"arrive e[i] {lanes}{wide()}")
    bodies = {
        "load 1 @1": [*waits(f"wait g[i] {by} lag{wide()}"), *fill],
        "use 1 @1": [f"wait f[i] {'all' if drained == 'ld' else 'one'}", *drain],
        "relay 1": [*waits(f"wait e[i] one{wide()}"), *arrives(f"arrive g[i] one{wide()}")],
    }
    lines = ["buffer d tensor 1 @1", f"buffer a shared {depth} @1", f"barrier g {depth} 1 @1"]
    lines.append(f"barrier f {depth} {1 if filled == 'tma' else 32} @1")
    lines.append(f"barrier e {depth} {32 if lanes == 'all' else 1}")
    for role, body in bodies.items():
        lines += [f"role {role}", "  for K", *("    " + line for line in (*body, "step i"))]
    return parse("\n".join(lines))

"""The words of the memory model: spaces, proxies, scopes, completions, and which fence joins which pair.

Imports the standard library only. Source: PTX ISA 9.4, memory consistency model (8.x) and the sections that each row
names.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Space(StrEnum):
    """State spaces. GENERIC is any of global, shared and local: a modifier or the address decides. MAP is a CTA's own
    tensor maps in global memory."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    TENSOR = "tensor"
    BARRIER = "barrier"
    PARAM = "param"
    MAP = "map"
    REGISTER = "register"


class Proxy(StrEnum):
    """The method of access (PTX 8.6). TENSOR stands for tensor memory, which has its own ordering rules (9.7.18.6)."""

    GENERIC = "generic"
    ASYNC = "async"
    TENSORMAP = "tensormap"
    TENSOR = "tensor"


class Scope(StrEnum):
    CTA = "cta"
    CLUSTER = "cluster"
    GPU = "gpu"
    SYS = "sys"


class Sem(StrEnum):
    WEAK = "weak"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"


class Done(StrEnum):
    """The event after which an access has happened and may be relied on."""

    NOW = "now"
    MBARRIER_TX = "mbarrier_tx"
    BULK_GROUP = "bulk_group"
    BULK_GROUP_READ = "bulk_group_read"
    WGMMA_GROUP = "wgmma_group"
    TCGEN05_COMMIT = "tcgen05_commit"
    TCGEN05_WAIT = "tcgen05_wait"
    CP_ASYNC_GROUP = "cp_async_group"


class Kind(StrEnum):
    READ = "read"
    WRITE = "write"


class Touch(NamedTuple):
    """The operand named `operand` is read or written in `space`, through `proxy`, and that is done at `done`.

    `at` names the operand that numbers the CTA whose memory it is, where that may be another one of the cluster.
    """

    kind: Kind
    operand: str
    space: Space
    proxy: Proxy = Proxy.GENERIC
    done: Done = Done.NOW
    at: str = ""


class Signal(NamedTuple):
    """Completion arrives on `barrier`: `arrivals` arrivals, and the bytes of operand `bytes_of` where it is named."""

    barrier: str
    arrivals: int = 0
    bytes_of: str | None = None
    sem: Sem = Sem.RELEASE
    scope: Scope = Scope.CTA


class Await(NamedTuple):
    """The instruction waits: on the barrier operand `on`, or (empty `on`) for a group kind of its own thread."""

    on: str = ""
    done: Done = Done.NOW


class Order(NamedTuple):
    """A fence: accesses of `first` before it are ordered to accesses of `then` after it, in `space`."""

    first: Proxy
    then: Proxy
    space: Space | None = None
    scope: Scope = Scope.CTA


class Close(NamedTuple):
    """Closes the thread's group of asynchronous operations of this kind (commit_group)."""

    done: Done


class Meet(NamedTuple):
    """Threads meet here: the lanes of a `warp`, all of the `role`, of the `cluster`, those of a `named` barrier; or
    the `grid` waits for the grids before it."""

    among: str


Effect = Touch | Signal | Await | Order | Close | Meet
"""What one instruction or operation does to memory, one row a fact."""

"""The one way a pass applies patterns: in place; every new operation keeps the location of the one it came from.

Nothing is deleted that a pattern does not delete: xDSL's greedy driver would erase reads whose results are unused, a
wait among them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)


@dataclass(eq=False, repr=False)
class _KeepLocation(RewritePattern):
    """Gives what a pattern inserts the location of the operation that it matched."""

    inner: RewritePattern

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        location = op.location

        def inherit(new: Operation) -> None:
            for inner in new.walk():
                if isinstance(inner.location, UnknownLoc):
                    inner.location = location

        rewriter.operation_insertion_handler.append(inherit)
        try:
            self.inner.match_and_rewrite(op, rewriter)
        finally:
            rewriter.operation_insertion_handler.remove(inherit)


def rewrite(module: ModuleOp, *patterns: RewritePattern, to_fixpoint: bool = False) -> bool:
    """Applies the first pattern that matches to each operation; says whether anything changed.

    With `to_fixpoint`, what patterns make is looked at again, until none matches: a pattern that always rewrites its
    own result never ends.
    """
    greedy = GreedyRewritePatternApplier(list(patterns), dce_enabled=False)
    walker = PatternRewriteWalker(_KeepLocation(greedy), apply_recursively=to_fixpoint)
    return walker.rewrite_module(module)

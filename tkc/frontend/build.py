"""Makes the syntax tree: one method for each rule of the grammar, called as the parser reduces it."""

from __future__ import annotations

from typing import Any

import tkc.frontend.explicit_syntax as E
import tkc.frontend.syntax as S
from tkc.frontend.automaton import Token
from tkc.frontend.syntax import Span, Word

HUGE = 10**30
"""Stands for an integer of more digits; every use of one is out of range long before."""


def span_of(token: Token) -> Span:
    return Span(token.line or 0, token.column or 0, token.end_line or 0, token.end_column or 0)


def word(token: Token) -> Word:
    return Word(str(token), span_of(token))


def over(first: Span, last: Span) -> Span:
    return Span(first[0], first[1], last[2], last[3])


def _from(token: Token, last: Span) -> Span:
    return Span(token.line or 0, token.column or 0, last[2], last[3])


def _declare(c: list[Any]) -> S.Declare:
    within = c[3]
    return S.Declare(str(c[0]), c[1], c[2], within, _from(c[0], (within or c[2]).span))


class Builder:
    """Methods take the rule's children: tokens that carry a value or a place, and what the inner rules made."""

    def start(self, c: list[Any]) -> S.File:
        kinds = (S.Kernel, S.Define, S.Import)
        return S.File(*(tuple(x for x in c if isinstance(x, kind)) for kind in kinds))

    def define(self, c: list[Any]) -> S.Define:
        return S.Define(word(c[1]), c[2] or (), c[3], _from(c[0], span_of(c[1])))

    def give(self, c: list[Any]) -> S.Return:
        return S.Return(c[1], _from(c[0], c[1].span))

    def assertion(self, c: list[Any]) -> S.Assertion:
        condition, told = c[1:]
        text = "" if told is None else str(told)[1:-1]
        last = condition.span if told is None else span_of(told)
        return S.Assertion(condition, text, _from(c[0], last))

    def kernel(self, c: list[Any]) -> S.Kernel:
        return S.Kernel(word(c[1]), c[2] or (), c[3], _from(c[0], span_of(c[1])))

    def parameter(self, c: list[Any]) -> S.Parameter:
        return S.Parameter(word(c[0]), word(c[1]) if c[1] else None, c[2])

    parameters = block = references = arguments = staticmethod(tuple)

    def _import(self, c: list[Any]) -> S.Import:
        return S.Import(word(c[1]), c[3], _from(c[0], c[3][-1].span))

    # declarations

    def param(self, c: list[Any]) -> S.Param:
        return S.Param(tuple(c[1:]), _from(c[0], c[-1].value.span))

    def binding(self, c: list[Any]) -> S.Binding:
        return S.Binding(word(c[0]), c[1])

    def launch(self, c: list[Any]) -> S.Launch:
        return S.Launch(tuple(c[1:]), _from(c[0], c[-1].span))

    def schedule(self, c: list[Any]) -> S.Schedule:
        keyword, name, given, axes, value, where = c
        return S.Schedule(
            word(name), given or (), axes, value, where, _from(keyword, (where or value).span)
        )

    def names(self, c: list[Any]) -> tuple[Word, ...]:
        return tuple(word(t) for t in c)

    shared = accum = staticmethod(_declare)

    def pipe(self, c: list[Any]) -> S.Pipe:
        keyword, name, tiles, producers, consumers, turns = c
        last = turns[1] if turns else consumers[-1]
        return S.Pipe(name, tiles or (), producers, consumers, turns, _from(keyword, last.span))

    def turns(self, c: list[Any]) -> tuple[Word, Word]:
        return word(c[0]), word(c[1])

    def maps(self, c: list[Any]) -> S.Maps:
        return S.Maps(c[1], c[2], _from(c[0], c[2].span))

    def reference(self, c: list[Any]) -> S.Reference:
        name, index = c
        span = span_of(name) if index is None else _from(name, index.span)
        return S.Reference(word(name), index, span)

    def role(self, c: list[Any]) -> S.Role:
        keyword, name, copies, *settings, body = c
        last = settings[-1].value.span if settings else span_of(name)
        return S.Role(word(name), copies, tuple(settings), body, _from(keyword, last))

    def copies(self, c: list[Any]) -> S.Copies:
        return S.Copies(word(c[0]), tuple(c[1:]))

    def setting(self, c: list[Any]) -> S.Setting:
        return S.Setting(word(c[0]), c[1])

    # statements

    def loop(self, c: list[Any]) -> S.For:
        keyword, variables, *arguments, body = c
        return S.For(variables, tuple(arguments), body, _from(keyword, arguments[-1].value.span))

    def direction(self, c: list[Any]) -> Token:
        return c[0]

    def transfer(self, c: list[Any]) -> S.Transfer:
        items: list[S.Item] = []
        direction = c[0]
        for part in c[1:-1]:
            if isinstance(part, S.Item):
                first = part.span if items else span_of(direction)
                items.append(part._replace(direction=str(direction), span=over(first, part.span)))
            elif part is not None:
                direction = part
        return S.Transfer(tuple(items), c[-1], over(items[0].span, items[-1].span))

    def item(self, c: list[Any]) -> S.Item:
        pipe, alias = c
        span = pipe.span if alias is None else over(pipe.span, span_of(alias))
        return S.Item("", pipe, word(alias) if alias is not None else None, span)

    def branch(self, c: list[Any]) -> S.Branch:
        keyword, *parts, otherwise = c
        arms = tuple(zip(parts[::2], parts[1::2], strict=True))
        return S.Branch(arms, otherwise, span_of(keyword))

    def copy(self, c: list[Any]) -> S.Copy:
        return S.Copy(c[0], c[1], tuple(c[2:]), over(c[0].span, c[-1].span))

    def assign(self, c: list[Any]) -> S.Assign:
        return S.Assign(c[0], c[1], over(c[0].span, c[1].span))

    def update(self, c: list[Any]) -> S.Update:
        return S.Update(c[0], str(c[1]), c[2], over(c[0].span, c[2].span))

    def evaluate(self, c: list[Any]) -> S.Evaluate:
        return S.Evaluate(c[0], c[0].span)

    # explicit synchronisation

    def barrier(self, c: list[Any]) -> E.Barrier:
        keyword, name, depth, *options = c
        last = options[-1].value.span if options else depth.span if depth else span_of(name)
        return E.Barrier(word(name), depth, tuple(options), _from(keyword, last))

    def command(self, c: list[Any]) -> E.Command | S.Words:
        first, subject, *options = c
        last = options[-1].value.span if options else subject.span
        return E.command(word(first), subject, tuple(options), _from(first, last))

    def plain(self, c: list[Any]) -> E.Subject:
        what, where = c
        return E.Subject("", what, where, (), (where or what).span)

    def compared(self, c: list[Any]) -> E.Subject:
        return E.Subject(str(c[1]), c[0], c[2], (), over(c[0].span, c[2].span))

    updated = compared

    def copied(self, c: list[Any]) -> E.Subject:
        return E.Subject("<-", c[0], c[1], (), over(c[0].span, c[1].span))

    def phrase(self, c: list[Any]) -> E.Subject:
        return E.Subject("", None, None, tuple(map(word, c)), _from(c[0], span_of(c[-1])))

    def reckoned(self, c: list[Any]) -> E.Subject:
        return E.Subject("", None, c[0], (), c[0].span)

    def elect(self, c: list[Any]) -> E.Elect:
        keyword, scope, body = c
        last = span_of(keyword if scope is None else scope)
        return E.Elect(word(scope) if scope is not None else None, body, _from(keyword, last))

    def repeat(self, c: list[Any]) -> E.While:
        return E.While(c[1], c[2], _from(c[0], c[1].span))

    # expressions

    def name(self, c: list[Any]) -> S.Name:
        return S.Name(str(c[0]), span_of(c[0]))

    def integer(self, c: list[Any]) -> S.Integer:
        digits = c[0].replace("_", "")
        value = HUGE if len(digits) > 20 else int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
        return S.Integer(value, span_of(c[0]))

    def real(self, c: list[Any]) -> S.Real:
        return S.Real(float(c[0].replace("_", "")), span_of(c[0]))

    def text(self, c: list[Any]) -> S.Text:
        return S.Text(str(c[0])[1:-1], span_of(c[0]))

    def group(self, c: list[Any]) -> Any:
        return c[1]._replace(span=over(span_of(c[0]), span_of(c[2])))

    def unary(self, c: list[Any]) -> S.Unary:
        return S.Unary(str(c[0]), c[1], _from(c[0], c[1].span))

    def binary(self, c: list[Any]) -> S.Binary:
        return S.Binary(str(c[1]), c[0], c[2], over(c[0].span, c[2].span))

    def choice(self, c: list[Any]) -> S.Choice:
        return S.Choice(c[0], c[1], c[2], over(c[0].span, c[2].span))

    def call(self, c: list[Any]) -> S.Call:
        return S.Call(c[0], c[1] or (), over(c[0].span, span_of(c[2])))

    def index(self, c: list[Any]) -> S.Index:
        return S.Index(c[0], c[1] or (), over(c[0].span, span_of(c[2])))

    def attribute(self, c: list[Any]) -> S.Attribute:
        return S.Attribute(c[0], word(c[1]), over(c[0].span, span_of(c[1])))

    def argument(self, c: list[Any]) -> S.Argument:
        return S.Argument(word(c[0]) if c[0] is not None else None, c[1])


setattr(Builder, "import", Builder._import)

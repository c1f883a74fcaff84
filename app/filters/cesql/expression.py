"""An expression, compiled once, as filters, tests and explanations use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from app.event.value import CloudEvent
from app.filters.cesql.compiler import Evaluator, boolean, compiled
from app.filters.cesql.nodes import Call, ExpressionNode, children
from app.filters.cesql.parser import parse
from app.filters.cesql.static_type import function_of, returns
from app.filters.cesql.values import CASTS, ZERO, ErrorKind, Failure, Type, Value


class Error(NamedTuple):
    kind: ErrorKind
    message: str


class Result(NamedTuple):
    """What an evaluation gives (CESQL 3.3). It fails fast: there is one error, or none."""

    value: Value
    errors: tuple[Error, ...] = ()


Failed = Callable[[CloudEvent, str, Failure], None]
"""Is told of an expression that failed: the event, the text of the expression, and why."""


def ignore(_event: CloudEvent, _expression: str, _failure: Failure) -> None:
    """Do nothing with an expression that failed."""


class Expression:
    """``text`` as written; ``root`` the tree. Raises ParseError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = parse(text)
        self.matches = self.predicate(ignore)
        self._evaluate = compiled(self.root)

    def predicate(self, failed: Failed) -> Evaluator[bool]:
        """True only for Boolean true without an error (CESQL 1.2): nothing is cast. ``failed``: is told of each
        evaluation that ends with an error."""
        evaluate = boolean(self.root) if returns(self.root) is bool else compiled(self.root)

        def matches(event: CloudEvent) -> bool:
            try:
                return evaluate(event) is True
            except Failure as failure:
                failed(event, self.text, failure)
                return False

        return matches

    def evaluate(self, event: CloudEvent) -> Result:
        """Never raises."""
        return _evaluated(self.root, self._evaluate, event)


def evaluated(node: ExpressionNode, event: CloudEvent) -> Result:
    """A tree, or a part of one, that is evaluated once."""
    return _evaluated(node, compiled(node), event)


def _evaluated(node: ExpressionNode, evaluate: Evaluator[Value], event: CloudEvent) -> Result:
    try:
        return Result(evaluate(event))
    except Failure as failure:
        error = Error(failure.kind, failure.message)
        stated = failure.value
        own = stated is not None and _is_own(node, event)
        return Result(stated if own and stated is not None else _zero(node), (error,))


def _zero(node: ExpressionNode) -> Value:
    """Of the type of the expression, Boolean where it cannot be told (CESQL 3.2)."""
    return ZERO[returns(node) or bool]


def _is_own(node: ExpressionNode, event: CloudEvent) -> bool:
    """Whether a call failed by itself and not by an argument: then what it states is the value."""
    function = function_of(node) if isinstance(node, Call) else None
    if function is None:
        return False
    types: list[Type | None] = function.types(len(children(node)))
    try:
        for argument, target in zip(children(node), types, strict=True):
            value = compiled(argument)(event)
            _ = CASTS[target](value) if target else value
    except Failure:
        return False
    return True

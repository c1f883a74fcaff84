"""An SQL expression, compiled once, for filters, tests and explanations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from app.event.value import CloudEvent
from app.filters.cesql.compiler import Evaluator, compile_boolean, compile_node
from app.filters.cesql.nodes import Call, ExpressionNode, children
from app.filters.cesql.parser import parse
from app.filters.cesql.static_type import function_of, result_type
from app.filters.cesql.values import CASTS, ZERO, ErrorKind, Failure, Type, Value


class Error(NamedTuple):
    """An evaluation error: its kind in CESQL, and a message."""

    kind: ErrorKind
    message: str


class Result(NamedTuple):
    """The value and the errors of an evaluation (CESQL 3.3). Evaluation stops at the first error, so there is
    at most one."""

    value: Value
    errors: tuple[Error, ...] = ()


Failed = Callable[[CloudEvent, str, Failure], None]
"""A function that is called for each failed expression. Its arguments are the event, the expression's text,
and the failure."""


def ignore(_event: CloudEvent, _expression: str, _failure: Failure) -> None:
    """Ignore the failure of an expression."""


class Expression:
    """A compiled SQL expression. The constructor raises ParseError.

    Attributes:
        text: The expression as written.
        root: The expression as a tree.
        matches: A function that returns True if an event matches.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = parse(text)
        self.matches = self.predicate(ignore)
        self._evaluate = compile_node(self.root)

    def predicate(self, failed: Failed) -> Evaluator[bool]:
        """Return a predicate that is true only for Boolean true without an error (CESQL 1.2). Other values are
        not cast.

        Args:
            failed: Called for each evaluation that ends with an error.
        """
        evaluate = (
            compile_boolean(self.root)
            if result_type(self.root) is bool
            else compile_node(self.root)
        )

        def matches(event: CloudEvent) -> bool:
            try:
                return evaluate(event) is True
            except Failure as failure:
                failed(event, self.text, failure)
                return False

        return matches

    def evaluate(self, event: CloudEvent) -> Result:
        """Return value and errors for an event. It never raises."""
        return _evaluated(self.root, self._evaluate, event)


def evaluated(node: ExpressionNode, event: CloudEvent) -> Result:
    """Return the result of an expression tree, or of a part of it, for one event. The tree is compiled
    first."""
    return _evaluated(node, compile_node(node), event)


def _evaluated(node: ExpressionNode, evaluate: Evaluator[Value], event: CloudEvent) -> Result:
    try:
        return Result(evaluate(event))
    except Failure as failure:
        error = Error(failure.kind, failure.message)
        fallback = failure.value
        own = fallback is not None and _is_own(node, event)
        return Result(fallback if own and fallback is not None else _zero(node), (error,))


def _zero(node: ExpressionNode) -> Value:
    """Return the zero value of the expression's type, or of Boolean if the type is unknown (CESQL 3.2)."""
    return ZERO[result_type(node) or bool]


def _is_own(node: ExpressionNode, event: CloudEvent) -> bool:
    """Return True if a function call itself failed, and not one of its arguments. The result is then the
    value that the function defines for this error.
    """
    function = function_of(node) if isinstance(node, Call) else None
    if function is None:
        return False
    types: list[Type | None] = function.types(len(children(node)))
    try:
        for argument, target in zip(children(node), types, strict=True):
            value = compile_node(argument)(event)
            _ = CASTS[target](value) if target else value
    except Failure:
        return False
    return True

"""Print a tree as text in one canonical form. If this text is parsed, the result is the same tree."""

from __future__ import annotations

from decimal import Decimal

from app.filters.cesql import nodes
from app.filters.cesql.tokens import ParseError, tokens
from app.filters.cesql.values import Value, to_text


def node_text(node: nodes.ExpressionNode) -> str:
    """Return the text of an expression tree."""
    match node:
        case nodes.Constant():
            return _constant(node.value)
        case nodes.Attribute():
            return node.name
        case nodes.Exists():
            return f"EXISTS {node.name}"
        case nodes.Not():
            return f"NOT {_inner(node.operand)}"
        case nodes.Negate():
            return f"- {_inner(node.operand)}"  # a space, because a number would take the sign as its own
        case nodes.Call():
            return f"{node.name}({_listed(node.arguments)})"
        case nodes.Data():
            return f"{'HAS_DATA' if node.existence else 'DATA'}({_quoted(node.pointer)})"
    return _operation(node)


def _operation(node: nodes.ExpressionNode) -> str:
    match node:
        case nodes.Like():
            return f"{_sought(node.operand)}{_not(node.negated)} LIKE {_quoted(node.pattern)}"
        case nodes.In():
            return f"{_sought(node.operand)}{_not(node.negated)} IN ({_listed(node.elements)})"
        case nodes.Binary():
            return f"{_inner(node.left)} {node.operator} {_inner(node.right)}"
        case nodes.Logic():
            first, *rest = (
                _bracketed(each) if isinstance(each, nodes.Logic) else node_text(each)
                for each in node.operands
            )
            pairs = zip(node.operators, rest, strict=True)
            return " ".join([first, *(f"{operator} {each}" for operator, each in pairs)])
    raise AssertionError(node)


def _not(negated: bool) -> str:
    return " NOT" if negated else ""


def _listed(elements: tuple[nodes.ExpressionNode, ...]) -> str:
    return ", ".join(map(node_text, elements))


def _inner(node: nodes.ExpressionNode) -> str:
    """Return the text of an operand, in brackets if its precedence might be unclear."""
    return (
        _bracketed(node)
        if isinstance(node, nodes.Binary | nodes.Logic | nodes.Like | nodes.In)
        else node_text(node)
    )


def _sought(node: nodes.ExpressionNode) -> str:
    """Return the text of the operand of LIKE or IN, in brackets if it begins with NOT or a minus sign."""
    return _bracketed(node) if isinstance(node, nodes.Not | nodes.Negate) else _inner(node)


def _bracketed(node: nodes.ExpressionNode) -> str:
    return f"({node_text(node)})"


def _constant(value: Value) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return _decimal(value) if isinstance(value, Decimal) else to_text(value).upper()


def _decimal(value: Decimal) -> str:
    """Return the literal of a decimal, which always has a point."""
    number, e, exponent = str(value).partition("E")
    return f"{number}{'' if '.' in number else '.0'}{e}{exponent}"


def _quoted(text: str) -> str:
    """Return the text as a literal. The quotes are chosen so that the literal can hold the text. For any
    parsed text, single or double quotes fit."""
    single = "'" + text.replace("'", "\\'") + "'"
    double = '"' + text.replace('"', '\\"') + '"'
    return single if _read(single) == text else double


def _read(quoted: str) -> str | None:
    """Return the text of a literal, or None if these quotes cannot hold it."""
    try:
        found, *rest = tokens(quoted)
    except ParseError:
        return None
    return found.text if len(rest) == 1 else None

"""The nodes of an expression tree. Trees with the same meaning are equal, even if their positions in the text
differ."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.filters.cesql.values import Value


@dataclass(frozen=True, slots=True)
class ExpressionNode:
    """A node of an expression tree.

    Attributes:
        at: The character of the text where the node begins, counted from 0.
        depth: The number of levels of the tree below and including this node.
    """

    at: int = field(default=0, compare=False, kw_only=True)
    depth: int = field(default=1, compare=False, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", 1 + max((n.depth for n in children(self)), default=0))


@dataclass(frozen=True, slots=True)
class Constant(ExpressionNode):
    """A literal value."""

    value: Value

    def __eq__(self, other: object) -> bool:
        """Return True if type and value are equal. Unlike in Python, true does not equal 1."""
        if not isinstance(other, Constant):
            return NotImplemented
        return (self.value.__class__, self.value) == (other.value.__class__, other.value)

    def __hash__(self) -> int:
        return hash((self.value.__class__, self.value))


@dataclass(frozen=True, slots=True)
class Attribute(ExpressionNode):
    """The value of an attribute of the event."""

    name: str


@dataclass(frozen=True, slots=True)
class Exists(ExpressionNode):
    """The test ``EXISTS name``: true if the event has the attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Not(ExpressionNode):
    """The negation of a Boolean."""

    operand: ExpressionNode


@dataclass(frozen=True, slots=True)
class Negate(ExpressionNode):
    """The negation of a number."""

    operand: ExpressionNode


@dataclass(frozen=True, slots=True)
class Like(ExpressionNode):
    """The match ``operand LIKE pattern``, or ``NOT LIKE`` if negated."""

    operand: ExpressionNode
    pattern: str
    negated: bool


@dataclass(frozen=True, slots=True)
class In(ExpressionNode):
    """The membership ``operand IN (elements)``, or ``NOT IN`` if negated."""

    operand: ExpressionNode
    elements: tuple[ExpressionNode, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Binary(ExpressionNode):
    """Arithmetic or a comparison. ``<>`` is stored as ``!=``."""

    operator: str
    left: ExpressionNode
    right: ExpressionNode


@dataclass(frozen=True, slots=True)
class Logic(ExpressionNode):
    """A chain such as ``a AND b OR c``. The operators have equal precedence, from left to right (CESQL 3.6).

    There is one operator between each two operands.
    """

    operands: tuple[ExpressionNode, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call(ExpressionNode):
    """A function call. The name is in capitals."""

    name: str
    arguments: tuple[ExpressionNode, ...]


@dataclass(frozen=True, slots=True)
class Data(ExpressionNode):
    """The extension ``DATA('/a/b')``, or ``HAS_DATA('/a/b')`` if only existence is tested."""

    pointer: str
    existence: bool


def children(node: ExpressionNode) -> tuple[ExpressionNode, ...]:
    """Return the direct operands of a node."""
    match node:
        case Not() | Negate() | Like():
            return (node.operand,)
        case In():
            return (node.operand, *node.elements)
        case Binary():
            return (node.left, node.right)
        case Logic():
            return node.operands
        case Call():
            return node.arguments
    return ()

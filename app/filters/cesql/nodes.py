"""An expression as a tree. Equal trees mean the same; where they stand in the text does not count."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.filters.cesql.values import Value


@dataclass(frozen=True, slots=True)
class ExpressionNode:
    """``at``     where it begins in the text, counted from 0.
    ``depth``  how many nodes are above each other.
    """

    at: int = field(default=0, compare=False, kw_only=True)
    depth: int = field(default=1, compare=False, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", 1 + max((n.depth for n in children(self)), default=0))


@dataclass(frozen=True, slots=True)
class Constant(ExpressionNode):
    value: Value

    def __eq__(self, other: object) -> bool:
        """Unlike in Python, true is not 1."""
        if not isinstance(other, Constant):
            return NotImplemented
        return (self.value.__class__, self.value) == (other.value.__class__, other.value)

    def __hash__(self) -> int:
        return hash((self.value.__class__, self.value))


@dataclass(frozen=True, slots=True)
class Attribute(ExpressionNode):
    name: str


@dataclass(frozen=True, slots=True)
class Exists(ExpressionNode):
    name: str


@dataclass(frozen=True, slots=True)
class Not(ExpressionNode):
    operand: ExpressionNode


@dataclass(frozen=True, slots=True)
class Negate(ExpressionNode):
    operand: ExpressionNode


@dataclass(frozen=True, slots=True)
class Like(ExpressionNode):
    operand: ExpressionNode
    pattern: str
    negated: bool


@dataclass(frozen=True, slots=True)
class In(ExpressionNode):
    operand: ExpressionNode
    elements: tuple[ExpressionNode, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Binary(ExpressionNode):
    """Arithmetic and comparison; ``<>`` is ``!=``."""

    operator: str
    left: ExpressionNode
    right: ExpressionNode


@dataclass(frozen=True, slots=True)
class Logic(ExpressionNode):
    """``a AND b OR c``: equal in precedence, taken from left to right (CESQL 3.6). One operator stands
    between each operand and the next.
    """

    operands: tuple[ExpressionNode, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call(ExpressionNode):
    name: str  # in capitals
    arguments: tuple[ExpressionNode, ...]


@dataclass(frozen=True, slots=True)
class Data(ExpressionNode):
    """Our extension: ``DATA('/a/b')``, or ``HAS_DATA('/a/b')`` where only ``existence`` is asked."""

    pointer: str
    existence: bool


def children(node: ExpressionNode) -> tuple[ExpressionNode, ...]:
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

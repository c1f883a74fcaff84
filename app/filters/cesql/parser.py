"""Parse tokens to a tree by recursive descent: each method reads one rule of the grammar (CESQL 2).

Precedence (CESQL 3.6), tightest first: calls; ``NOT`` and ``-``; ``LIKE``, ``EXISTS``, ``IN``; ``* / %``; ``+
-``; comparisons; ``AND OR XOR``. Operators of equal precedence associate to the left.
"""

from __future__ import annotations

import re

from app.filters.cesql import nodes
from app.filters.cesql.decimals import DIGITS, EXPONENT, read
from app.filters.cesql.static_type import lone_decimal
from app.filters.cesql.tokens import ParseError, Token, TokenKind, tokens
from app.filters.cesql.values import LEAST, MOST

MAX_LENGTH = 8192  # characters
MAX_DEPTH = 48  # of nodes, and of nested brackets and signs

LOGIC = frozenset(["AND", "OR", "XOR"])
DATA = {"DATA": False, "HAS_DATA": True}

_LEVELS = {"*": 3, "/": 3, "%": 3, "+": 2, "-": 2} | dict.fromkeys(
    ("=", "!=", "<>", "<", "<=", ">", ">="), 1
)
_NUMBERS = frozenset([TokenKind.NUMBER, TokenKind.DECIMAL])
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")  # RFC 6901 3
_FUNCTION = re.compile(r"[A-Za-z][A-Za-z_]*")


def parse(text: str) -> nodes.ExpressionNode:
    """Return the tree of an expression. Raises ParseError."""
    if len(text) > MAX_LENGTH:
        cure = "Split it into several filters under all or any, or compare with IN"
        raise ParseError(MAX_LENGTH, f"longer than {MAX_LENGTH} characters", cure)
    return _Parser(tokens(text)).whole()


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._next = 0
        self._nested = 0

    def whole(self) -> nodes.ExpressionNode:
        node = self._expression()
        if self._now.kind is not TokenKind.END:
            raise self._unexpected("an operator or the end", self._cure_of_rest())
        if lone := lone_decimal(node):
            cure = "Attributes have whole numbers; data has decimals: DATA('/total') > 99.5"
            raise ParseError(lone.at, "a decimal can only be compared with data", cure)
        return node

    # expression ::= comparison (("AND" | "OR" | "XOR") comparison)*
    def _expression(self) -> nodes.ExpressionNode:
        self._deeper()
        operands, operators = [self._binary(1)], []
        while self._now.kind is TokenKind.KEYWORD and self._now.text in LOGIC:
            operators.append(self._take().text)
            operands.append(self._binary(1))
        self._nested -= 1
        if not operators:
            return operands[0]
        return self._bounded(nodes.Logic(tuple(operands), tuple(operators), at=operands[0].at))

    def _binary(self, least: int) -> nodes.ExpressionNode:
        """Parse operators of at least this level of precedence. Operators of one level associate to the
        left."""
        left = self._postfix()
        while (
            self._now.kind is TokenKind.SIGN and (level := _LEVELS.get(self._now.text, 0)) >= least
        ):
            sign = self._take().text
            right = self._binary(level + 1)
            operator = "!=" if sign == "<>" else sign
            left = self._bounded(nodes.Binary(operator, left, right, at=left.at))
        return left

    # postfix ::= unary ("NOT"? ("LIKE" string | "IN" "(" expression ("," expression)* ")"))*
    def _postfix(self) -> nodes.ExpressionNode:
        node = self._unary()
        while True:
            negated = self._is("NOT") and self._tokens[self._next + 1].text in {"LIKE", "IN"}
            if negated:
                self._take()
            if self._takes("LIKE"):
                node = nodes.Like(node, self._pattern(), negated, at=node.at)
            elif self._takes("IN"):
                node = nodes.In(node, self._set(), negated, at=node.at)
            else:
                return node
            self._bounded(node)

    def _pattern(self) -> str:
        if self._now.kind is not TokenKind.TEXT:
            cure = "The pattern is a text in quotes, not an expression: LIKE 'com.example.%'"
            raise self._unexpected("a pattern", cure)
        return self._take().text

    def _set(self) -> tuple[nodes.ExpressionNode, ...]:
        if not self._takes("("):
            raise self._unexpected("( and the values", "As in IN ('a', 'b')")
        if self._is(")"):
            raise self._unexpected("at least one value", "As in IN ('a', 'b')")
        return self._list()

    def _list(self) -> tuple[nodes.ExpressionNode, ...]:
        """Parse expressions up to the closing bracket."""
        items = [self._expression()]
        while self._takes(","):
            items.append(self._expression())
        self._close()
        return tuple(items)

    # unary ::= "NOT" unary | "-" unary | "EXISTS" identifier | primary
    def _unary(self) -> nodes.ExpressionNode:
        token = self._now
        if self._is_signed_number():
            return self._number(self._take().text, token.at)
        if self._takes("NOT"):
            return self._bounded(nodes.Not(self._operand(), at=token.at))
        if self._takes("-"):
            return self._bounded(nodes.Negate(self._operand(), at=token.at))
        if self._takes("EXISTS"):
            return nodes.Exists(self._identifier(), at=token.at)
        return self._primary()

    def _operand(self) -> nodes.ExpressionNode:
        self._deeper()
        node = self._unary()
        self._nested -= 1
        return node

    def _is_signed_number(self) -> bool:
        """Return True if a plus or minus sign directly before a number is a part of the number. This is so
        where a value begins (CESQL 2.2)."""
        sign, number = self._now, self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        is_sign = sign.kind is TokenKind.SIGN and sign.text in {"+", "-"}
        return is_sign and number.kind in _NUMBERS and number.at == sign.at + 1

    def _number(self, sign: str, at: int) -> nodes.ExpressionNode:
        if self._now.kind is TokenKind.DECIMAL:
            return self._decimal(sign, at)
        digits = self._take().text.lstrip("0") or "0"
        value = int(sign + digits) if len(digits) <= len(str(MOST)) else MOST + 1
        if not LEAST <= value <= MOST:
            cure = f"Integers go from {LEAST} to {MOST}; write it in quotes as a text"
            raise ParseError(at, f"{sign}{digits[:20]} is beyond 32 bits", cure)
        return nodes.Constant(value, at=at)

    def _decimal(self, sign: str, at: int) -> nodes.ExpressionNode:
        text = self._take().text
        value = read(sign + text)
        if value is None:
            cure = f"They have up to {DIGITS} digits, and exponents up to {EXPONENT}"
            raise ParseError(at, f"{sign}{text[:20]} is no decimal", cure)
        return nodes.Constant(value, at=at)

    def _identifier(self) -> str:
        """Parse an attribute name. After EXISTS it may be a keyword or a number."""
        token = self._now
        if (
            token.kind not in {TokenKind.NAME, TokenKind.KEYWORD, TokenKind.NUMBER}
            or "_" in token.text
        ):
            raise self._unexpected("the name of an attribute", "As in EXISTS subject")
        return self._take().text.lower()

    # primary ::= literal | identifier | call | "(" expression ")"
    def _primary(self) -> nodes.ExpressionNode:
        token = self._now
        match token.kind:
            case TokenKind.NUMBER | TokenKind.DECIMAL:
                return self._number("", token.at)
            case TokenKind.TEXT:
                return nodes.Constant(self._take().text, at=token.at)
            case TokenKind.KEYWORD if token.text in {"TRUE", "FALSE"}:
                return nodes.Constant(self._take().text == "TRUE", at=token.at)
            case TokenKind.NAME:
                return self._named(self._take())
        if self._takes("("):
            node = self._expression()
            self._close()
            return node
        raise self._unexpected("a value", _cure_of_value(token))

    def _named(self, token: Token) -> nodes.ExpressionNode:
        if self._takes("("):
            return self._call(token)
        if "_" in token.text:
            problem = f"{token.text} is no name of an attribute"
            raise ParseError(token.at, problem, "Attributes have letters a-z and digits only")
        return nodes.Attribute(
            token.text.lower(), at=token.at
        )  # the official test suite has EXISTS SOURCE

    def _call(self, token: Token) -> nodes.ExpressionNode:
        name = token.text.upper()
        if not _FUNCTION.fullmatch(name):
            raise ParseError(
                token.at, f"{token.text} is no name of a function", "Use letters and _"
            )
        if name in DATA:
            return self._data(name, token.at)
        arguments = () if self._takes(")") else self._list()
        return self._bounded(nodes.Call(name, arguments, at=token.at))

    def _data(self, name: str, at: int) -> nodes.ExpressionNode:
        cure = f"It takes one text in quotes, a JSON Pointer: {name}('/order/id')"
        if self._now.kind is not TokenKind.TEXT or not _POINTER.fullmatch(self._now.text):
            raise self._unexpected("a JSON Pointer", cure)
        pointer = self._take().text
        if not self._takes(")"):
            raise self._unexpected(")", cure)
        return nodes.Data(pointer, DATA[name], at=at)

    @property
    def _now(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._now
        self._next += 1
        return token

    def _is(self, text: str) -> bool:
        return self._now.kind in {TokenKind.SIGN, TokenKind.KEYWORD} and self._now.text == text

    def _takes(self, text: str) -> bool:
        there = self._is(text)
        self._next += there
        return there

    def _close(self) -> None:
        if not self._takes(")"):
            raise self._unexpected("an operator or )", "Each ( needs a )")

    def _deeper(self) -> None:
        self._nested += 1
        if self._nested > MAX_DEPTH:
            raise self._too_deep(self._now.at)

    def _bounded(self, node: nodes.ExpressionNode) -> nodes.ExpressionNode:
        if node.depth > MAX_DEPTH:
            raise self._too_deep(node.at)
        return node

    def _too_deep(self, at: int) -> ParseError:
        cure = "AND, OR and IN take any number of values side by side"
        return ParseError(at, f"nested deeper than {MAX_DEPTH}", cure)

    def _unexpected(self, expected: str, cure: str) -> ParseError:
        token = self._now
        return ParseError(token.at, f"expected {expected}, found {token.found}", cure)

    def _cure_of_rest(self) -> str:
        if self._is(")"):
            return "The matching ( is missing"
        if self._is("NOT"):
            return "After a value NOT is followed by LIKE or IN"
        return "Join comparisons by AND or OR; write texts in quotes"


def _cure_of_value(token: Token) -> str:
    match token.kind:
        case TokenKind.KEYWORD:
            return f"{token.text} is a word of the language and cannot name an attribute here"
        case TokenKind.END:
            return "The expression ends too early"
        case _ if token.text == "=":
            return "Equality is one ="
    return "An attribute, a text in quotes, a number, a function or ( goes here"

"""Random CloudEvents SQL expressions from a seed, each with an event. Most operands have fitting
types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from app.filters.cesql.values import Value
from cesql_table import Case

_TEXTS = (
    "a",
    "abc",
    "ABC",
    "",
    "true",
    "FALSE",
    "5",
    "-7",
    "007",
    "x y",
    "it's",
    "50%",
    "a_c",
    "grün",
)
_PATTERNS = (
    "a%",
    "%c",
    "%b%",
    "_b_",
    "%",
    "",
    "a\\_c",
    "50\\%",
    "a%b%c",
    "%a%",
    "___",
    "x y",
    "5%",
)
_NUMBERS = (0, 1, 2, 3, 5, 7, -1, -7, 100, 46341, 2147483647, -2147483648)
_ATTRIBUTES: dict[str, tuple[Value, ...]] = {
    "text": ("a", "abc", "true", "50%"),
    "number": (5, 0, -3, 2147483647),
    "digits": ("5", "-3", "0012"),
    "flag": (True, False),
}
_NAMES = ("id", "source", "subject", "type", *_ATTRIBUTES, "missing")
_WORDS = {"AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS"}
_SPACES = (" ", " ", " ", "  ", "\n", "\t")


def random_cases(count: int, seed: int) -> Iterator[Case]:
    chance = Random(seed)
    for _ in range(count):
        event = {
            name: chance.choice(values)
            for name, values in _ATTRIBUTES.items()
            if chance.random() < 0.8
        }
        expression = _Maker(chance).boolean(chance.randint(1, 4))
        yield Case(expression, clause="random_cases", event=event)


class _Maker:
    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def boolean(self, depth: int) -> str:
        if depth <= 0:
            return self._one_of(self._flag, self._exists, self._name)()
        return self._one_of(
            *(self._logic, self._comparison, self._equality, self._like, self._in, self._not),
            *(self._exists, self._any),
        )(depth)

    def integer(self, depth: int) -> str:
        if depth <= 0:
            return self._one_of(self._number, self._number, self._name, self._text)()
        return self._one_of(self._arithmetic, self._negation, self._integer_call, self._any)(depth)

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self._one_of(self._text, self._text, self._name, self._number)()
        return self._one_of(self._text_call, self._text_call, self._any)(depth)

    def _any(self, depth: int) -> str:
        return self._one_of(self.boolean, self.integer, self.text)(depth - 1)

    def _one_of(self, *makers: Callable[..., str]) -> Callable[..., str]:
        return self._chance.choice(makers)

    def _logic(self, depth: int) -> str:
        parts = [self._inner(self.boolean, depth) for _ in range(self._chance.randint(2, 4))]
        text = parts[0]
        for part in parts[1:]:
            text = self._spaced(text, self._chance.choice(["AND", "OR", "XOR"]), part)
        return text

    def _comparison(self, depth: int) -> str:
        return self._binary(self.integer, ["<", "<=", ">", ">="], depth)

    def _equality(self, depth: int) -> str:
        return self._binary(
            self._chance.choice([self.integer, self.text, self.boolean, self._any]),
            ["=", "!=", "<>"],
            depth,
        )

    def _arithmetic(self, depth: int) -> str:
        return self._binary(self.integer, ["+", "-", "*", "/", "%"], depth)

    def _binary(self, maker: Callable[[int], str], signs: list[str], depth: int) -> str:
        left, right = self._inner(maker, depth), self._inner(maker, depth)
        return self._spaced(left, self._chance.choice(signs), right)

    def _like(self, depth: int) -> str:
        words = self._chance.choice([["LIKE"], ["NOT", "LIKE"]])
        pattern = self._quoted(self._chance.choice(_PATTERNS))
        return self._spaced(self._inner(self.text, depth), *words, pattern)

    def _in(self, depth: int) -> str:
        maker = self._chance.choice([self.integer, self.text, self._any])
        words = self._chance.choice([["IN"], ["NOT", "IN"]])
        elements = [maker(depth - 2) for _ in range(self._chance.randint(1, 3))]
        return self._spaced(self._inner(maker, depth), *words, f"({', '.join(elements)})")

    def _not(self, depth: int) -> str:
        return self._spaced("NOT", self._inner(self.boolean, depth))

    def _negation(self, depth: int) -> str:
        return f"-{self._inner(self.integer, depth)}"

    def _integer_call(self, depth: int) -> str:
        name = self._chance.choice(["LENGTH", "ABS", "INT"])
        return self._call(name, (self.text if name == "LENGTH" else self.integer)(depth - 1))

    def _text_call(self, depth: int) -> str:
        name = self._chance.choice(
            [
                "CONCAT",
                "CONCAT_WS",
                "LOWER",
                "UPPER",
                "TRIM",
                "LEFT",
                "RIGHT",
                "SUBSTRING",
                "STRING",
            ]
        )
        if name.startswith("CONCAT"):
            count = self._chance.randint(0, 3)
            return self._call(name, *(self.text(depth - 1) for _ in range(count)))
        if name in {"LEFT", "RIGHT"}:
            return self._call(name, self.text(depth - 1), self.integer(depth - 2))
        if name == "SUBSTRING":
            positions = [self.integer(0) for _ in range(self._chance.randint(1, 2))]
            return self._call(name, self.text(depth - 1), *positions)
        return self._call(name, self.text(depth - 1))

    def _call(self, name: str, *arguments: str) -> str:
        return f"{self._cased(name)}({', '.join(arguments)})"

    def _inner(self, maker: Callable[[int], str], depth: int) -> str:
        """Return an operand, usually in parentheses. An operand without parentheses also tests
        operator precedence."""
        text = maker(depth - 1)
        return f"({text})" if self._chance.random() < 0.6 else text

    def _spaced(self, *parts: str) -> str:
        space = self._chance.choice(_SPACES)
        return space.join(self._cased(part) if part in _WORDS else part for part in parts)

    def _cased(self, word: str) -> str:
        return self._chance.choice([word, word.lower(), word.title()])

    def _exists(self, _depth: int = 0) -> str:
        return self._spaced("EXISTS", self._name())

    def _flag(self, _depth: int = 0) -> str:
        return self._cased(self._chance.choice(["TRUE", "FALSE"]))

    def _number(self, _depth: int = 0) -> str:
        return str(self._chance.choice(_NUMBERS))

    def _text(self, _depth: int = 0) -> str:
        return self._quoted(self._chance.choice(_TEXTS))

    def _name(self, _depth: int = 0) -> str:
        return self._chance.choice(_NAMES)

    def _quoted(self, text: str) -> str:
        quote = self._chance.choice("'\"")
        return quote + text.replace(quote, "\\" + quote) + quote

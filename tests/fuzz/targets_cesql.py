"""CloudEvents SQL: what is printed is parsed again, an evaluation never raises, and warnings can be computed."""

from __future__ import annotations

from decimal import Decimal

from app.event.value import CloudEvent, DataForm
from app.filters.cesql.decision import decide
from app.filters.cesql.expression import Expression
from app.filters.cesql.printer import node_text
from app.filters.cesql.static_type import result_type
from app.filters.cesql.tokens import ParseError
from app.filters.cesql.values import LEAST, MOST
from app.filters.contradictions import contradictions
from app.filters.doubts import doubts
from app.filters.impossible import impossible
from app.filters.model import Filter
from cesql_table import table
from fuzz.target import Target, demand

_EVENTS = [
    CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "n": "-5", "b": "true"}),
    CloudEvent(
        {"specversion": "1.0", "id": "1", "source": "/s", "type": "a.b", "time": "2026-11-20T10:00:00Z"},
        b'{"n": 0.5, "a": {"b/c": 12.50}, "l": [1e400, "x", null, true]}',
        DataForm.JSON,
    ),
]  # fmt: skip


def check_expression(data: bytes) -> None:
    """Compile an expression, or refuse it with the place of the problem."""
    text = data.decode("utf-8", "replace")
    try:
        expression = Expression(text)
    except ParseError as error:
        demand(0 <= error.at <= max(len(text), 8192))
        return
    printed = Expression(node_text(expression.root))
    assert printed.root == expression.root
    for event in _EVENTS:
        result = expression.evaluate(event)
        assert result == printed.evaluate(event)
        assert result_type(expression.root) in {None, result.value.__class__}
        assert result.value.__class__ in {bool, int, str, Decimal}
        assert not isinstance(result.value, int) or LEAST <= result.value <= MOST
        assert expression.matches(event) is (result.value is True and not result.errors)
        decide(expression.root, event)
    one = Filter(sql=text)
    warnings = [*doubts(one), *contradictions([one]), *impossible([one], conflicts=True)]
    assert all(each.message and each.cure for each in warnings)


TARGETS = (
    Target(
        "cesql",
        check_expression,
        [case.expression.encode() for cases in table().values() for case in cases],
        [b" AND ", b" OR ", b" XOR ", b"NOT ", b" LIKE '", b" IN (", b"EXISTS ", b"TRUE", b"DATA('/a')", b"HAS_DATA(",
         b"TIME(", b"ABS(", b"SUBSTRING(", b"INT(", b"-2147483648", b"2147483647", b"0.5", b"\\'", b"%", b"<>"],
    ),
)  # fmt: skip

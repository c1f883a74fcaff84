"""What people are told of an expression that cannot be read: where, what was expected, the cure."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from app.filters.cesql.parser import parse
from app.filters.cesql.tokens import ParseError
from app.filters.model import Filter


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: expected a value, found the end. The expression ends too early"),
        ("id =", "5: expected a value, found the end. The expression ends too early"),
        ("id == 'a'", "5: expected a value, found =. Equality is one ="),
        (
            "id 'a'",
            (
                "4: expected an operator or the end, found 'a'. "
                "Join comparisons by AND or OR; write texts in quotes"
            ),
        ),
        (
            "id = 'a') OR TRUE",
            "9: expected an operator or the end, found ). The matching ( is missing",
        ),
        ("(id = 'a'", "10: expected an operator or ), found the end. Each ( needs a )"),
        (
            "id = 'a",
            "6: a text that begins with ' does not end. Close it with '; write \\' for a quote within it",
        ),
        (
            "a.b = 1",
            (
                "2: '.' has no meaning here. A decimal has digits on both sides, as 0.5; "
                "attribute names have no dots; "
                "data is read with DATA('/a/b')"
            ),
        ),
        ("!TRUE", "1: '!' has no meaning here. Write NOT for the negation, != for unequal"),
        ("TRUE && TRUE", "6: '&' has no meaning here. Write AND"),
        ("TRUE || TRUE", "6: '|' has no meaning here. Write OR"),
        ("id = ?", "6: '?' has no meaning here. Write texts in quotes: 'text'"),
        (
            "id LIKE type",
            (
                "9: expected a pattern, found type. "
                "The pattern is a text in quotes, not an expression: LIKE 'com.example.%'"
            ),
        ),
        ("id IN 'a'", "7: expected ( and the values, found 'a'. As in IN ('a', 'b')"),
        ("id IN ()", "8: expected at least one value, found ). As in IN ('a', 'b')"),
        (
            "id NOT 'a'",
            (
                "4: expected an operator or the end, found NOT. "
                "After a value NOT is followed by LIKE or IN"
            ),
        ),
        ("EXISTS 'id'", "8: expected the name of an attribute, found 'id'. As in EXISTS subject"),
        (
            "my_ext = 1",
            "1: my_ext is no name of an attribute. Attributes have letters a-z and digits only",
        ),
        ("F1(2)", "1: F1 is no name of a function. Use letters and _"),
        (
            "n > 2147483648",
            (
                "5: 2147483648 is beyond 32 bits. "
                "Integers go from -2147483648 to 2147483647; write it in quotes as a text"
            ),
        ),
        (
            "n > 99.5",
            (
                "5: a decimal can only be compared with data. "
                "Attributes have whole numbers; data has decimals: DATA('/total') > 99.5"
            ),
        ),
        (
            "DATA('/n') > 1.0e6145",
            "14: 1.0e6145 is no decimal. They have up to 34 digits, and exponents up to 6144",
        ),
        (
            "DATA('order')",
            (
                "6: expected a JSON Pointer, found 'order'. "
                "It takes one text in quotes, a JSON Pointer: DATA('/order/id')"
            ),
        ),
        (
            "TRUE AND OR TRUE",
            "10: expected a value, found OR. OR is a word of the language and cannot name an attribute here",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place_and_cure(text: str, message: str) -> None:
    """Whoever wrote the filter has to find the mistake; a filter that is wrong never starts."""
    with pytest.raises(ParseError) as refused:
        parse(text)
    assert str(refused.value) == f"SQL, character {message}"
    with pytest.raises(ValidationError, match=rf"Cure: {re.escape(refused.value.cure)}\."):
        Filter(sql=text or " ")  # the model refuses an empty text itself

"""A text that is not YAML: the cure is that of the mistake, not of the character."""

from __future__ import annotations

import pytest

from app.config.load.document import parse
from app.config.load.finding import BadConfiguration


@pytest.mark.parametrize(
    ("text", "line", "cure"),
    [
        (
            "a:\n    p: 1\n   h: 2\n",
            3,
            "Indent it like the other settings of its section, by 0 or 4 spaces.",
        ),
        (
            "a:\n    p: 1\n  h: 2\n",
            3,
            "Indent it like the other settings of its section, by 0 or 4 spaces.",
        ),
        (
            "a:\n  - b: c\n   d: e\n",
            3,
            "Indent it like the other settings of its section, by 0, 2 or 4 spaces.",
        ),
        ("a: 1\n b: 2\n", 2, "Indent it like the other settings of its section, by 0 spaces."),
        (
            "a:\n  b: c\n    d: e\n",
            3,
            "Indent it like the other settings of its section, by 0 or 2 spaces.",
        ),
        (
            "a: {b: 1\nc: {d: 2}\n",
            2,
            "Close the bracket { of line 1, and put commas between its entries.",
        ),
        ("a: [1\nb: 2\n", 2, "Close the bracket [ of line 1, and put commas between its entries."),
        ("a: 'x\nb: 1\n", 3, "Close the quote of line 1."),
        ("a: 1\nbc\nd: 2\n", 3, "Write a colon and a space after the name of a setting."),
        ("a:\n\tb: 1\n", 2, "Indent the line with spaces, because YAML does not allow tabs."),
        (
            "a: {b: ${env:X}}\n",
            1,
            'Quote text that has any of : { } [ ] , #, such as "${env:NAME}".',
        ),
        ("a: b: c\n", 1, 'Quote text that has any of : { } [ ] , #, such as "${env:NAME}".'),
    ],
)
def test_each_mistake_has_its_cure(text: str, line: int, cure: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        parse(text.encode())
    (found,) = refused.value.findings
    assert (found.line, found.cure) == (line, cure)

"""CloudEvents SQL on the project's own table: every clause, values and errors."""

from __future__ import annotations

from collections import Counter

from app.filters.cesql.expression import Expression
from app.filters.cesql.functions import FUNCTIONS
from app.filters.cesql.parser import parse
from app.filters.cesql.printer import node_text
from cesql_table import Case, event_of, ours, table
from row_checks import check_every

TABLE = table()
ALL = [case for cases in TABLE.values() for case in cases]
PARSED = [case for case in ALL if case.errors != ("parse",)]


def test_an_expression_gives_the_value_and_the_errors_of_its_clause() -> None:
    """A filter that means something else than its author read in the specification drops events."""
    check_every(ALL, assert_outcome)


def assert_outcome(case: Case) -> None:
    assert ours(case.expression, event_of(case.event, case.data)) == case.outcome


def test_a_filter_passes_only_true_without_an_error() -> None:
    """CESQL 1.2: what is no Boolean, and what has an error, MUST NOT pass."""
    check_every(PARSED, assert_passes)


def assert_passes(case: Case) -> None:
    passes = Expression(case.expression).matches(event_of(case.event, case.data))
    assert passes is (case.value is True and not case.errors)


def test_what_is_shown_of_an_expression_is_that_expression() -> None:
    """Explanations quote parts of an expression: the quotation must mean the same."""
    check_every(PARSED, assert_shown)


def assert_shown(case: Case) -> None:
    tree = parse(case.expression)
    assert parse(node_text(tree)) == tree


def test_the_table_is_whole() -> None:
    """Every section that can be evaluated, every kind of error, every function; no case twice."""
    clauses = {case.clause for case in ALL}
    kinds = {kind for case in ALL for kind in case.errors}
    assert len(ALL) >= 700
    assert clauses >= {
        *("2.1", "2.2", "2.3", "2.4", "3.2", "3.3", "3.4.1", "3.4.2", "3.4.3", "3.4.4", "3.4.5"),
        *("3.5", "3.5.1", "3.5.2", "3.6", "3.7", "5"),
    }
    assert kinds == {
        *("parse", "math", "cast", "missingAttribute", "missingFunction", "functionEvaluation"),
    }
    called = " ".join(case.expression.upper() for case in ALL)
    assert [name for name in FUNCTIONS if f"{name}(" not in called] == []
    assert [each for each, n in Counter(map(str, ALL)).items() if n > 1] == []

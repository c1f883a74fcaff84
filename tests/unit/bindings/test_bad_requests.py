from __future__ import annotations

import pytest

from app.bindings import http
from app.errors import SenderError
from bad_requests import BAD_REQUESTS, BadRequest
from row_checks import check_every

ROWS = [row for row in BAD_REQUESTS if not row.listener_only]


def test_a_bad_request_is_refused_with_its_exact_status_and_faults() -> None:
    """Whoever sent it learns at once, and completely, what to change (core 1.1 to 1.3, H1-H13)."""
    check_every(ROWS, assert_refused, name)


def assert_refused(row: BadRequest) -> None:
    with pytest.raises(SenderError) as refusal:
        http.decode(row.headers, row.body, unknown_formats="refuse")

    error = refusal.value
    assert (error.status, error.code) == (row.status, row.code)
    assert tuple(fault.code for fault in error.faults) == row.faults
    assert tuple(fault.index for fault in error.faults if fault.index is not None) == row.indexes


def test_every_row_has_its_own_name() -> None:
    """Two rows of one name would hide each other in a report."""
    names = [row.id for row in BAD_REQUESTS]

    assert len(names) == len(set(names))


def test_the_table_is_long_enough() -> None:
    """The first issue asks for at least 200 cases."""
    assert len(ROWS) >= 220


def test_a_fault_says_what_where_and_by_which_rule() -> None:
    """A fault without a sentence, or one that repeats a whole body, helps nobody."""
    check_every(ROWS, assert_told, name)


def name(row: BadRequest) -> str:
    return row.id


def assert_told(row: BadRequest) -> None:
    with pytest.raises(SenderError) as refusal:
        http.decode(row.headers, row.body, unknown_formats="refuse")

    for fault in refusal.value.faults:
        assert fault.detail.endswith(".")
        assert fault.rule
        assert len(fault.detail) + len(fault.at) < 600
        assert fault.detail.isascii() or fault.detail.isprintable()

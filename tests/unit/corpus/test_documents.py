"""The formats on the project's own corpus: what is read, what is refused, what is written again."""

from __future__ import annotations

import runpy

import pytest

from corpus import ROOT, cases
from corpus_documents import (
    assert_read,
    assert_refused,
    assert_slices,
    assert_written_again,
    is_batch,
)
from row_checks import check_every

CASES = [case for folder in ("json", "protobuf", "avro") for case in cases(folder)]
VALID = [case for case in CASES if "events" in case.expect]
INVALID = [case for case in CASES if "faults" in case.expect]


def test_a_valid_document_is_the_expected_event() -> None:
    """Attributes, types, version, data and its form, to the letter (J1-J14, V1-V5; Protobuf 2-4; Avro 2
    and 3).
    """
    check_every(VALID, assert_read)


def test_an_invalid_document_has_exactly_its_faults() -> None:
    """All of them and no others, each in its place (core 1.1 to 1.3)."""
    check_every(INVALID, assert_refused)


def test_what_is_written_again_is_the_same_event() -> None:
    """An encoder never writes what its own reader takes for another event."""
    check_every(VALID, assert_written_again)


def test_each_slice_of_a_batch_is_its_event() -> None:
    """J14: an element goes on alone as the document it was. Protobuf's batches are the same."""
    check_every(filter(is_batch, VALID), assert_slices)


@pytest.mark.parametrize("folder", ["protobuf", "avro"])
def test_the_files_are_what_their_generator_writes(folder: str) -> None:
    """The bytes come from another library and another description of the format than the reader's."""
    written = runpy.run_path(str(ROOT / "make" / f"{folder}_documents.py"))["W"].texts()

    assert {path: path.read_text() for path in written} == written
    assert set((ROOT / folder).glob("*.json")) == set(written)

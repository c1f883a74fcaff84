"""The label of an answer in metrics: of a closed set, whatever a target says."""

from __future__ import annotations

import pytest

from app.interfaces import SinkAnswer
from app.worker.attempts import answer_label


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        (SinkAnswer(204), "204"),
        (SinkAnswer(503), "503"),
        (SinkAnswer(599), "5xx"),
        (SinkAnswer(799), "7xx"),
        (SinkAnswer(None, "timeout"), "timeout"),
    ],
)
def test_an_answer_has_a_label_of_a_closed_set(answer: SinkAnswer, label: str) -> None:
    """A target that invents statuses must not fill the bound of series."""
    assert answer_label(answer) == label

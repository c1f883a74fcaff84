"""How the figures came about, and what they do not say."""

from __future__ import annotations

from app.pipeline.report import measures, samples, words
from app.pipeline.report.run import Report


def notes(report: Report) -> list[str]:
    """For the foot of the page."""
    said = [
        (
            "All times are UTC. The range is by record_time, the broker's clock: producers' clocks may be wrong, and"
            " events may be sent late."
        ),
        "An event is counted where its first record is; an event that came before the range counts as a duplicate in it.",
        (
            f"Percentiles are approximate: a rank is off by at most a {measures.ACCURACY}th of the count. Counts of sources of"
            " a type, of types of a source, and of keys where there are many, are estimates within some per cent. All"
            " other counts are exact."
        ),
        (
            f"Schemas are found in about {samples.DOCUMENTS} JSON documents a type and side, of the {samples.TYPES} most frequent"
            f" types, none above {words.size(samples.LARGEST)}; rare fields may be missed. Only differences far beyond"
            " chance are told, and none where there are few documents."
        ),
        "Sizes are those of the values of records; what headers and keys add is not counted.",
    ]
    if len(report.tables["types"].rows) == measures.TYPES:
        said.append(f"Only the {measures.TYPES} most frequent types are listed.")
    if report.successes is not None:
        said.append(
            "Deliveries are joined by source and id with the attempts that the store still has"
            " (store.attempts.retention, max_rows); older ones are not there any more."
        )
    return said

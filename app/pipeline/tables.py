"""The lake: three tables, and what their columns mean. One place for everybody who reads or writes them.

``events_raw``  every record as it was on the wire: appended by Iceberg's own streaming sink, never changed.
``events``      one row per (source, id), all versions under their 1.0 names.
``quarantine``  the records that did not decode, with the rule they broke.
"""

from __future__ import annotations

from typing import Final

FORMAT_VERSION: Final = "1"
"""Of the tables, kept as table property ``skybridge.format-version``; an unknown one is refused."""

LOCATION: Final = "broker STRING, topic STRING, partition INT, offset BIGINT, record_time TIMESTAMP"
"""Where a record was. ``broker`` as the configuration names it; ``record_time`` is the broker's clock.
(broker, topic, partition, offset) is one record.
"""

RECORD: Final = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
"""What a record is: a null ``value`` is a tombstone; headers in order, with repeats and nulls."""

RAW: Final = f"{LOCATION}, {RECORD}"

ATTRIBUTES: Final = (
    "specversion STRING, id STRING, source STRING, type STRING, subject STRING, "
    "datacontenttype STRING, dataschema STRING, time TIMESTAMP, time_text STRING, "
    "extensions MAP<STRING, STRING>, types MAP<STRING, STRING>"
)
"""By 1.0 names, canonical texts (core 1.3). ``specversion`` is 1.0. ``time_text`` is the text that came, with
its offset and nanoseconds; ``time`` the instant, null where Spark has none for it. ``extensions`` has every
other attribute, empty for none; ``types`` those that are no String (``Integer``, ``Boolean``), null for none.
"""

DATA: Final = "data STRING, data_bytes BINARY, data_form STRING"
"""``data``: the payload as the very text it came as, where its bytes are UTF-8; ``data_bytes``: where they are
not. Both null without a payload. ``data_form``: ``json``, ``text``, ``opaque`` (``DataForm``).
"""

ARRIVAL: Final = "content_mode STRING, origin_version STRING"
"""``binary`` or ``structured``; a name in ``event.versions.VERSIONS``."""

DECODED: Final = f"{LOCATION}, key BINARY, {ATTRIBUTES}, {DATA}, {ARRIVAL}"
"""A decoded record. ``identity`` (xxhash64 of source and id) comes before it in the table, for its buckets."""

EVENTS: Final = f"identity BIGINT, {DECODED}"

VERDICT: Final = (
    "verdict STRING, rule STRING, detail STRING, "
    "faults ARRAY<STRUCT<code: STRING, detail: STRING, at: STRING, rule: STRING>>"
)
"""``verdict``: ``invalid`` (faults), ``foreign`` (no CloudEvent), ``unreadable`` (a format nobody here reads,
or refuses). ``rule``: code of the first fault, or of the refusal. ``detail``: for people.
"""

QUARANTINE: Final = f"{RAW}, {VERDICT}, seen TIMESTAMP"
"""``seen``: when it was put there."""

"""Templates and key mappers as columns: the texts of ``app.routing.templates`` and ``app.routing.keys``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from app.model.route import KeyPolicy
from app.pipeline.predicate import Columns
from app.routing.keys import DIGEST_HEX
from app.routing.templates import compile_template, placeholders

TOPIC: Final = r"\A[a-zA-Z0-9._-]{1,249}\z"


def pieces(text: str) -> list[str]:
    """Of a template: text and name of an attribute in turn, beginning and ending with text."""
    marked = {name: f"\0{name}\0" for name in placeholders(text)}
    return compile_template(text)(marked).split("\0")


def template(text: str, columns: Columns) -> Column:
    """Null where an attribute is missing."""
    found = [
        columns.attribute(piece) if place % 2 else F.lit(piece)
        for place, piece in enumerate(pieces(text))
    ]
    return F.concat(*found)


def topic(text: str, columns: Columns) -> Column:
    """Null where the attributes of an event make no legal topic (``app.routing.templates``)."""
    if not placeholders(text):
        return F.lit(pieces(text)[0])
    made = template(text, columns)
    return F.when(made.rlike(TOPIC) & ~made.isin(".", ".."), made)


def key(policy: KeyPolicy, columns: Columns) -> Column | None:
    """The record key; null where the mapper finds none. None for a mapper that is not one of columns."""
    mapper = _MAPPERS.get(policy.mapper)
    return None if mapper is None else mapper(policy, columns).cast("binary")


def _filled(value: Column) -> Column:
    """Null for an empty text too: there the event has no key (K9)."""
    return F.when(value != "", value)


def _hash(policy: KeyPolicy, columns: Columns) -> Column:
    """``app.routing.keys.digest``: SHA-256 over netstrings."""
    values = [columns.attribute(name) for name in policy.attributes or ()]
    written = F.concat(*map(_netstring, values))
    digest = F.left(F.sha2(written.cast("binary"), 256), F.lit(DIGEST_HEX))
    return F.when(F.coalesce(*values).isNotNull(), digest)


def _netstring(value: Column) -> Column:
    length = F.octet_length(value).cast("string")
    return F.coalesce(F.concat(length, F.lit(":"), value, F.lit(",")), F.lit("-,"))


_MAPPERS: Final[Mapping[str, Callable[[KeyPolicy, Columns], Column]]] = {
    "from_request": lambda _policy, _columns: F.col("key"),
    "partitionkey": lambda _policy, columns: _filled(columns.attribute("partitionkey")),
    "attribute": lambda policy, columns: columns.attribute(policy.attribute or ""),
    "template": lambda policy, columns: template(policy.template or "", columns),
    "hash": _hash,
    "none": lambda _policy, _columns: F.lit(None),
}

"""The filter of a log's consumer, for tests of brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.bindings.record import Decoded, Record
from app.bindings.table import BINDINGS
from app.filters.model import Filter
from app.filters.selection import Selection
from app.interfaces import ConsumerFilter


def consumer_filter(
    filters: Sequence[Filter],
    passed: Callable[[int, int], None],
    decode: Callable[[Record], Decoded] = BINDINGS["embedded"].decode,
) -> ConsumerFilter:
    """Return the filter of a consumer. ``passed`` is the callback that ``ConsumerFilter``
    describes.
    """
    return ConsumerFilter(Selection(filters), decode, passed)

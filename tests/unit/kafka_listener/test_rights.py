"""What a producer with limited sources may write to a topic of the Kafka listener."""

from __future__ import annotations

import pytest

from app.access.rights import Rights
from app.bindings.record import Record
from app.kafka_listener.rights import not_allowed
from app.model.producer import May

SHOP = (("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_type", b"t"), ("ce_source", b"/shop/1"))


@pytest.mark.parametrize(
    ("kind", "refused"), [(b"application/json", False), (b"application/cloudevents+x", True)]
)
def test_headers_beside_a_document_that_nobody_reads_prove_nothing(kind: bytes, refused: bool):
    limits = Rights("shop", May(sources=("/shop/*",)))
    record = Record(None, (("content-type", kind), *SHOP), b"{}")
    assert bool(not_allowed(limits, [record])) is refused

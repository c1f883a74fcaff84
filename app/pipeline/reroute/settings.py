"""What a job is told. ``runtime.pipeline_reroute`` makes it from the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from app.model.route import Route
from app.pipeline.settings import KafkaPlace


class Reroute(msgspec.Struct, frozen=True):
    """``source``   where the ``topics`` are.
    ``routes``   all of the configuration, in order: the first that matches wins.
    ``places``   of the brokers that routes publish to, as Spark reaches them, by name.
    ``rejects``  topic of the source for records that do not decode, or that no route takes; None: these are
                 counted and left behind.
    """

    source: KafkaPlace
    topics: Sequence[str]
    routes: Sequence[Route]
    places: Mapping[str, KafkaPlace]
    rejects: str | None = None

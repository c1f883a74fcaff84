"""``skybridge``, but that its Kafka groups give a dead member up after 2 s rather than 30."""

from __future__ import annotations

import functools
import sys

from app.brokers import kafka
from app.cli import main

kafka.open_log = functools.partial(kafka.open_log, session_timeout=2.0)  # type: ignore[assignment]

if __name__ == "__main__":
    sys.exit(main())

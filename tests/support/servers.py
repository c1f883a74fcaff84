"""``make servers``: brings what tests run against, and says what is missing and how to cure it.

What is missing is no error on a laptop, where the tests that need it skip; with ``CI=true`` it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

import kafka_install
from app.cli.feed import payloads
from app.errors import SetupError

PARTS: Mapping[str, Callable[[], object]] = {
    "Apache Kafka": kafka_install.install,
    "GitHub's example payloads": lambda: payloads.payloads(payloads.cache_folder(os.environ)),
}


def missing(part: str, bring: Callable[[], object]) -> bool:
    try:
        bring()
    except (kafka_install.Missing, SetupError) as why:
        print(f"{part}: missing. {why}", file=sys.stderr)
        return True
    return False


def main() -> int:
    lacking = [part for part, bring in PARTS.items() if missing(part, bring)]
    return int(bool(lacking) and os.environ.get("CI") == "true")


if __name__ == "__main__":
    sys.exit(main())

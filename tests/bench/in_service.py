"""``skybridge`` with a piece of a bench in its process, for what nobody sees from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import app.runtime.run as running
from app.cli import main


def serve_with(begin: Callable[[], object]) -> None:
    """The command line; ``begin`` is called in the loop of the service once it is up: what it did to come up does
    not count."""
    settle_heap = running.settle_heap

    def settle_and_begin() -> None:
        settle_heap()
        begin()

    running.settle_heap = settle_and_begin
    main()


def tell(file: Path, found: Mapping[str, float]) -> None:
    """Whoever reads sees what was before, or all of it."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(found))
    fresh.replace(file)

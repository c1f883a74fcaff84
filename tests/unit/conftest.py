"""Folders of the unit tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from folder_in_memory import folder_in_memory


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """In memory where there is some, and gone with the test."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    with TemporaryDirectory(
        prefix=f"{name}-", dir=folder_in_memory(), ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)

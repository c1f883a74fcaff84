"""Skip tests for which the machine lacks something, or fail them if CI=true."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(why: object) -> NoReturn:
    """Skip the running test for this reason, or fail it if CI=true."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(why))
    pytest.skip(str(why))

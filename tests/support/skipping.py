"""Skip tests for which the machine lacks something. With CI=true, such tests fail instead."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(why: object) -> NoReturn:
    """Skip the running test for this reason. With CI=true, fail it instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(why))
    pytest.skip(str(why))

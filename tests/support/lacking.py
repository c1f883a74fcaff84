"""What a test needs and the machine has not: on a laptop the test is skipped, and where CI=true promises
that it is there, it fails.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(why: object) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(str(why))
    pytest.skip(str(why))

"""The contract suite lives in tests/support; its asserts are to explain themselves all the same."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("broker_contract")

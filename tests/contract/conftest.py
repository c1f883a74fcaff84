"""The contract's cases live in tests/support; their asserts are to explain themselves all the same."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "contract_groups", "contract_places", "contract_records", "contract_running", "contract_tools"
)

"""Filters of filters, for properties."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Documents = st.SearchStrategy[dict[str, Any]]


def nested(leaves: Documents, *, within: int) -> Documents:
    """Filters as documents: ``leaves``, and all, any and not of them. ``within``: filters of one of these."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(
                lambda dialect, filters: {dialect: filters},
                st.sampled_from(["all", "any"]),
                st.lists(inner, min_size=1, max_size=within),
            )
            | st.builds(lambda one: {"not": one}, inner)
        ),
        max_leaves=within + 1,
    )

"""Hypothesis strategies for nested filters."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Documents = st.SearchStrategy[dict[str, Any]]


def nested(leaves: Documents, *, within: int) -> Documents:
    """Return a strategy for filters as documents: ``leaves``, and ``all``, ``any`` and ``not`` of
    them.

    ``within`` is the largest count of filters in an ``all`` or ``any``.
    """
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


_TEXT = st.text("ab", min_size=1, max_size=3)
_PLAIN = st.builds(
    lambda dialect, name, text: {dialect: {name: text}},
    st.sampled_from(["exact", "prefix", "suffix"]),
    st.sampled_from(["type", "id"]),
    _TEXT,
)
_SQL = st.builds(
    lambda words, one, two: {"sql": f"type {words[0]} '{one}' {words[1]} type LIKE '{two}%'"},
    st.sampled_from([("=", "AND"), ("=", "OR"), ("!=", "OR"), ("LIKE", "AND"), ("=", "XOR")]),
    _TEXT,
    _TEXT,
)
by_type = nested(_PLAIN | _SQL, within=3)
"""Filters on ``type`` and ``id`` whose values have few letters, so that some filters match."""

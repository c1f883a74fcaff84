"""How many examples the properties are tried with."""

from __future__ import annotations

import example_counts  # noqa: F401 - registers the profiles

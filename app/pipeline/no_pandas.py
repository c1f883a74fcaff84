"""Hide pandas from Arrow and pyspark, which import it if it is installed. The pipeline uses none of it.

The import takes half a second, and 40 MB in each process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _NoPandas:
    """An import hook for ``sys.meta_path`` that makes pandas appear not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(name)


def hide_pandas() -> None:
    """Hide pandas from now on."""
    sys.meta_path.insert(0, _NoPandas)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Hide pandas inside the context. Arrow would look again if it were asked for a pandas frame."""
    hide_pandas()
    try:
        yield
    finally:
        sys.meta_path.remove(_NoPandas)

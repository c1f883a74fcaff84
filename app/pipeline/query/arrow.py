"""Arrow's datasets without pandas, which they import where it is installed: half of what their import takes.

Nothing here makes or takes a frame of pandas. Arrow looks once in a process, and again when it is asked for one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _NoPandas:
    """One of ``sys.meta_path``, which finds that there is none."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(name)


@contextmanager
def without_pandas() -> Iterator[None]:
    """While ``pyarrow.dataset`` is imported. What is imported already stays."""
    sys.meta_path.insert(0, _NoPandas)
    try:
        yield
    finally:
        sys.meta_path.remove(_NoPandas)

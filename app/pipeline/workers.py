"""The process from which Spark forks its Python workers on this machine
(``spark.python.daemon.module``).

Spark puts zip files with its own Python code and a jar first on the path, and each task reads their
lists again. That costs 0.1 s of CPU. This process imports pyspark from its installed location. The
modules that tasks need are imported before the fork and excluded from the garbage collection that
follows each task. Pandas, which no task needs, is not imported.
"""

from __future__ import annotations

import gc
import runpy
import sys
from importlib.machinery import PathFinder

from app.pipeline.no_pandas import hide_pandas

_SPARKS = ("pyspark.zip", "-src.zip", ".jar")


def without_archives() -> None:
    """Remove Spark's archives from the import path, if pyspark can be imported without them."""
    rest = [each for each in sys.path if not each.endswith(_SPARKS)]
    if PathFinder.find_spec("pyspark", rest) is None:
        return
    sys.path[:] = rest
    for each in [each for each in sys.path_importer_cache if each.endswith(_SPARKS)]:
        del sys.path_importer_cache[each]


if __name__ == "__main__":
    without_archives()
    hide_pandas()
    import app.pipeline.archive.files  # noqa: F401 - also imports the decoder

    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__")  # Spark's default daemon

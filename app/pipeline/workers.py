"""The process that Spark forks its Python workers from, on this machine: ``spark.python.daemon.module``.

Spark puts zip files with its own Python and a jar first on the path, and each task reads their lists again: 0.1 s of CPU.
Here pyspark comes from where it is installed. What tasks need is imported before the workers are forked, and left
alone by the garbage collector, which runs after each task.
"""

from __future__ import annotations

import gc
import runpy
import sys
from importlib.machinery import PathFinder

_SPARKS = ("pyspark.zip", "-src.zip", ".jar")


def without_archives() -> None:
    """Where pyspark is installed too."""
    rest = [each for each in sys.path if not each.endswith(_SPARKS)]
    if PathFinder.find_spec("pyspark", rest) is None:
        return
    sys.path[:] = rest
    for each in [each for each in sys.path_importer_cache if each.endswith(_SPARKS)]:
        del sys.path_importer_cache[each]


if __name__ == "__main__":
    without_archives()
    import app.pipeline.archive.files  # noqa: F401 - and with it the decoder

    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__")  # as Spark does by itself

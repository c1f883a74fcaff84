"""A JVM of Spark that several processes use one after the other, as ``spark-submit`` starts one.

Each process makes and stops its own context in the JVM. The JVM starts and warms up only once.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from waiting import wait_until


@contextmanager
def submitted_jvm(folder: Path, settings: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Run the JVM until the block ends, and yield the environment variables for processes that use
    it."""
    import pyspark

    said = folder / "gateway"
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with (folder / "gateway.log").open("ab") as log:
        jvm = subprocess.Popen(
            [Path(pyspark.__file__).with_name("bin") / "spark-submit", *words, "pyspark-shell"],
            stdin=subprocess.PIPE,  # the JVM ends when its standard input closes
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(said),
            },
        )
    try:
        wait_until(lambda: said.exists() or jvm.poll() is not None, "Spark's JVM", 120)
        port, length = struct.unpack(">ii", (written := said.read_bytes())[:8])
        secret = written[8 : 8 + length].decode()
        yield {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    finally:
        assert jvm.stdin is not None
        jvm.stdin.close()
        jvm.wait(60)

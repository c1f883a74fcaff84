"""A real standalone cluster of Spark on loopback: a master and workers as processes.

They run from the jars of pyspark.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx

from free_ports import free_ports

HOST = "127.0.0.1"
UP_WITHIN, DOWN_WITHIN = 120.0, 60.0  # seconds


class SparkCluster:
    """A Spark cluster with one master. ``folder`` gets the logs and the files of the executors."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self._port, self._web = free_ports(2)
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def start(self) -> None:
        place = ("--host", HOST, "--port", str(self._port), "--webui-port", str(self._web))
        self._run("master.Master", *place)
        _until(lambda: self.state() is not None, UP_WITHIN, "the master answers")
        for number in range(self._workers):
            own = ("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g")
            self._run("worker.Worker", *own, "--work-dir", str(self.work(number)), self.url)
        _until(lambda: self.alive() == self._workers, UP_WITHIN, "every worker is known")

    def work(self, number: int) -> Path:
        return self.folder / f"worker-{number}"

    def state(self) -> dict[str, Any] | None:
        """Return the status of the cluster as JSON of the master, or None if it does not answer."""
        try:
            answer = httpx.get(f"http://{HOST}:{self._web}/json/", timeout=10, trust_env=False)
        except httpx.HTTPError:
            return None
        found: dict[str, Any] = answer.json()
        return found

    def alive(self) -> int:
        return int((self.state() or {}).get("aliveworkers", 0))

    def executors(self) -> list[list[Path]]:
        """Return the folders of the executors that each worker started."""
        return [sorted(self.work(n).glob("app-*/[0-9]*")) for n in range(self._workers)]

    def stop(self) -> list[int]:
        """Stop the workers, which end their executors, then the master.

        Returns:
            The ids of processes that had to be killed.
        """
        stubborn = []
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(DOWN_WITHIN)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(DOWN_WITHIN)
                stubborn.append(process.pid)
        self._processes.clear()
        return stubborn

    def leftover_processes(self) -> list[str]:
        """Return the command lines of processes that still run in the folder of the cluster."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if (each / "cwd").readlink().is_relative_to(self.folder):
                    found.append((each / "cmdline").read_text().replace("\0", " "))
            except OSError:  # the process has ended, or belongs to another user
                continue
        return found

    def _run(self, name: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        settings = {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "PYSPARK_PYTHON": sys.executable,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        with (self.folder / f"{name}-{len(self._processes)}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env={**os.environ, **settings}, start_new_session=True,
                )
            )  # fmt: skip


@contextmanager
def running_cluster(folder: Path) -> Iterator[SparkCluster]:
    cluster = SparkCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        stubborn = cluster.stop()
    assert not stubborn, "processes of the cluster had to be killed"
    assert not cluster.leftover_processes(), "executors outlived their workers"


def _until(holds: Callable[[], bool], within: float, what: str) -> None:
    end = monotonic() + within
    while not holds():
        if monotonic() > end:
            raise TimeoutError(f"{what}: not within {within:.0f} s")
        sleep(0.1)

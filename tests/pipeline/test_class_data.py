"""Java itself leaves what it has made of Spark's classes, and takes it: by two commands, one after the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

import spark_install
from app.spark.jars import FOLDER

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

PROGRAM = """
from pathlib import Path
from app.spark.session import open_session
from app.pipeline.settings import Catalog, Engine, Lake

lake = Lake(Catalog("hadoop", "", Path("lake").absolute().as_uri()))
session = open_session(Engine(conf={OWN}), lake, app_name="classes", brief=True)
assert session.range(3).count() == 3
session.stop()
"""
LOADED = '{"spark.driver.extraJavaOptions": "-Xlog:class+load:file=loaded.txt"}'
TOP = "source: shared objects file (top)"


def run(folder: Path, own: str) -> None:
    """At a terminal."""
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.replace("{OWN}", own)],
            env={**os.environ, FOLDER: str(folder / "jars")}, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=theirs, stderr=theirs, timeout=300, check=False,
        )  # fmt: skip
        said = os.read(ours, 65_536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0, said
    assert "[cds]" not in said


def test_the_second_command_takes_what_the_first_has_left(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    for jar in spark_install.install():
        shutil.copy(jar, tmp_path / "jars")
    run(tmp_path, "{}")
    end = monotonic() + 300
    while not any(map(whole, tmp_path.glob("jars/*.jsa"))):
        assert monotonic() < end, "Java has left nothing"
        sleep(0.2)
    run(tmp_path, LOADED)
    assert (tmp_path / "loaded.txt").read_text().count(TOP) > 1_000


def whole(file: Path) -> bool:
    """Java writes the head last."""
    return any(file.read_bytes()[:4])

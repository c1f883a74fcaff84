"""Files that the configuration names are read only if they are regular: nothing waits for whoever writes to a pipe."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.config.derived.route_resources import load_check
from app.config.load.finding import BadConfiguration
from app.config.load.loader import load
from app.config.load.secrets import Unresolved, substitute
from app.errors import SetupError
from app.model.route import DataSchema
from app.model.secret import FileSecret
from app.sinks.secrets import CHECK_EVERY, LiveSecret
from app.tls import NotRegular, mark_of, read_regular


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_secret(pipe: Path) -> None:
    with pytest.raises(Unresolved, match="not a regular file"):
        substitute(f"${{file:{pipe}}}", {})


def test_the_configuration_itself(pipe: Path) -> None:
    with pytest.raises(BadConfiguration, match="not a regular file"):
        load(pipe, {})


def test_a_schema(pipe: Path) -> None:
    setting = DataSchema(file=pipe)
    with pytest.raises(SetupError, match="not a regular file"):
        load_check(setting, "routes.r.schema")


def test_a_secret_that_becomes_a_pipe_keeps_its_text(tmp_path: Path) -> None:
    file, times = tmp_path / "secret", [0.0, CHECK_EVERY]
    file.write_text("before\r\n")
    secret = FileSecret("before", str(file), mark_of(file))
    live = LiveSecret(secret, lambda: times.pop(0))
    file.unlink()
    os.mkfifo(file)
    assert live() == "before"


def test_devices_and_folders_are_refused_too(tmp_path: Path) -> None:
    for path in ("/dev/zero", "/dev/null", tmp_path):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            read_regular(path)
    assert issubclass(NotRegular, OSError)

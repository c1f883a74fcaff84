"""Spark's Java: looked for where Spark looks, and its absence told with the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import SetupError
from app.spark import java


def a_java(folder: Path, says: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_wins_over_path(tmp_path):
    """As Spark itself looks for it."""
    home = a_java(tmp_path / "home", 'openjdk version "21.0.1" 2023-10-17')
    other = a_java(tmp_path / "other", 'openjdk version "17.0.15" 2025-04-15')
    environ = {"PATH": str(other.parent)}
    assert java.find(environ) == other
    assert java.find({**environ, "JAVA_HOME": str(tmp_path / "home")}) == home


@pytest.mark.parametrize(
    ("says", "version"),
    [('java version "1.8.0_402"', 8), ('openjdk version "11.0.2" 2019-01-15', 11)],
)
def test_a_java_too_old_for_spark_is_told(tmp_path, says, version):
    program = a_java(tmp_path, says)
    with pytest.raises(SetupError, match=rf"{program} is Java {version}; .*17.*Cure: Install Java"):
        java.find({"PATH": str(program.parent)})


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"PATH": ""}, "java is not on PATH"),
        ({}, "java is not on PATH"),
        ({"PATH": "", "JAVA_HOME": "/nowhere"}, "JAVA_HOME: there is no /nowhere/bin/java"),
    ],
)
def test_no_java_is_told_with_the_cure(environ, said):
    with pytest.raises(SetupError, match=said) as raised:
        java.find(environ)
    assert "Install Java 17" in str(raised.value)


def test_a_java_that_does_not_say_what_it_is_is_told(tmp_path):
    program = a_java(tmp_path, "hello")
    with pytest.raises(SetupError, match="printed no version: 'hello'"):
        java.find({"JAVA_HOME": str(tmp_path)})
    program.unlink()
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(SetupError, match="does not run"):
        java.find({"JAVA_HOME": str(tmp_path)})

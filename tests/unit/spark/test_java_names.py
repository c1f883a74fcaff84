"""Names of Java are looked up once: each look-up of a package searches all jars."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.java_gateway import JavaPackage

from app.errors import LakeUnavailable
from app.spark.pyspark_adapter import JavaNames, jvm


class Package(JavaPackage):
    """A package that counts the look-ups in it."""

    def __init__(self, looked: list[str], name: str = "") -> None:
        self.__dict__.update(looked=looked, name=name)

    def __getattr__(self, name: str) -> Any:
        self.looked.append(f"{self.name}{name}")
        return object() if name.istitle() else Package(self.looked, f"{self.name}{name}.")


class Session:
    def __init__(self, looked: list[str]) -> None:
        self._jvm = Package(looked)


def test_each_part_of_a_name_is_looked_up_once() -> None:
    looked: list[str] = []
    session: Any = Session(looked)
    assert isinstance(jvm(session).org, JavaNames)
    assert jvm(session).org.apache.Table is jvm(session).org.apache.Table
    assert looked == ["org", "org.apache", "org.apache.Table"]


def test_another_jvm_has_names_of_its_own() -> None:
    sessions: list[Any] = [Session([]), Session([])]
    assert jvm(sessions[0]).Table is not jvm(sessions[1]).Table


def test_a_class_that_no_jar_has_is_named() -> None:
    """The operator's jars may lack one. Py4J takes its name for that of a package, which cannot be called."""
    session: Any = Session([])
    with pytest.raises(LakeUnavailable, match=r"no class for this lake: org\.kafka\.consumer\."):
        jvm(session).org.kafka.consumer()

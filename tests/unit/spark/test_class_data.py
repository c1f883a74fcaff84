"""Which options a short command gives to its JVM. Java itself: ``tests/pipeline/test_class_data.py``, nightly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.spark import class_data

TAKE, LEAVE = "-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit="
MAGIC = bytes.fromhex("a8bab00f")


class House:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "jars"
        self.folder.mkdir()
        self.jars = [self.folder / "a.jar", self.folder / "b.jar"]
        self.java = folder / "java"
        self.java.mkdir()
        self.terminal = True
        self.renewed = 0
        self.new_java()

    def new_java(self) -> None:
        (self.java / "bin").mkdir(exist_ok=True)
        (self.java / "bin" / "java").write_text("")
        self.renewed += 1
        os.utime(self.java / "bin" / "java", (self.renewed, self.renewed))

    def told(self, own: str = "") -> str:
        environ = {"JAVA_HOME": str(self.java)}
        return class_data.options(self.jars, own, leave=self.terminal, environ=environ)

    def left(self, octets: bytes) -> Path:
        """What a JVM has written by now to the file that it was told of."""
        file = Path(self.told().rpartition(LEAVE)[2])
        file.write_bytes(octets)
        return file


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_the_first_leaves_a_file_and_others_take_it(house: House) -> None:
    file = house.left(MAGIC)
    assert file.parent == house.folder
    assert house.told().endswith(f"{TAKE}{file}")


def test_no_file_is_left_where_a_program_waits_for_the_output(house: House) -> None:
    house.terminal = False
    assert house.told() == ""
    house.terminal = True
    file = house.left(MAGIC)
    house.terminal = False
    assert house.told().endswith(f"{TAKE}{file}")


def test_a_file_that_is_being_written_is_left_alone_and_half_a_file_is_made_again(
    house: House,
) -> None:
    house.left(bytes(4))
    assert house.told() == ""
    [half] = house.folder.glob("*.jsa")
    os.utime(half, (half.stat().st_mtime - 601,) * 2)
    assert house.told().endswith(f"{LEAVE}{half}")
    assert not half.exists()


def test_another_java_or_other_jars_get_a_file_of_their_own_and_the_old_one_goes(
    house: House,
) -> None:
    old = house.left(MAGIC)
    house.new_java()
    renewed = house.left(MAGIC)
    assert renewed != old
    assert not old.exists()
    house.jars.append(house.folder / "c.jar")
    assert LEAVE in house.told()
    assert not renewed.exists()


@pytest.mark.parametrize("own", [f"-Dx=y {TAKE}/own.jsa", f"{LEAVE}/own.jsa", "-Xshare:off"])
def test_the_operators_own_words_win(house: House, own: str) -> None:
    assert house.told(own) == ""


def test_a_folder_with_a_space_keeps_nothing(house: House) -> None:
    """Spark parts options at spaces."""
    spaced = house.folder.parent / "my jars"
    house.jars = [house.folder.rename(spaced) / "a.jar"]
    assert house.told() == ""


def test_a_folder_that_is_not_there_or_not_ours_keeps_nothing(house: House) -> None:
    house.folder.rmdir()
    assert house.told() == ""

"""The jars of the pipeline: fetched once, whole and right, or told of with the cure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import SetupError
from app.spark import jars
from app.spark.jars import Jar
from threaded_http import QuietHandler, ThreadedServer


class _Handler(QuietHandler):
    server: Repository

    def get(self) -> None:
        repository = self.server
        repository.asked.append(self.path)
        content = repository.holds.get(self.path)
        body = content or b""
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if repository.cut_short else body)


class Repository(ThreadedServer):
    """A Maven repository on loopback. ``holds``: path to bytes. ``asked``: the paths, in order."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.holds: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cut_short = False

    @property
    def url(self) -> str:
        return f"{self.address}/maven2"

    def publish(self, artifact: str, content: bytes) -> Jar:
        digest = hashlib.sha256(content).hexdigest()
        jar = Jar("org.example", artifact, "1.2.3", len(content), digest)
        self.holds[f"/maven2/org/example/{artifact}/1.2.3/{artifact}-1.2.3.jar"] = content
        return jar


@pytest.fixture
def repository() -> Iterator[Repository]:
    with Repository() as one:
        yield one


def test_what_is_missing_is_fetched_once(repository, tmp_path):
    """Into a folder that is made; the second time nothing is asked."""
    first = repository.publish("first", b"one" * 100_000)
    second = repository.publish("second", b"two")
    where, told = tmp_path / "new" / "jars", []
    for _ in range(2):
        found = jars.ensure_jars(
            where,
            source=repository.url,
            wanted=[first, second],
            told=lambda jar, n: told.append((jar.artifact, n)),
        )
        assert [path.read_bytes() for path in found] == [b"one" * 100_000, b"two"]
    assert sorted(path.name for path in where.iterdir()) == [
        "first-1.2.3.jar",
        "second-1.2.3.jar",
    ]
    assert len(repository.asked) == 2
    assert sum(n for name, n in told if name == "first") == 300_000  # what a progress bar shows


def test_a_jar_with_other_bytes_is_refused_and_leaves_nothing(repository, tmp_path):
    """What runs is what was tested."""
    jar = repository.publish("first", b"as it was")
    repository.holds = dict.fromkeys(repository.holds, b"changed.!")
    with pytest.raises(
        SetupError, match=r"first-1\.2\.3\.jar: its SHA-256 is [0-9a-f]{64}, and not"
    ):
        jars.ensure_jars(tmp_path, source=repository.url, wanted=[jar])
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_fetched_anew(repository, tmp_path):
    jar = repository.publish("first", b"as it was")
    (tmp_path / jar.name).write_bytes(b"as it")
    [found] = jars.ensure_jars(tmp_path, source=repository.url, wanted=[jar])
    assert found.read_bytes() == b"as it was"


def test_a_fetch_that_breaks_off_leaves_nothing(repository, tmp_path):
    jar = repository.publish("first", b"x" * 1000)
    repository.cut_short = True
    with pytest.raises(SetupError, match=r"first-1\.2\.3\.jar: "):
        jars.ensure_jars(tmp_path, source=repository.url, wanted=[jar])
    assert list(tmp_path.iterdir()) == []


def test_every_jar_that_cannot_be_had_is_told_with_the_cure(repository, tmp_path):
    """The reason of each, the settings, and the addresses to bring them by hand."""
    there = repository.publish("there", b"1")
    gone = [Jar("org.example", name, "1", 1, "00") for name in ("gone", "lost")]
    with pytest.raises(SetupError) as raised:
        jars.ensure_jars(tmp_path, source=repository.url, wanted=[gone[0], there, gone[1]])
    said = str(raised.value)
    for name in ("gone", "lost"):
        assert f"{name}-1.jar: the repository answers 404" in said
        assert f"{repository.url}/org/example/{name}/1/{name}-1.jar" in said
    assert "SKYBRIDGE_MAVEN_REPOSITORY" in said
    assert "SKYBRIDGE_JARS" in said
    assert (tmp_path / there.name).exists()


def test_a_repository_that_does_not_answer_is_told(tmp_path):
    with Repository() as repository:
        jar = repository.publish("first", b"1")
    with pytest.raises(SetupError, match=r"first-1\.2\.3\.jar: .*refused"):
        jars.ensure_jars(tmp_path, source=repository.url, wanted=[jar])


@pytest.mark.parametrize(
    ("environ", "where"),
    [
        ({"SKYBRIDGE_JARS": "/j", "XDG_CACHE_HOME": "/x"}, Path("/j")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/skybridge/jars")),
        ({}, Path.home() / ".cache/skybridge/jars"),
    ],
)
def test_the_folder_is_the_users_own_cache_unless_said(environ, where):
    assert jars.folder(environ) == where


def test_the_repository_is_maven_central_unless_said():
    assert jars.repository({}) == jars.MAVEN_CENTRAL
    mirror = {"SKYBRIDGE_MAVEN_REPOSITORY": "https://maven.example/all/"}
    assert jars.repository(mirror) == "https://maven.example/all"
    with pytest.raises(
        SetupError, match=r"SKYBRIDGE_MAVEN_REPOSITORY: 'maven.example' is not an http"
    ):
        jars.repository({"SKYBRIDGE_MAVEN_REPOSITORY": "maven.example"})


def test_each_jar_is_pinned_whole():
    """A name, a version, a size and a SHA-256 each; no two are the same."""
    for jar in jars.JARS:
        assert len(bytes.fromhex(jar.sha256)) == 32
        assert jar.size > 0
    assert len({jar.artifact for jar in jars.JARS}) == len(jars.JARS)

"""Subscriptions of the API: the model and the checks of the file, every fault with its place."""

from __future__ import annotations

import pytest

from app.config.check.candidate import examine
from app.config.load.loader import load

GOOD = {
    "id": "new",
    "source": {"broker": "log", "topics": ["events"]},
    "sink": "https://hooks.example/",
}


@pytest.fixture
def loaded(tmp_path):
    file = tmp_path / "skybridge.yaml"
    file.write_text(
        f"""
version: 1
brokers:
  log: {{kind: embedded, path: {tmp_path}/log}}
  rabbit: {{kind: rabbitmq, addresses: "127.0.0.1:5672"}}
store: {{kind: sqlite, path: {tmp_path}/store.db}}
routes: [{{name: all, to: {{broker: log, topic: events}}}}]
subscriptions:
  - id: copies
    source: {{broker: log, topics: [copied]}}
    sink: {{broker: log, topic: events}}
    auth: null
  - id: billing
    source: {{broker: log, topics: [events]}}
    sink: https://billing.example/
    auth: {{kind: bearer, token: "${{env:TOKEN}}"}}
"""
    )
    return load(file, {"TOKEN": "from-the-environment"})


@pytest.fixture
def faults(loaded):
    def examined(**change):
        (found,) = examine(loaded, [{**GOOD, **change}], loaded.config.subscriptions)
        return {fault.at: fault.detail for fault in found.faults}

    return examined


def test_a_good_one_has_none(faults):
    assert faults() == {}


@pytest.mark.parametrize(
    ("change", "at", "words"),
    [
        ({"source": {"broker": "lgo", "topics": ["t"]}}, "/source/broker", "Did you mean log?"),
        ({"source": {"broker": "log", "topics": ["a b"]}}, "/source/topics/0", "not a topic name"),
        ({"source": {"broker": "log"}}, "/source/topics", "The setting is missing"),
        ({"sink": "http://hooks.example/"}, "/sink", "The URL begins with http://, which is allowed only for hosts in webhooks.allow_private"),
        ({"sink": "https://10.0.0.1/"}, "/sink", "private address"),
        ({"sink": "https://127.1/"}, "/sink", "The address 127.1 has a form that"),
        ({"sink": "http://0/"}, "/sink", "The address 0 has a form that"),
        ({"sink": "https://2130706433/"}, "/sink", "The address 2130706433 has a form that"),
        ({"sink": "https://127.0.0.1./"}, "/sink", "private address"),
        ({"sink": "https://[::ffff:127.0.0.1]/"}, "/sink", "private address"),
        ({"sink": "https://[fe80::1%25eth0]/"}, "/sink", "private address"),
        ({"sink": "https://me:pw@hooks.example/"}, "/sink", "user name or password"),
        ({"sink": {"broker": "log", "topic": "events"}}, "/sink/topic", "events would loop forever"),
        ({"sink": {"broker": "log", "topic": "copied"}}, "/sink", "These subscriptions form a loop, which would copy an event forever: "),
        ({"filters": [{"exactt": {"type": "t"}}]}, "/filters/0/exactt", "Did you mean exact?"),
        ({"filters": [{"sql": "type ="}]}, "/filters/0/sql", "SQL"),
        ({"filters": [{"not": {"exact": {"type": ""}}}]}, "/filters/0/not/exact/type", "The value is empty"),
        ({"concurency": 8}, "/concurency", "Did you mean concurrency?"),
        ({"timeout": "soon"}, "/timeout", "not a duration"),
        ({"id": "a b"}, "/id", "letters"),
        ({"dead_letter": {"broker": "gone", "topic": "t"}}, "/dead_letter/broker", "does not exist"),
        ({"source": {"broker": "rabbit", "topics": ["q"]}, "start": {"time": "2026-01-01T00:00:00Z"}},
         "/start", "neither times nor positions"),
    ],
)  # fmt: skip
def test_each_fault_is_told_with_its_place_and_a_cure(faults, change, at, words):
    """Exactly what `check` would say of the file."""
    found = faults(**change)
    assert words in found[at]


def test_all_of_them_at_once(faults):
    """One answer, one round of mending."""
    found = faults(timeout="soon", concurency=8, filters=[{"sql": ""}], sink=7)
    assert {"/timeout", "/concurency", "/filters/0/sql", "/sink"} <= set(found)


@pytest.mark.parametrize("text", ["${env:TOKEN}", "${file:/etc/passwd}", "x${env:HOME}", "${"])
def test_references_are_for_the_file_alone(faults, text):
    """A caller of the API must not read the server's environment and files."""
    found = faults(auth={"kind": "bearer", "token": text})
    assert "only in the configuration file" in found["/auth/token"]
    assert "from-the-environment" not in str(found)


def test_a_dollar_sign_means_what_it_means_in_the_file(loaded):
    (found,) = examine(loaded, [{**GOOD, "filters": [{"exact": {"subject": "$${x} $$5 $6"}}]}], ())
    assert found.subscription.filters[0].exact == {"subject": "${x} $5 $6"}


def test_files_of_the_server_are_for_the_file_alone(faults):
    found = faults(tls={"ca": "/etc/shadow"})
    assert (
        "The setting names a file of the server. Only the configuration file may name such files"
        in found["/tls/ca"]
    )


def test_no_answer_tells_whether_a_file_is_there(faults, tmp_path):
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.write_text("x")
    assert faults(tls={"ca": str(there)}) == faults(tls={"ca": str(missing)})


def test_a_secret_is_never_repeated(faults):
    found = faults(auth={"kind": "bearer", "token": "hunter2\n"}, signing={"secret": "hunter2"})
    assert found
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("setting", ["auth", "signing"])
def test_a_secret_in_the_place_of_its_settings_is_not_repeated_either(faults, setting):
    """The likeliest mistake of all: ``signing: whsec_...``."""
    found = faults(**{setting: "whsec_hunter2"})
    assert f"/{setting}" in found
    assert "hunter2" not in str(found)


def test_of_a_circle_of_mirrors_the_newest_is_refused(loaded):
    one = {**GOOD, "id": "one", "source": {"broker": "log", "topics": ["a"]},
           "sink": {"broker": "log", "topic": "b"}}  # fmt: skip
    two = {**GOOD, "id": "two", "source": {"broker": "log", "topics": ["b"]},
           "sink": {"broker": "log", "topic": "a"}}  # fmt: skip
    newest, oldest = examine(loaded, [two, one], loaded.config.subscriptions)
    assert newest.faults
    assert not oldest.faults


def test_warnings_are_told_and_refuse_nothing(loaded):
    (found,) = examine(loaded, [{**GOOD, "source": {"broker": "log", "topics": ["dry"]}}], ())
    assert not found.faults
    assert any("gets no events for" in warning for warning in found.warnings)


def test_what_stands_in_the_file_is_shown_as_it_was_written(loaded):
    """References name secrets and tell none; the rest is pasted back as it is."""
    written = loaded.as_written("subscriptions", 1)
    assert written["auth"] == {"kind": "bearer", "token": "${env:TOKEN}"}
    assert written["source"] == {"broker": "log", "topics": ["events"]}

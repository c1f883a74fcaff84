"""A running service takes up another configuration: by API, SIGHUP and change of the file; whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from child_service import environment
from forked import completed
from reload_service import ReloadService

TYPED = {"exact": {"type": "sale"}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReloadService]:
    with ReloadService(tmp_path_factory.mktemp("reload")).running() as service:
        yield service


@pytest.fixture
def service(shared: ReloadService) -> ReloadService:
    shared.restore_first_settings()
    return shared


def to_topic(topic: str) -> Any:
    return lambda settings: settings["routes"][0]["to"].update(topic=topic)


def test_the_api_makes_routes_take_effect(service: ReloadService) -> None:
    """Issue 9.4: the next event goes by the new routes; what changed is told by name."""
    before = service.configuration()["digest"]
    assert service.topic_of_next() == "events"
    service.change(to_topic("others"))
    assert service.topic_of_next() == "events", "nobody has asked yet"
    status, said = service.reload()
    assert (status, said["outcome"], said["cause"]) == (200, "ok", "api")
    assert said["changes"] == [
        'routes.everything.to: [{"broker":"log","topic":"events"}] -> [{"broker":"log","topic":"others"}]'
    ]
    assert service.topic_of_next() == "others"
    now = service.configuration()
    assert now["digest"] == said["digest"] != before
    assert now["source"] == str(service.file)
    assert service.metric("config_info") == {f'{{digest="{said["digest"]}"}}': 1}
    assert service.ask("GET", "/status")[1]["routes"][0]["to"][0]["topic"] == "others"


def test_what_is_the_same_is_said_to_be(service: ReloadService) -> None:
    assert service.reload()[1]["outcome"] == "unchanged"


def test_an_invalid_file_is_refused_whole_with_its_lines(service: ReloadService) -> None:
    """Every fault at once, each with its line; the old one stays, and status, log and metric tell."""
    refused = service.metric("config_reloads_total").get('{outcome="refused"}', 0)
    before = service.configuration()
    service.change(to_topic("others"))
    service.change(
        lambda s: s["routes"].append({"name": "lost", "to": {"broker": "gone", "topic": "t"}})
    )
    service.change(lambda s: s.update(limits={"body": "nothing"}))
    status, said = service.reload()
    assert status == 422
    assert said["type"].endswith(":invalid-configuration")
    line = service.line_of("nothing")
    lost = f"line {service.line_of('gone')}: error routes[1].to"
    size = f"line {line}: error limits.body: The value is not a size"
    details = [each["detail"] for each in said["faults"]]
    assert len(details) == 2, "a fault of the model hides none of the checks"
    assert all(any(each.startswith(start) for each in details) for start in (lost, size))
    service.change(lambda s: s.pop("limits"))
    status, said = service.reload()
    assert status == 422
    assert f"line {service.line_of('gone')}: error routes[1].to" in said["faults"][0]["detail"]
    assert service.topic_of_next() == "events"
    now = service.configuration()
    assert now["taken"] == before["taken"]
    assert now["digest"] == before["digest"]
    assert now["last"]["outcome"] == "refused"
    assert now["last"]["faults"] == [said["faults"][0]["detail"]]
    assert service.metric("config_reloads_total")['{outcome="refused"}'] == refused + 2
    assert service.metric("config_last_reload_successful") == {"": 0}
    assert "the old configuration keeps running: line" in service.process.log.read_text()


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        (lambda s: s["server"]["events"].update(port=1), "server.events.port"),
        (lambda s: s["store"].update(path="elsewhere.db"), "store.path"),
        (lambda s: s["brokers"].update(more={"kind": "embedded", "path": "m"}), "brokers.more"),
        (lambda s: s.update(installation="other"), "installation"),
        (lambda s: s["timeouts"].update(publish="3s"), "timeouts.publish"),
    ],
)
def test_what_needs_a_restart_is_refused_by_name(
    service: ReloadService, change: Any, setting: str
) -> None:
    """Refused whole: what else the file says is not taken up either."""
    service.change(to_topic("others"))
    service.change(change)
    status, said = service.reload()
    assert status == 409
    assert said["type"].endswith(":needs-restart")
    (fault,) = said["faults"]
    assert fault["at"] == setting
    assert fault["detail"].endswith(f"needs a restart: {setting}")
    assert service.topic_of_next() == "events"


def test_sighup_makes_it_read_the_file(service: ReloadService) -> None:
    before = service.configuration()
    service.change(to_topic("hung-up"))
    service.hang_up()
    assert service.until_reloaded("signal", before)["outcome"] == "ok"
    assert service.topic_of_next() == "hung-up"


def test_bounds_and_rules_of_the_listener_change(service: ReloadService) -> None:
    """Limits where that is sound: a batch, a body, who may ask for consent."""
    service.change(lambda s: s.update(limits={"body": 90_000, "deliveries_in_flight": 7}))
    service.change(lambda s: s["server"]["events"].update(allowed_origins=["shop.example"]))
    assert service.reload()[0] == 200
    assert service.process.send("1", "x" * 100_000)[0] == 413
    shown = service.ask("GET", "/v1/config")[1]["configuration"]
    assert shown["limits"]["deliveries_in_flight"] == 7


def test_the_token_of_the_admin_listener_changes(service: ReloadService) -> None:
    """A secret, never shown: not by the change, not by the configuration."""
    service.change(lambda s: s["server"]["admin"].update(token="first-token-of-two"))
    status, said = service.reload()
    assert status == 200
    assert "first-token" not in str(said)
    assert service.ask("GET", "/v1/config")[0] == 401
    status, shown = service.ask("GET", "/v1/config", token="first-token-of-two")
    assert status == 200
    assert shown["configuration"]["server"]["admin"]["token"] == "**********"
    service.change(lambda s: s["server"]["admin"].pop("token"))
    assert service.ask("POST", "/v1/config:reload", token="first-token-of-two")[0] == 200


def test_plan_shows_how_a_running_one_drifts_from_the_file(service: ReloadService) -> None:
    """Issue 9.4: by name, in words, with an exit code for each case."""

    def plan() -> tuple[int, str]:
        words = ("plan", str(service.file), "--server", f"http://127.0.0.1:{service.admin}")
        found = completed(*words, env=environment())
        return found.returncode, found.stdout

    assert plan() == (0, "")
    service.change(to_topic("planned"))
    code, said = plan()
    assert code == 4
    assert said.startswith("live    routes.everything.to: ")
    service.change(lambda s: s["timeouts"].update(publish="3s"))
    code, said = plan()
    assert code == 5
    assert "restart timeouts.publish: 60.0 -> 3.0" in said
    assert service.topic_of_next() == "events", "nothing was taken up"


def test_an_id_of_the_api_in_the_file_refuses_the_reload(service: ReloadService) -> None:
    """Design: the same id in both is for a person to decide."""
    document = {
        "id": "mine",
        "source": {"broker": "log", "topics": ["events"]},
        "sink": "http://127.0.0.1:9/",
        "handshake": "off",
    }
    assert service.ask("POST", "/v1/subscriptions", document)[0] == 201
    service.change(lambda s: s["subscriptions"].append(document))
    status, said = service.reload()
    assert status == 422
    assert "was also created by the API" in said["faults"][0]["detail"]
    service.change(lambda s: s["subscriptions"].clear())
    assert service.ask("DELETE", "/v1/subscriptions/mine")[0] == 200


def test_a_folder_mount_whose_link_moves_is_seen(tmp_path: Path) -> None:
    """A Kubernetes ConfigMap: ``..data`` is a link that is put in another's place, and the file one into it."""
    house = ReloadService(tmp_path, watch="200ms")
    mount = tmp_path / "etc"
    for version in ("one", "two"):
        (mount / version).mkdir(parents=True)
    text = house.file.read_text()
    (mount / "one" / "skybridge.yaml").write_text(text)
    (mount / "two" / "skybridge.yaml").write_text(text.replace('"events"\n', '"swapped"\n'))
    (mount / "..data").symlink_to("one")
    house.file.unlink()
    house.file.symlink_to(mount / "..data" / "skybridge.yaml")
    with house.running():
        before = house.configuration()
        (mount / "..new").symlink_to("two")
        (mount / "..new").rename(mount / "..data")
        assert house.until_reloaded("file", before)["outcome"] == "ok"
        assert house.topic_of_next() == "swapped"
        (mount / "two" / "skybridge.yaml").write_text("version: 1\nbrokers: {")
        refused = house.until_reloaded("file", house.configuration())
        assert refused["faults"][0].startswith("line 2: error: The file is not valid YAML")
        assert house.process.stop() == 0

"""What the README leads a reader through, step by step."""

from __future__ import annotations

import re
import tomllib
from contextlib import AbstractContextManager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from free_ports import free_ports
from pages import CHECKOUT, section
from pasting import Terminals, terminals
from terminal_pictures import LARGEST, PICTURES, SCENES, Scene, commands, make
from waiting import wait_until

_PACKAGE = re.compile(
    r"(?:pip|pipx|uv tool|uv pip) install[^\n`]*\bskybridge\b|\b(?:uvx|uv add) skybridge\b|\bskybridge\[[a-z]"
)
PAGE = CHECKOUT / "README.md"
README = PAGE.read_text()


def opened(folder: Path, **ports: str) -> AbstractContextManager[Terminals]:
    """Terminals in a folder, with free ports in place of those that the README names. Without further ports every
    command is the program itself, as the first commands of a reader are.
    """
    named = ("8080", "8081", "9000")
    free = dict(zip(named, map(str, free_ports(3)), strict=True))
    return terminals(folder, free | ports, forked=bool(ports))


def shows(terminal: Terminals, *texts: str) -> None:
    """Wait until the webhook on port 9000 has printed these texts."""
    wait_until(
        lambda: all(text in terminal.shown("9000") for text in texts), f"{texts} in the webhook", 60
    )


def test_your_first_event_is_delivered(tmp_path: Path) -> None:
    """Each block as pasted: a webhook, a service, an event, and its way."""
    webhook, service, event, find = section(PAGE, "Your first event")
    with opened(tmp_path) as terminal:
        terminal.paste(webhook)
        terminal.paste(service)
        assert "202 Accepted" in terminal.paste(event)
        shows(terminal, '{"order":"A-1001"}')
        assert "delivered by attempt 1" in terminal.paste(find)


@pytest.mark.kafka
def test_kafka_and_the_door_work_as_pasted(tmp_path: Path, kafka: str) -> None:
    """The orders of at least 99.90 arrive in order with a valid signature. Then a sender needs a key, and then a
    webhook of GitHub arrives.
    """
    port = {"9092": kafka.rpartition(":")[2]}
    service, webhook, orders = section(PAGE, "Kafka")
    key, order, *github = section(PAGE, "Who may send")
    with opened(tmp_path, **port) as terminal:
        terminal.paste(service)
        terminal.paste(webhook)
        terminal.paste(orders)
        shows(terminal, "250.00", "99.90")
        assert re.findall(r'"total": ([0-9.]+)', terminal.shown("9000")) == ["250.00", "99.90"]
        assert terminal.shown("9000").count("signature valid") == 2
        terminal.paste(key)
        said = terminal.paste(order)
        assert "401" in said
        assert "refused" in said
        shows(terminal, '"total": 120')
        for block in github:
            terminal.paste(block)
        shows(terminal, "com.github.push")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_picture_of_a_terminal_shows_the_commands_of_the_page(scene: Scene) -> None:
    """After a change of the README, `make pictures` makes it again."""
    file = PICTURES / f"{scene.name}.svg"
    assert f"docs/pictures/{file.name}" in README
    text = file.read_text()
    description = ET.fromstring(text).findtext("{http://www.w3.org/2000/svg}desc")
    assert description == commands(scene)
    assert len(text) <= LARGEST
    assert "http" not in re.sub(r"xmlns=|127\.0\.0\.1", "", text).replace(
        "http://www.w3.org", ""
    ).replace("http://:", "")


@pytest.mark.nightly
@pytest.mark.kafka
def test_the_pictures_of_terminals_are_made(tmp_path: Path, kafka: str) -> None:
    """As `make pictures` makes them."""
    make(tmp_path, kafka)
    assert {each.name for each in tmp_path.glob("*.svg")} == {f"{each.name}.svg" for each in SCENES}


def test_nobody_is_sent_to_a_package_that_is_not_ours() -> None:
    """Nothing is published: on PyPI, `skybridge` is another project. Pages, messages and helps name none."""
    places = [CHECKOUT / "README.md", CHECKOUT / "Dockerfile", CHECKOUT / "Makefile"]
    for folder, ending in (("docs", "md"), ("docs", "yaml"), ("app", "py"), ("helm", "*")):
        places += [each for each in (CHECKOUT / folder).rglob(f"*.{ending}") if each.is_file()]
    found = [
        f"{place.relative_to(CHECKOUT)}: {match[0]}"
        for place in places
        for match in _PACKAGE.finditer(place.read_text())
    ]
    assert found == []


def test_the_distribution_has_a_name_of_its_own() -> None:
    """The command is `skybridge`; what would be uploaded is not named like somebody else's project."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "skybridge-cloudevents"
    assert list(project["scripts"]) == ["skybridge"]

"""An operator's own key mappers: found by name, imported only when asked for, errors said."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from app.config.derived.key_mappers import known_mappers, load_key_mappers
from app.errors import SetupError
from app.model.route import Route

Lint = Callable[..., list[str]]
Install = Callable[..., None]

MODULE = """
def by_subject(attributes, data, request_key):
    return attributes.get("subject")

async def later(attributes, data, request_key):
    return None

number = 5
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a distribution with entry points onto the path, as an installer would."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "skybridge_test_keys.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "skybridge_test_keys", raising=False)

    def put(distribution: str = "keys", **mappers: str) -> None:
        folder = tmp_path / f"{distribution}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n"
        )
        lines = [f"{name} = skybridge_test_keys:{place}\n" for name, place in mappers.items()]
        (folder / "entry_points.txt").write_text("[skybridge.key_mappers]\n" + "".join(lines))

    return put


def route(mapper: str) -> Route:
    settings: Mapping[str, object] = {"name": "r", "to": {"broker": "log", "topic": "t"}}
    return Route.model_validate({**settings, "key": {"mapper": mapper}})


def test_a_registered_mapper_is_loaded(install: Install) -> None:
    """By the name that the route gives, and nothing else with it."""
    install(shop="by_subject", broken="gone")
    assert "skybridge_test_keys" not in sys.modules
    loaded = load_key_mappers([route("shop"), route("shop"), route("none")])
    assert list(loaded) == ["shop"]
    assert loaded["shop"]({"subject": "s"}, None, None) == "s"


def test_built_in_mappers_import_nothing(install: Install) -> None:
    """Whoever uses none pays nothing, and no package can replace one under an operator's feet."""
    install(hash="by_subject")
    assert load_key_mappers([route("from_request"), route("none")]) == {}
    assert known_mappers("none").count("hash") == 1
    assert "skybridge_test_keys" not in sys.modules


@pytest.mark.parametrize(
    ("mappers", "said"),
    [
        ({"shop": "gone"}, "cannot be imported: AttributeError"),
        ({"shop": "number"}, "is not a plain callable"),
        ({"shop": "later"}, "is not a plain callable"),
    ],
)
def test_a_mapper_that_cannot_serve_refuses_the_start(
    install: Install, mappers: dict[str, str], said: str
) -> None:
    """Before the first event, with the place that registers it."""
    install(**mappers)
    with pytest.raises(SetupError, match=said) as refused:
        load_key_mappers([route("shop")])
    assert "skybridge_test_keys:" in str(refused.value)


def test_a_name_registered_twice_refuses_the_start(install: Install) -> None:
    """Which of two would be used is nothing to leave to the order of a path."""
    install("one", shop="by_subject")
    install("two", shop="later")
    with pytest.raises(SetupError, match="registered twice"):
        load_key_mappers([route("shop")])


def test_check_knows_the_registered_names(install: Install, lint_text: Lint) -> None:
    """A misspelt name is told with the nearest one, built in or not; a broken one with its reason."""
    install(shop="by_subject", broken="gone")
    text = "routes: [{{name: r, to: {{broker: log, topic: t}}, key: {{mapper: {}}}}}]\n"
    assert lint_text(text.format("shop")) == []
    assert lint_text(text.format("shpo")) == [
        "error routes[0].key.mapper: The key mapper 'shpo' does not exist. Cure: Did you mean shop?"
    ]
    assert lint_text(text.format("partitonkey")) == [
        (
            "error routes[0].key.mapper: The key mapper 'partitonkey' does not exist. Cure: Did you mean partitionkey?"
        )
    ]
    (found,) = lint_text(text.format("broken"))
    assert found.startswith("error routes[0].key.mapper: The key mapper 'broken' ")

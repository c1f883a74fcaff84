"""The gateway is built with the key mappers that its routes name, and the worker without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.load.loader import Loaded
from app.config.model.config import Config
from app.errors import SetupError
from app.features.events.component import EventsComponent
from app.interfaces.clock import SystemClock
from app.runtime.compose import compose


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """One route that asks for an operator's own mapper."""
    route = {"name": "r", "to": {"broker": "log", "topic": "t"}, "key": {"mapper": "shop"}}
    return Config.model_validate(
        {
            "version": 1,
            "store": {"kind": "sqlite", "path": str(tmp_path / "store.db")},
            "brokers": {"log": {"kind": "embedded", "path": str(tmp_path / "log")}},
            "routes": [route],
        }
    )


def test_a_registered_mapper_reaches_the_routes(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an installer leaves it: a module and its entry point on the path."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "skybridge_build_keys.py").write_text("def shop(*_):\n    return 'k'\n")
    info = tmp_path / "keys-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: keys\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[skybridge.key_mappers]\nshop = skybridge_build_keys:shop\n"
    )
    assert compose(Loaded.of(config), SystemClock(), ("gateway",)).find(EventsComponent)


def test_an_unregistered_mapper_refuses_the_start(config: Config) -> None:
    """A route that came up without its mapper would send every event to the wrong lane."""
    with pytest.raises(
        SetupError, match=r"routes\[0\]\.key\.mapper: there is no key mapper 'shop'"
    ):
        compose(Loaded.of(config), SystemClock(), ("gateway",))


def test_a_worker_asks_for_no_mapper(config: Config) -> None:
    """It never makes a key again."""
    assert compose(Loaded.of(config), SystemClock(), ("worker",)).find(EventsComponent) is None

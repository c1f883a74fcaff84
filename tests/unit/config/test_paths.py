"""Where a configuration keeps its data and reads its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.check.paths import named_paths
from app.config.load.loader import Loaded

Load = Callable[..., Loaded]
Lint = Callable[..., list[str]]


def test_each_path_is_whole_and_named_once(
    load_text: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path depends on where the service starts: another folder would open empty stores."""
    (tmp_path / "token").write_text("a-token-of-sixteen-characters")
    monkeypatch.chdir(tmp_path)
    text = (
        "version: 1\nstore: {kind: sqlite, path: ./data/store.db}\n"
        "brokers: {log: {kind: embedded, path: ./data/log}}\n"
        "server: {admin: {token: '${file:token}', tokens: "
        "[{name: other, token: '${file:token}', scopes: [read]}]}}\n"
    )
    assert [str(each) for each in named_paths(load_text(text).config)] == [
        f"log     {tmp_path}/data/log  (brokers.log.path)",
        f"store   {tmp_path}/data/store.db  (store.path)",
        f"file    {tmp_path}/token  (server.admin.token)",
    ]


def test_a_secret_that_others_can_read_is_a_warning(lint_text: Lint, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-of-sixteen-characters")
    text = (
        f"server: {{admin: {{token: '${{file:{file}}}'}}}}\n"
        "routes: [{name: r, to: {broker: log, topic: t}}]\n"
    )
    assert lint_text(text) == []
    file.chmod(0o640)  # as a volume of Kubernetes has it
    assert lint_text(text) == []
    file.chmod(0o644)
    assert lint_text(text) == [
        (
            f"warning server.admin.token: The file {file} has a secret, and every user of this machine can read it. "
            f"Cure: Run chmod 600 {file}."
        )
    ]

"""`skybridge init` without a terminal: options and defaults, secrets apart, nothing overwritten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli import exits
from app.cli.commands import app

WEBHOOK = "http://127.0.0.1:9000/hook"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words: str) -> Result:
    """The command as a program runs it: standard input is no terminal."""
    return CliRunner().invoke(app, ["init", *words])


@pytest.mark.parametrize("words", [[], ["--yes"], ["other.yaml", "-y"]])
def test_without_options_it_asks_nothing_and_uses_the_defaults(
    here: Path, words: list[str]
) -> None:
    """A script must not wait for an answer."""
    done = init(*words)
    assert done.exit_code == exits.OK, done.output
    assert "0 errors" in done.stderr
    assert "next: skybridge serve --config" in done.stderr
    (file,) = here.iterdir()
    assert "subscriptions: []" in file.read_text()
    assert "kind: embedded" in file.read_text()


def test_the_next_command_can_be_pasted(here: Path) -> None:
    """A name with spaces was two words to the shell."""
    done = init("mein büro.yaml", "--yes")
    assert "next: skybridge serve --config 'mein büro.yaml'" in done.stderr


def test_each_secret_has_a_file_that_only_its_owner_can_read(here: Path) -> None:
    """No secret is in the configuration or in the output."""
    done = init("shop.yaml", "--senders", "key,github", "--deliver", WEBHOOK, "--signed")
    assert done.exit_code == exits.OK, done.output
    text = (here / "shop.yaml").read_text()
    secrets = {each.name: each for each in here.iterdir() if each.name != "shop.yaml"}
    assert set(secrets) == {"shop.key", "shop.github.secret", "shop.signing.secret"}
    for name, file in secrets.items():
        assert file.stat().st_mode & 0o777 == 0o600
        assert f"${{file:{name}}}" in text
        assert file.read_text().strip() not in text + done.output
        assert f"wrote {name}: " in done.stderr
    assert (here / "shop.signing.secret").read_text().startswith("whsec_")


def test_a_secret_that_exists_is_kept(here: Path) -> None:
    """Others know it already."""
    (here / "skybridge.key").write_text("a-key-that-a-sender-has\n")
    (here / "skybridge.key").chmod(0o600)
    done = init("--senders", "key")
    assert done.exit_code == exits.OK, done.output
    assert "kept skybridge.key" in done.stderr
    assert (here / "skybridge.key").read_text() == "a-key-that-a-sender-has\n"


def test_an_existing_file_is_never_overwritten(here: Path) -> None:
    """A user's configuration may be in it. Nothing else is written either."""
    (here / "skybridge.yaml").write_text("mine")
    assert init("--senders", "key").exit_code == exits.SETUP
    assert [each.name for each in here.iterdir()] == ["skybridge.yaml"]
    assert (here / "skybridge.yaml").read_text() == "mine"


def test_a_folder_that_does_not_exist_is_named() -> None:
    done = init("away/shop.yaml", "--senders", "key")
    assert done.exit_code == exits.SETUP
    assert "cannot be written: the folder away does not exist" in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--broker", "kafak"], "--broker: The broker kafak is not known. Did you mean kafka?"),
        (["--address", "k:1"], "--address does not apply, because the embedded log"),
        (["--broker", "kafka", "--address", "k"], "--address: The value has the wrong form"),
        (["--senders", "local,key"], "--senders: The senders local and key exclude each other"),
        (["--senders", "github,nobody"], "--senders: The sender nobody is not known."),
        (["--senders", ","], "--senders: No sender is named."),
        (["--deliver", "billing"], "--deliver: The target billing is not a URL."),
        (["--deliver", "ftp://h/"], "--deliver: The value has the wrong form"),
        (["--deliver", "http://u:p@h/"], "--deliver: The URL has a user name or password"),
        (["--deliver", "pull", "--signed"], "--signed does not apply"),
    ],
    ids=" ".join,
)
def test_a_bad_option_is_refused_with_its_reason(here: Path, words: list[str], reason: str) -> None:
    """As the question refuses it, and nothing is written."""
    done = init(*words)
    assert done.exit_code == exits.SETUP
    told = re.sub(r"\s+(cure\s+)?", " ", done.stderr)
    assert reason in told
    assert "cure" in done.stderr
    assert list(here.iterdir()) == []


def test_the_host_of_a_private_webhook_is_allowed(here: Path) -> None:
    """Who writes the file names the target, so its address needs no second permission."""
    assert init("--deliver", "http://billing.shop.svc/hook").exit_code == exits.OK
    assert 'localhost, "billing.shop.svc"]' in (here / "skybridge.yaml").read_text()

"""Write the files of ``skybridge init``: the configuration, and each secret apart from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from app.cli import exits, keys, printing
from app.cli.producers import new_key
from app.cli.secret import new_shared_secret
from app.config.starter.choices import KEY, SIGNING, SecretFile, StarterChoices
from app.config.starter.text import starter_text

_OF_PUBLISHER: Mapping[str, str] = {"stripe": "Stripe", "slack": "Slack", "shopify": "Shopify"}
"""The publishers that make the secret themselves."""


def require_new(file: Path) -> None:
    """End the command if the file exists, or if its folder does not."""
    if os.path.lexists(file):
        printing.fail(f"{file} already exists.", cure="Name another file.", code=exits.SETUP)
    if not file.parent.is_dir():
        printing.fail(
            f"{file} cannot be written: the folder {file.parent} does not exist.",
            cure="Make the folder, or name another file.",
            code=exits.SETUP,
        )


def write(choices: StarterChoices) -> None:
    """Write each secret that does not exist yet, and the configuration. Print every file with its use."""
    written = [(each, _write_secret(each)) for each in choices.secret_files()]
    try:
        with Path(choices.file).open("x", encoding="utf-8") as target:
            target.write(starter_text(choices))
    except OSError as failure:
        printing.fail(
            f"{choices.file} cannot be written: {failure.strerror}.",
            cure=keys.WRITABLE,
            code=exits.SETUP,
        )
    print_line = printing.err().print
    print_line(f"wrote {choices.file}", markup=False)
    for (path, use), is_new in written:
        print_line(f"{'wrote' if is_new else 'kept'} {path}: {_use(use)}", markup=False)


def _write_secret(file: SecretFile) -> bool:
    """Write a new secret, and return True. Return False if the file exists, because others know its secret."""
    if os.path.lexists(file.path):
        return False
    keys.write_secret(Path(file.path), _secret(file.use), file.path)
    return True


def _secret(use: str) -> str:
    import secrets

    match use:
        case "key":
            return new_key()
        case "signing" | "standard_webhooks":
            return new_shared_secret()
        case _:
            return secrets.token_hex(32)


def _use(use: str) -> str:
    """Return what a user does with the secret."""
    if use == KEY:
        return "give this API key to the sender"
    if use == SIGNING:
        return "give this secret to the webhook, which verifies the signatures with it"
    if use in _OF_PUBLISHER:
        return f"replace this secret by the one that {_OF_PUBLISHER[use]} shows for its webhook"
    return f"enter this secret at {use}, for a webhook whose URL ends in /in/{use}"

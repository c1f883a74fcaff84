"""``skybridge secret`` generates keys for signatures and the key of the store."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from app.cli import exits, keys, printing
from app.cli.verbs import option, verb

_BYTES = 32


class SecretKind(StrEnum):
    """The purpose of a generated secret."""

    signing = "signing"
    store = "store"


@verb(
    "secret",
    "skybridge secret --out billing.secret",
    "skybridge secret --ed25519 --json",
    "skybridge secret --kind store --out store.key",
)
def run(
    ed25519: Annotated[
        bool,
        option(
            "Generate a key pair: the whsk_ key signs, and receivers verify with the whpk_ key."
        ),
    ] = False,
    kind: Annotated[
        SecretKind,
        option("Generate a secret for this purpose: signatures, or encryption of the store."),
    ] = SecretKind.signing,
    out: Annotated[
        Path | None,
        option("Write the secret into this new file, which only its owner can read (mode 0600)."),
    ] = None,
    json_output: Annotated[bool, option("Print one JSON document.", "--json")] = False,
) -> None:
    """Generate a signing secret, or the key of the store.

    By default it is a shared secret (whsec_) that signs requests to a webhook by Standard Webhooks.
    The secret goes to standard output, alone on its line, or with --out into a file; a public key goes
    to standard error.
    --kind store generates a key for store.encryption.key.
    """
    if kind is SecretKind.store and ed25519:
        printing.fail(
            "--ed25519 does not apply to --kind store: the key of the store is not a key pair.",
            cure="Remove --ed25519.",
            code=exits.SETUP,
        )
    made = _made(kind, ed25519=ed25519)
    if out is not None:
        keys.write_secret(out, made.pop("secret"), f"--out {out}")
        made["file"] = str(out)
    if json_output:
        printing.json_line(made)
        return
    if "secret" in made:
        printing.text_line(made["secret"])
    if "public" in made:
        printing.err().print(f"for receivers: {made['public']}")


def _made(kind: SecretKind, *, ed25519: bool) -> dict[str, str]:
    if kind is SecretKind.store:
        from app.store.encryption import new_key

        return {"secret": new_key()}
    return _pair() if ed25519 else {"secret": new_shared_secret()}


def new_shared_secret() -> str:
    """Return a new shared secret (whsec_) for signatures."""
    import secrets

    from app.model.signing_key import KeyKind, SigningKey, write_key

    return write_key(SigningKey(KeyKind.SECRET, secrets.token_bytes(_BYTES)))


def _pair() -> dict[str, str]:
    """Return a new Ed25519 key pair. The secret contains the private key followed by the public
    key, as in libsodium.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from app.model.signing_key import KeyKind, SigningKey, write_key

    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    return {
        "secret": write_key(SigningKey(KeyKind.PRIVATE, private.private_bytes_raw() + public)),
        "public": write_key(SigningKey(KeyKind.PUBLIC, public)),
    }

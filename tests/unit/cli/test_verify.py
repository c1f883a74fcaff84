"""``skybridge secret`` and ``skybridge verify``, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.commands import app
from app.delivery.signing import NAMES, signature_values, signer
from app.model.signing_key import read_key
from app.store.encryption import is_key

AT = 1_700_000_000
BODY = b'{"a":\r\n\r\n1}'


def run(*arguments: str, stdin: bytes = b""):
    return CliRunner().invoke(app, arguments, input=stdin)


def a_request(secret: str, end: bytes = b"\r\n") -> bytes:
    values = signature_values([signer(read_key(secret))], "msg_1", str(AT), BODY)
    lines = [f"{name.title()}: {value}".encode() for name, value in zip(NAMES, values, strict=True)]
    return end.join([b"POST /hook HTTP/1.1", b"Host: a:1", *lines, b"", BODY])


def test_a_key_of_the_store_is_one_and_another_each_time():
    """What store.encryption.key takes."""
    keys = [run("secret", "--kind", "store").stdout.strip() for _ in range(2)]
    assert all(map(is_key, keys))
    assert keys[0] != keys[1]
    assert run("secret", "--kind", "store", "--ed25519").exit_code == 2


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize("kind", [(), ("--ed25519",)])
def test_what_secret_makes_signs_and_verifies(kind, end):
    """The receiver of a pair has the public key alone."""
    made = json.loads(run("secret", "--json", *kind).stdout)
    key = made.get("public", made["secret"])
    arguments = ("verify", "--key", key, "--at", str(AT + 299))
    valid = run(*arguments, stdin=a_request(made["secret"], end))
    assert (valid.exit_code, valid.stdout) == (0, "valid: signed by 1 of 1 keys\n")
    changed = run(*arguments, "--json", stdin=a_request(made["secret"], end) + b" ")
    assert changed.exit_code == 1
    assert json.loads(changed.stdout)["valid"] is False


def test_a_bad_signature_beside_a_good_one_is_skipped():
    made = json.loads(run("secret", "--json").stdout)
    sent = a_request(made["secret"])
    for text in (
        sent.replace(b"Webhook-Signature: ", b"Webhook-Signature: v1a,xyz v9,x v1,abc "),
        sent.replace(b"Webhook-Signature: ", b"Webhook-Signature: v1,abc\r\nWebhook-Signature: "),
    ):
        assert text != sent
        result = run("verify", "--key", made["secret"], "--at", str(AT), stdin=text)
        assert (result.exit_code, result.stdout) == (0, "valid: signed by 1 of 1 keys\n")


def test_two_secrets_differ_and_the_secret_stands_alone_on_its_line():
    """So that it can be redirected into a file."""
    one, other = run("secret").stdout, run("secret").stdout
    assert one != other
    assert read_key(one.removesuffix("\n"))


def test_headers_and_body_may_be_files_of_their_own(tmp_path: Path):
    secret = run("secret").stdout.strip()
    head, _, body = a_request(secret).partition(b"\r\n\r\n")
    for name, content in (("head", head), ("body", body), ("key", secret.encode() + b"\n")):
        (tmp_path / name).write_bytes(content)
    files = ("--headers", f"{tmp_path}/head", "--body", f"{tmp_path}/body")
    result = run("verify", *files, "--key-file", f"{tmp_path}/key", "--at", str(AT))
    assert result.exit_code == 0, result.output
    late = run("verify", *files, "--key-file", f"{tmp_path}/key", "--at", str(AT + 301))
    assert "301 s old: more than 300 s" in late.stdout
    patient = ("--tolerance", "400", "--at", str(AT + 301))
    assert run("verify", *files, "--key-file", f"{tmp_path}/key", *patient).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "--key is missing"),
        (("--key", "canary"), "--key 1: The key does not begin with"),
        (("--headers", "x"), "--headers and --body work only together"),
        (("--key-file", "/nowhere"), "cannot be read"),
    ],
)
def test_a_wrong_option_is_exit_code_2_and_repeats_no_key(arguments, told):
    result = run("verify", *arguments, stdin=b"A: b\n\nbody")
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())
    assert "canary" not in result.output


@pytest.mark.parametrize("kind", ["signing", "store"])
def test_a_secret_in_a_file_is_its_owners_alone(tmp_path: Path, kind: str):
    """And the file of another secret is never overwritten."""
    file = tmp_path / "billing.secret"
    made = run("secret", "--kind", kind, "--out", str(file))
    assert (made.exit_code, made.stdout, made.stderr) == (0, "", "")
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    assert text.strip()
    again = run("secret", "--kind", kind, "--out", str(file), "--json")
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    assert file.read_text() == text


def test_a_pair_in_a_file_shows_its_public_half(tmp_path: Path):
    made = json.loads(run("secret", "--ed25519", "--json", "--out", str(tmp_path / "pair")).stdout)
    assert sorted(made) == ["file", "public"]
    assert (tmp_path / "pair").read_text().startswith("whsk_")

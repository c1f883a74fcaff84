"""Secrets at rest: readable with the key alone, also while the key changes."""

from __future__ import annotations

import pytest

from app.store.encryption import SecretUnreadable, Vault, is_key, is_sealed, new_key

OLD, NEW = new_key(), new_key()


def test_what_is_sealed_is_read_with_the_key_alone():
    sealed = Vault([OLD]).seal("hunter2 ü")
    assert is_sealed(sealed)
    assert "hunter2" not in str(sealed)
    assert Vault([OLD]).open(sealed) == "hunter2 ü"
    for keys in ([NEW], []):
        with pytest.raises(SecretUnreadable) as refused:
            Vault(keys).open(sealed)
        assert "hunter2" not in str(refused.value)


def test_while_the_key_changes_both_read_and_the_present_one_seals():
    old = Vault([OLD]).seal("s")
    both = Vault([NEW, OLD])
    assert both.open(old) == "s"
    assert not both.is_present(old)
    assert Vault([NEW]).open(both.seal("s")) == "s"


def test_the_same_secret_never_looks_the_same():
    vault = Vault([OLD])
    assert vault.seal("s") != vault.seal("s")


def test_a_changed_one_is_refused():
    sealed = Vault([OLD]).seal("s")
    with pytest.raises(SecretUnreadable):
        Vault([OLD]).open({"$fernet": sealed["$fernet"][:-4] + "AAAA"})


@pytest.mark.parametrize("value", [{"fernet": "x"}, {"$fernet": "x", "more": 1}, "x", None, []])
def test_nothing_a_user_writes_is_taken_for_a_sealed_one(value):
    assert not is_sealed(value)


def test_a_key_is_told_from_what_is_none():
    assert is_key(OLD)
    assert not any(map(is_key, ["", "short", "x" * 44, "é" * 44]))

"""How a PostgreSQL store connects. What every store does is in tests/contract/test_store.py."""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from app.store.postgresql import engine_of, name_of


@pytest.mark.parametrize(("query", "expected"), [("", 5000), ("?tcp_user_timeout=900", "900")])
def test_a_server_that_is_gone_holds_a_statement_no_longer_than_the_time_out(
    monkeypatch: pytest.MonkeyPatch, query: str, expected: object
) -> None:
    """Linux sends what was not received again for a quarter of an hour, and the one thread of the store would wait. A
    promoted standby would be found only after that (tests/proof: store-cut-off)."""
    given: dict[str, object] = {}

    def connect(**settings: object) -> None:
        given.update(settings)
        raise psycopg.OperationalError("gone")

    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(OperationalError):
        engine_of(f"postgresql://db.example/skybridge{query}", timeout=5.0).connect()
    assert given["tcp_user_timeout"] == expected


@pytest.mark.parametrize(
    ("dsn", "name"),
    [
        ("postgresql://sky:secret@a:1/db", "postgresql://a:1/db"),
        ("postgresql://sky:secret@a,b/db", "postgresql://a:5432,b:5432/db"),
        (
            "postgresql://sky:secret@a:1,b:2/db?target_session_attrs=read-write",
            "postgresql://a:1,b:2/db",
        ),
        ("dbname=db", "postgresql://localhost:5432/db"),
        ("host=a,b port=7 dbname=db", "postgresql://a:7,b:7/db"),
    ],
)
def test_messages_name_all_servers_and_no_password(dsn: str, name: str) -> None:
    assert name_of(dsn) == name

"""The bytes of unfinished bodies are divided among producers, intakes and strangers."""

from __future__ import annotations

from app.gateway.listener import UNAUTHENTICATED, BodyShares


def test_each_share_has_its_own_part_and_all_have_the_common_one() -> None:
    bodies = BodyShares(400)
    bodies.divide(400, intakes=1, largest=60)  # 200 for producers, 50 for each other, 100 in common
    assert bodies.hold("hook", 150)
    assert not bodies.hold("hook", 1)
    bodies.hold("hook", -1)
    assert bodies.hold(UNAUTHENTICATED, 50)
    assert not bodies.hold(UNAUTHENTICATED, 1)
    bodies.hold(UNAUTHENTICATED, -1)
    assert bodies.hold(None, 200)
    assert bodies.total == 400
    assert not bodies.hold(None, 1)
    bodies.hold(None, -1)
    bodies.hold("hook", -150)
    assert bodies.hold(None, 100)
    bodies.hold(None, -300)
    bodies.hold(UNAUTHENTICATED, -50)
    assert bodies.total == 0


def test_a_large_body_always_has_room_when_nothing_else_is_held() -> None:
    """``receiving`` may be as small as the largest body."""
    bodies = BodyShares(100)
    bodies.divide(100, intakes=20, largest=100)
    assert bodies.hold("hook", 100)

"""The name by which an erasure asks for the position of the archive."""

from __future__ import annotations

from app.pipeline.archive.topics import keep_position as keep_positions

__all__ = ["keep_positions"]

"""``python -m app`` is ``skybridge``."""

from app.cli import main

main()

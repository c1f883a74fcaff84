"""The cause for which a role of a process does not work as it should."""

from __future__ import annotations

from typing import Self


class Cause(str):
    """The sentence that names the cause, together with the part at fault.

    Attributes:
        subject: The part at fault, if a verdict of its own may explain it, such as ``broker main``. Otherwise "".
    """

    __slots__ = ("subject",)
    subject: str

    def __new__(cls, sentence: str, subject: str = "") -> Self:
        made = super().__new__(cls, sentence)
        made.subject = subject
        return made


STORE = "store"


def broker_subject(name: str) -> str:
    return f"broker {name}"


def subscription_subject(name: str) -> str:
    return f"subscription {name}"

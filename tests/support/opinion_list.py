"""Read the checked-in list of disagreements between SDKs and Skybridge, and compare it with the
results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from opinion_verdicts import Opinion

LIST = Path(__file__).parent.parent / "opinions" / "disagreements.json"
VERDICTS = ("accepts", "refuses", "differs", "invalid")


class Invention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An attribute that an SDK adds to events that have none. Other cases do not count it."""

    sdk: str
    attribute: str
    does: str
    clause: str
    right: str


class Stance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The behaviour of one SDK in a class of cases.

    Attributes:
        does: The behaviour, in words. accepts, refuses, differs, invalid: Patterns of the ids of
            cases with this verdict.
        wavers: Patterns of cases whose outcome changes from run to run, agreement included.
    """

    does: str
    accepts: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    wavers: tuple[str, ...] = ()

    def patterns(self) -> Iterator[tuple[str, str]]:
        for verdict in VERDICTS:
            for pattern in getattr(self, verdict):
                yield verdict, pattern

    def covers(self, opinion: Opinion) -> bool:
        patterns = (*getattr(self, opinion.verdict, ()), *self.wavers)
        return any(fnmatchcase(opinion.case, pattern) for pattern in patterns)

    def is_unsteady(self, opinion: Opinion) -> bool:
        return any(fnmatchcase(opinion.case, pattern) for pattern in self.wavers)


class Disagreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class of cases in which SDKs disagree with Skybridge.

    Attributes:
        about: What the class is about.
        clause: The clause of a specification that decides.
        right: Who is right; ``open`` if the clause leaves a choice.
        cause: Why they disagree.
        sdks: What each SDK does, by its name.
    """

    about: str
    clause: str
    right: str
    cause: str
    sdks: dict[str, Stance]


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the list: attributes that SDKs invent, and classes of disagreements."""

    inventions: tuple[Invention, ...]
    classes: tuple[Disagreement, ...]

    def invented_by(self, sdk: str) -> frozenset[str]:
        return frozenset(each.attribute for each in self.inventions if each.sdk == sdk)

    def stances(self, sdk: str) -> list[tuple[str, Stance]]:
        return [(each.about, each.sdks[sdk]) for each in self.classes if sdk in each.sdks]

    def is_unsteady(self, opinion: Opinion) -> bool:
        return any(stance.is_unsteady(opinion) for _, stance in self.stances(opinion.sdk))


def listed() -> Listed:
    return msgspec.json.decode(LIST.read_bytes(), type=Listed)


def disagreeing(opinions: Sequence[Opinion]) -> list[Opinion]:
    return [each for each in opinions if each.verdict in VERDICTS]


def unlisted(sdk: str, opinions: Sequence[Opinion], known: Listed) -> list[str]:
    """Return the disagreements of an SDK that no class of the list covers."""
    stances = known.stances(sdk)
    return [
        f"{each.case} {each.verdict}: {each.detail}"
        for each in disagreeing(opinions)
        if not any(stance.covers(each) for _, stance in stances)
    ]


def vanished(sdk: str, opinions: Sequence[Opinion], known: Listed) -> list[str]:
    """Return the patterns and invented attributes on the list that the run did not show."""
    seen = disagreeing(opinions)
    gone = [
        f"{about}: {verdict} {pattern}"
        for about, stance in known.stances(sdk)
        for verdict, pattern in stance.patterns()
        if not any(each.verdict == verdict and fnmatchcase(each.case, pattern) for each in seen)
    ]
    invented = frozenset[str]().union(*(each.invented for each in opinions))
    return gone + [f"invents {name}" for name in sorted(known.invented_by(sdk) - invented)]

"""Compare the results of the official Java SDK for CloudEvents SQL expressions with those of
Skybridge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from cesql_table import Case, Outcome, event_of, ours, plain
from cesql_variants import explaining
from opinion_install import CESQL
from opinion_process import Driver

LIST = Path(__file__).parent.parent / "opinions" / "cesql_disagreements.json"

_KINDS = {
    "CAST": "cast",
    "MISSING_ATTRIBUTE": "missingAttribute",
    "MISSING_FUNCTION": "missingFunction",
    "FUNCTION_EVALUATION": "functionEvaluation",
    "MATH": "math",
    "GENERIC": "generic",
}


class Comparison(msgspec.Struct, frozen=True):
    """The results of Skybridge and of the Java SDK for one case.

    Both results, ``theirs`` and ``ours``, are those at the first error. ``raised`` is the exception
    of the Java engine, if it failed.
    """

    case: Case
    ours: Outcome
    theirs: Outcome
    raised: str = ""

    @property
    def agrees(self) -> bool:
        """Return True if both engines have the same value or the same first error.

        After an error the values are not compared, because they may depend on the evaluation mode
        (CESQL 4.1).
        """
        if self.raised:
            return False
        if self.ours.errors or self.theirs.errors:
            return self.ours.errors == self.theirs.errors
        return self.ours == self.theirs

    def __str__(self) -> str:
        return f"{self.case}: ours {_shown(self.ours)}, theirs {self.raised or _shown(self.theirs)}"


def _shown(outcome: Outcome) -> str:
    return outcome.errors[0] if outcome.errors else repr(outcome.value)


def compare_all(cases: Iterable[Case]) -> Iterator[Comparison]:
    """Yield the comparison of each case. A Java driver is started for this, and ended with the
    iteration.
    """
    with Driver(CESQL) as driver:
        for case in cases:
            answer = driver.ask({"expression": case.expression, "event": plain(case.event)})
            mine = ours(case.expression, event_of(case.event))
            yield Comparison(case, mine, _outcome(answer), answer.get("raised", ""))


def _outcome(answer: dict[str, Any]) -> Outcome:
    if "parse" in answer or "raised" in answer:
        return Outcome(None, ("parse",))
    first = answer["first"]
    return Outcome(answer["value"], (_KINDS[first],) if first else ())


class Disagreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One class of disagreements between the engines, with the clause of the specification that
    decides it.

    ``variant`` names the variant of our engine (``cesql_variants``) that gives the answer of the
    Java SDK. If no variant does, ``cases`` lists the cases of the table that show the disagreement.
    """

    about: str
    clause: str
    cause: str
    right: Literal["Skybridge", "open", "the SDK"]
    does: str
    variant: str = ""
    cases: tuple[str, ...] = ()


def listed() -> list[Disagreement]:
    return msgspec.json.decode(LIST.read_bytes(), type=list[Disagreement])


def classes_of(each: Comparison, known: list[Disagreement]) -> list[Disagreement]:
    """Return the known classes that explain a disagreement completely, or an empty list if none
    do.
    """
    by_name = [one for one in known if str(each.case) in one.cases]
    if by_name or each.raised or "parse" in each.ours.errors + each.theirs.errors:
        return by_name
    variants = explaining(each.case, each.theirs)
    return [one for one in known if one.variant in variants]

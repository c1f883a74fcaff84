"""A filter in the form in which users write it. The form is the same in configuration file and API
(Subscriptions API 3.2.4)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from app.filters.cesql.parser import MAX_LENGTH, parse
from app.filters.cesql.tokens import ParseError

MAX_NESTED = 16  # the greatest depth of filters inside filters

AttributeName = Annotated[str, Field(pattern=r"^[a-z0-9]+$")]
AttributeMatch = Annotated[
    dict[AttributeName, Annotated[str, Field(min_length=1)]], Field(min_length=1)
]


def _readable(expression: str) -> str:
    try:
        parse(expression)
    except ParseError as error:
        raise ValueError(f"{error.problem}. Cure: {error.cure}.") from None
    return expression


Sql = Annotated[str, Field(min_length=1, max_length=MAX_LENGTH), AfterValidator(_readable)]


class Filter(BaseModel):
    """One filter dialect with its argument (CloudEvents Subscriptions API, filters).

    Comparison is case-sensitive. An attribute that the event lacks does not match.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    exact: AttributeMatch | None = Field(None, description="each named attribute equals this text")
    prefix: AttributeMatch | None = Field(
        None, description="each named attribute begins with this text"
    )
    suffix: AttributeMatch | None = Field(
        None, description="each named attribute ends with this text"
    )
    all: Annotated[tuple[Filter, ...], Field(min_length=1)] | None = Field(
        None, description="every one of these filters matches"
    )
    any: Annotated[tuple[Filter, ...], Field(min_length=1)] | None = Field(
        None, description="at least one of these filters matches"
    )
    not_: Filter | None = Field(None, alias="not", description="this filter does not match")
    sql: Sql | None = Field(
        None, description="this CloudEvents SQL expression is true and has no error"
    )

    @model_validator(mode="after")
    def one_dialect(self) -> Filter:
        given = [getattr(self, each) is not None for each in DIALECTS]
        if sum(given) != 1:
            raise ValueError(
                f"The filter needs exactly one of {', '.join(DIALECTS.values())}. Cure: Write one of them; "
                "filters that must all match are entries of their own."
            )
        if self.levels > MAX_NESTED:
            raise ValueError(
                f"The filters are nested deeper than {MAX_NESTED}. Cure: Nest fewer filters, or write them as sql."
            )
        return self

    @property
    def inner(self) -> tuple[Filter, ...]:
        """Return the filters inside ``all``, ``any`` or ``not`` of this filter."""
        single = () if self.not_ is None else (self.not_,)
        return self.all or self.any or single

    @property
    def levels(self) -> int:
        """Return the depth of nesting: 1 for a filter without inner filters."""
        return 1 + max((each.levels for each in self.inner), default=0)


DIALECTS = {name: field.alias or name for name, field in Filter.model_fields.items()}
"""The names of the dialects in the configuration, by the field names of the model."""

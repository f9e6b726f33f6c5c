"""The kinds of values that `gpuyield.yaml` knows: how each is read, and what its JSON Schema says.

A value comes in as the text that was written (plain true, false and null excepted); a kind reads it with the grammar
of `values`. The schema of a kind never refuses what the kind accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, cast  # values of a decoder: pydantic hands them over untyped

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from gpuyield.declare import deadlines, values
from gpuyield.declare.tree import shown
from gpuyield.errors import DeclarationError
from gpuyield.model.declaration import (
    Deadline,
    Metric,
    OutcomeUnit,
    PriceBasis,
    PurchaseKind,
    RateRule,
    SharingRule,
)

MISTAKE = "gpuyield_mistake"
"""Error type of our own messages inside pydantic: `what`, `fix` and the `label` that `what` may start with."""

_NUMBER_PATTERN = rf"^\s*{values.NUMBER}\s*$"
_DURATION_PATTERN = r"^\s*\d[\d.\s]*(ms|s|m|h|d|w)[\d.\smshdw]*$"


def mistake(what: str, fix: str, label: str = "") -> PydanticCustomError:
    """Our own message as an error that pydantic collects."""
    return PydanticCustomError(MISTAKE, "{what} {fix}", {"what": what, "fix": fix, "label": label})


def zone_of(info: ValidationInfo) -> tzinfo:
    """The reporting zone, which pure dates are midnight of."""
    context = info.context
    return cast("tzinfo", context["zone"]) if isinstance(context, dict) and "zone" in context else UTC


def _reads(parse: Callable[[str, str, ValidationInfo], object], wanted: str) -> BeforeValidator:
    """A validator that reads text; anything else is refused with what was wanted."""

    def read(value: Any, info: ValidationInfo) -> object:
        label = (info.field_name or "value").removesuffix("_")
        if isinstance(value, bool):
            word = "true" if value else "false"
            raise mistake(f"{label} is {word}.", f'Write {wanted}; quote "{word}" if it is a name.', label)
        if not isinstance(value, str):
            kind = "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "empty"
            raise mistake(f"{label} is {kind}.", f"Write {wanted}.", label)
        try:
            return parse(value, label, info)
        except DeclarationError as err:
            raise mistake(err.mistakes[0].what, err.mistakes[0].fix, label) from err

    return BeforeValidator(read)


def _number_schema(**bounds: int) -> WithJsonSchema:
    kind = "integer" if bounds.pop("whole", 0) else "number"
    return WithJsonSchema({"anyOf": [{"type": kind, **bounds}, {"type": "string", "pattern": _NUMBER_PATTERN}]})


def _text_schema(**more: object) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **more})


def _choice(choices: type[StrEnum] | tuple[str, ...]) -> tuple[BeforeValidator, WithJsonSchema]:
    words = [str(one) for one in choices]

    def parse(text: str, label: str, _: ValidationInfo) -> object:
        word = values.parse_choice(text, label=label, choices=words)
        return word if isinstance(choices, tuple) else choices(word)

    return _reads(parse, "one of " + ", ".join(words)), WithJsonSchema({"enum": words})


Text = Annotated[
    str,
    _reads(lambda text, label, _: values.parse_text(text, label=label), "a text"),
    WithJsonSchema({"type": ["string", "number"], "minLength": 1}),
]
Ratio = Annotated[
    Decimal,
    _reads(lambda text, label, _: values.parse_ratio(text, label=label), "a ratio from 0 to 1"),
    _number_schema(minimum=0, maximum=1),
]
Number = Annotated[
    Decimal,
    _reads(lambda text, label, _: values.parse_number(text, label=label), "a number"),
    _number_schema(),
]
_LARGEST = 1_000_000_000
"""More than any currency's price of a GPU-hour; sums of such stay printable."""

PositiveNumber = Annotated[
    Decimal,
    _reads(lambda text, label, _: values.parse_number(text, label=label, at_least=0), "a number from 0 on"),
    _number_schema(minimum=0),
]
Amount = Annotated[
    Decimal,
    _reads(
        lambda text, label, _: values.parse_number(text, label=label, at_least=0, at_most=_LARGEST),
        "an amount from 0 on",
    ),
    _number_schema(minimum=0, maximum=_LARGEST),
]
Rate = Annotated[
    Decimal,
    _reads(
        lambda text, label, _: values.parse_number(text, label=label, above=0, at_most=_LARGEST), "a number above 0"
    ),
    _number_schema(exclusiveMinimum=0, maximum=_LARGEST),
]
Growth = Annotated[
    Decimal,
    _reads(lambda text, label, _: _growth(text, label), "a ratio per week such as 0.015"),
    _number_schema(minimum=-1, maximum=1),
]
Count = Annotated[
    int,
    _reads(lambda text, label, _: values.parse_count(text, label=label), "a whole number"),
    _number_schema(minimum=0, whole=1),
]
GpuCount = Annotated[
    int,
    _reads(lambda text, label, _: values.parse_count(text, label=label, at_least=1), "a whole number from 1 on"),
    _number_schema(minimum=1, whole=1),
]
LengthMs = Annotated[
    int,
    _reads(lambda text, label, _: values.parse_length(text, label=label), "a duration such as 30m"),
    _text_schema(pattern=_DURATION_PATTERN),
]
LeadTimeMs = Annotated[
    int,
    _reads(lambda text, label, _: values.parse_length(text, label=label, zero=True), "a duration such as 6w"),
    _text_schema(pattern=_DURATION_PATTERN),
]
Limit = Annotated[
    str,
    _reads(lambda text, label, _: values.parse_text(text, label=label), "a limit: 800ms, or a score"),
    WithJsonSchema({"type": ["string", "number"], "minLength": 1}),
]
TimeMs = Annotated[
    int,
    _reads(lambda text, label, info: values.parse_time(text, label=label, zone=zone_of(info)), "a time with a zone"),
    _text_schema(pattern=r"^\s*\d{4}-\d\d-\d\d"),
]
DeadlineText = Annotated[
    Deadline,
    _reads(
        lambda text, label, info: deadlines.parse_deadline(text, label=label, zone=zone_of(info)),
        "within 8h, 06:00 Europe/Berlin, milestone:NAME or a time",
    ),
    _text_schema(pattern=r"^\s*(within\b|milestone:|\d{1,2}:\d\d|\d{4}-\d\d-\d\d)"),
]
Clock = Annotated[
    int,
    _reads(lambda text, label, _: _minute(text, label), 'a clock time such as "08:00"'),
    _text_schema(pattern=r"^([01]\d|2[0-4]):[0-5]\d$"),
]
Days = Annotated[
    tuple[int, ...],
    _reads(lambda text, label, _: _weekdays(text, label), "weekdays such as mon-fri"),
    _text_schema(pattern=r"^\s*(mon|tue|wed|thu|fri|sat|sun)\b"),
]
ZoneName = Annotated[
    str, _reads(lambda text, _, __: values.parse_zone_name(text), "an IANA zone"), _text_schema(minLength=1)
]
Currency = Annotated[
    str,
    _reads(lambda text, label, _: values.parse_currency(text, label=label), "an ISO 4217 code such as EUR"),
    _text_schema(pattern=f"^{values.CURRENCY}$"),
]
CurrencyPair = Annotated[
    str, _reads(lambda text, label, _: _pair(text, label), "USD/EUR"), _text_schema(pattern="^[A-Z]{3}/[A-Z]{3}$")
]
Url = Annotated[
    str,
    _reads(lambda text, label, _: values.parse_url(text, label=label), "http://host:port"),
    _text_schema(pattern="^[hH][tT][tT][pP][sS]?://[^/]"),
]
ServiceAddress = Annotated[
    str,
    _reads(lambda text, label, _: values.parse_service(text, label=label), "namespace/name:port"),
    _text_schema(pattern="^[^/:]+/[^/:]+:[^/:]+$"),
]
RestartMs = Annotated[
    int | None,
    BeforeValidator(lambda value: None if value is False or value == "no" else _restart(value)),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": _DURATION_PATTERN}, {"enum": [False, "no"]}]}),
]
Policy = Annotated[
    str,
    _reads(lambda text, label, _: _policy(text, label), "all, any, precedence, or 2 of 3"),
    _text_schema(pattern=r"^(all|any|precedence|[1-9]\d* of [1-9]\d*)$"),
]
MetricWord = Annotated[Metric, *_choice(Metric)]
BasisWord = Annotated[PriceBasis, *_choice(PriceBasis)]
PurchaseWord = Annotated[PurchaseKind, *_choice(PurchaseKind)]
SharingWord = Annotated[SharingRule, *_choice(SharingRule)]
RateWord = Annotated[RateRule, *_choice(RateRule)]
UnitWord = Annotated[OutcomeUnit, *_choice(OutcomeUnit)]
OpWord = Annotated[str, *_choice(("lte", "lt", "gte", "gt"))]
ApiVersionWord = Annotated[str, *_choice(("gpuyield.dev/v1alpha1",))]
KindWord = Annotated[str, *_choice(("Cluster",))]
BillFormat = Annotated[str, *_choice(("focus",))]
OutcomeFormat = Annotated[
    str,
    *_choice(("jsonl", "parquet", "otlp", "inspect", "lm-eval", "langfuse", "litellm", "k8s", "goodput")),
]

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _growth(text: str, label: str) -> Decimal:
    number = values.parse_number(text, label=label, at_least=-1)
    if number > 1:
        raise DeclarationError(
            f"{label} {text.strip()} is above 1.", fix=f"Write {(number / 100).normalize():f} for {text.strip()} %."
        )
    return number


def _minute(text: str, label: str) -> int:
    if len(text) == 5 and text[2] == ":" and (text[:2] + text[3:]).isdecimal() and text.isascii():
        hour, minute = int(text[:2]), int(text[3:])
        if minute <= 59 and (hour < 24 or (hour == 24 and minute == 0)):
            return hour * 60 + minute
    raise DeclarationError(f'{label} "{shown(text)}" is not a clock time.', fix='Write "08:00".')


def _weekdays(text: str, label: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = (word.strip() for word in part.partition("-"))
        if first not in WEEKDAYS or (last and last not in WEEKDAYS):
            raise DeclarationError(
                f'{label} "{shown(text)}" names no weekdays.', fix="Write mon-fri, or mon, wed, sat."
            )
        start, end = WEEKDAYS.index(first), WEEKDAYS.index(last or first)
        found += [(start + step) % 7 for step in range((end - start) % 7 + 1)]
    return tuple(sorted(set(found)))


def _pair(text: str, label: str) -> str:
    base, slash, quote = text.partition("/")
    if not slash:
        raise DeclarationError(f'{label} "{shown(text)}" is not a pair of currencies.', fix="Write USD/EUR.")
    values.parse_currency(base, label=label)
    values.parse_currency(quote, label=label)
    if base == quote:
        raise DeclarationError(f"{label} {text} is one currency twice.", fix="Remove it.")
    return text


def _policy(text: str, label: str) -> str:
    words = text.split(" ")
    if text in ("all", "any", "precedence"):
        return text
    if len(words) == 3 and words[1] == "of" and all(one.isascii() and one.isdecimal() for one in words[::2]):
        k, n = (values.parse_count(one, label=label, at_least=1, at_most=1000) for one in words[::2])
        if k <= n:
            return f"{k} of {n}"
    raise DeclarationError(f'{label} "{shown(text)}" is not known.', fix="Write all, any, precedence, or 2 of 3.")


def _restart(value: Any) -> int:
    if value is True or value == "yes":
        raise mistake("preemptible needs the cost of a restart.", "Write preemptible: 3m.")
    if not isinstance(value, str):
        raise mistake("preemptible is no duration.", "Write the cost of a restart, such as 3m.")
    try:
        return values.parse_length(value, label="preemptible", zero=True)
    except DeclarationError as err:
        raise mistake(err.mistakes[0].what, err.mistakes[0].fix) from err

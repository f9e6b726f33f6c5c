"""Laws of what people write: clock times are what a clock would show; schema, loader and draft agree."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import jsonschema
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from declare.editor import read_as_editor
from declare.nasty import NASTY
from declare.whole import WHOLE
from gpuyield.declare.deadlines import deadline_ms
from gpuyield.declare.draft import Seen, SeenBatch, SeenService, draft_text
from gpuyield.declare.schema import declaration_schema
from gpuyield.declare.yaml_file import parse_declaration
from gpuyield.errors import DeclarationError
from gpuyield.model.declaration import NextClock

ZONES = (
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/New_York",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "UTC",
)
MINUTE_MS = 60_000
VALIDATOR = jsonschema.Draft202012Validator(declaration_schema())


def _slow_next_clock_ms(created_ms: int, clock: time, zone: ZoneInfo) -> int:
    """Watch a wall clock minute by minute: the first time after creation at which it reaches `clock` of a day.

    What a clock has already shown (before it was put back) it does not reach again.
    """
    minute_ms = created_ms // MINUTE_MS * MINUTE_MS
    furthest = datetime.fromisoformat("0001-01-01")
    for at_ms in range(minute_ms - 2 * 1440 * MINUTE_MS, minute_ms + 4 * 1440 * MINUTE_MS, MINUTE_MS):
        shown = datetime.fromtimestamp(at_ms // 1000, UTC).astimezone(zone).replace(tzinfo=None)
        day = furthest.date()
        while at_ms > created_ms and day <= shown.date():
            if furthest < datetime.combine(day, clock) <= shown:
                return at_ms
            day += timedelta(days=1)
        furthest = max(furthest, shown)
    raise AssertionError("no such time within four days")


@given(
    zone=st.sampled_from(ZONES),
    created_ms=st.integers(631_152_000_000, 1_893_456_000_000),
    clock=st.times(min_value=time(0), max_value=time(23, 59)).map(lambda one: one.replace(second=0, microsecond=0)),
)
@example(zone="Europe/Berlin", created_ms=1_774_742_400_000, clock=time(2, 30))
@example(zone="Europe/Berlin", created_ms=1_792_882_800_000, clock=time(2, 30))
@example(zone="Europe/Berlin", created_ms=1_792_889_999_999, clock=time(2, 59))
@example(zone="Pacific/Apia", created_ms=1_325_239_200_000, clock=time(6))
@example(zone="Australia/Lord_Howe", created_ms=1_775_311_200_000, clock=time(1, 45))
@example(zone="America/Sao_Paulo", created_ms=1_541_260_800_000, clock=time(0))
@settings(max_examples=60, deadline=None)
def test_a_clock_time_is_when_a_wall_clock_first_reaches_it(zone: str, created_ms: int, clock: time) -> None:
    expected_ms = _slow_next_clock_ms(created_ms, clock, ZoneInfo(zone))

    found_ms = deadline_ms(NextClock(clock=clock, zone=zone), created_ms=created_ms, milestones={})

    assert found_ms == expected_ms


@given(
    zone=st.sampled_from(ZONES),
    night=st.sampled_from(
        ["2026-03-29", "2026-10-25", "2018-11-04", "2018-02-18", "2026-10-04", "2026-04-05", "2011-12-30"]
    ),
    minutes=st.integers(-1440, 1440),
    clock=st.integers(0, 1439).map(lambda minute: time(minute // 60, minute % 60)),
)
@settings(max_examples=80, deadline=None)
def test_it_is_so_around_the_nights_that_change_the_clock(zone: str, night: str, minutes: int, clock: time) -> None:
    start = datetime.fromisoformat(night).replace(tzinfo=UTC)
    created_ms = int((start + timedelta(minutes=minutes)).timestamp()) * 1000
    expected_ms = _slow_next_clock_ms(created_ms, clock, ZoneInfo(zone))

    found_ms = deadline_ms(NextClock(clock=clock, zone=zone), created_ms=created_ms, milestones={})

    assert found_ms == expected_ms


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 200)
    | st.floats(-2, 200, allow_nan=False)
    | st.text("abc :/-0159{}", max_size=8)
    | st.sampled_from(["5m", "0.5", "EUR", "USD/EUR", "2026-12-01", "06:00 UTC", "h100", "all", "always", "no", "NO"])
    | st.sampled_from(NASTY),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "x", "flavor", "url"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_the_schema_refuses_the_loader_refuses(data: st.DataObject) -> None:
    document = read_as_editor(WHOLE)
    for _ in range(data.draw(st.integers(1, 2))):
        holder, key = document, None
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            key = data.draw(st.sampled_from(keys))
            if not (isinstance(holder[key], dict | list) and holder[key]) or data.draw(st.integers(0, 4)) == 0:
                break
            holder = holder[key]
        holder[key] = data.draw(json_values)
    text = yaml.safe_dump(document, allow_unicode=True)

    try:
        parse_declaration(text.encode(), file="f.yaml")
        accepted = True
    except DeclarationError:
        accepted = False

    assert VALIDATOR.is_valid(read_as_editor(text)) or not accepted


names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12) | st.sampled_from(
    [
        "true",
        "NO",
        "null",
        "~",
        "1.10",
        "06:00",
        "2026-12-01",
        "- a",
        "a: b",
        "#x",
        "{",
        "'",
        '"',
        "\\",
        "&a",
        "*a",
        "!x",
        "%",
    ]
)
labels = st.dictionaries(names, names, max_size=2)


seen_services = st.builds(SeenService, name=names, namespace=names, labels=labels, model=st.none() | names)
seen_batch = st.builds(
    SeenBatch,
    name=names,
    namespace=names,
    labels=labels,
    queue=st.none() | names,
    gpus=st.none() | st.integers(1, 64),
    durations_ms=st.dictionaries(st.sampled_from(["h100", "a100", "1.10", "NO"]), st.integers(0, 10**9), max_size=2),
)
seen_clusters = st.builds(
    Seen,
    name=names,
    context=st.none() | names,
    team_label=st.none() | names,
    gpus_by_flavor=st.dictionaries(names, st.integers(1, 99), max_size=3),
    namespaces=st.lists(names, max_size=3),
    services=st.lists(seen_services, max_size=3),
    batch=st.lists(seen_batch, max_size=3),
)


@given(seen_clusters)
@settings(max_examples=150, deadline=None)
def test_a_draft_of_anything_seen_loads_and_fits_the_schema(seen: Seen) -> None:
    text = draft_text(seen)

    declared = parse_declaration(text.encode(), file="f.yaml")

    assert declared.name == seen.name
    assert [dict(one.selector.labels) for one in declared.batch] == [dict(one.labels) for one in seen.batch]
    assert VALIDATOR.is_valid(read_as_editor(text))

"""Selectors of PromQL: `name{a="b", c=~"x|y"}[5m]`, and nothing else of that language."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OPERATOR = re.compile(r"=~|!~|!=|=")
_STRING = re.compile(r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`""")
_SPAN = re.compile(r"\[\s*((?:\d+(?:ms|[smhdwy]))+|\d+(?:\.\d+)?)\s*\]")
_PART = re.compile(r"(\d+)(ms|[smhdwy])")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class SelectorError(ValueError):
    """Not a selector that we know."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label; an absent label counts as empty."""

    label: str
    accepts: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Selector:
    """Which series, and how far back (None: an instant selector)."""

    matchers: tuple[Matcher, ...]
    name: str | None
    span_ms: int | None

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Whether a series is meant."""
        return all(one.accepts(labels.get(one.label, "")) for one in self.matchers)


def parse_selector(text: str) -> Selector:
    """Read a selector.

    Raises:
        SelectorError: It is something else.
    """
    at = _skip(text, 0)
    matchers: list[Matcher] = []
    named = _NAME.match(text, at)
    name = named[0] if named else None
    if named:
        matchers.append(_matcher("__name__", "=", named[0]))
        at = _skip(text, named.end())
    if at < len(text) and text[at] == "{":
        found, at = _braces(text, at + 1)
        matchers += found
    span_ms, at = _span(text, _skip(text, at))
    if _skip(text, at) != len(text) or not matchers:
        raise SelectorError(
            f'parse error: only selectors are served here, such as up{{job="x"}}[5m]; got "{text[:80]}"'
        )
    return Selector(tuple(matchers), name, span_ms)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _braces(text: str, at: int) -> tuple[list[Matcher], int]:
    matchers: list[Matcher] = []
    while True:
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            return matchers, at + 1
        label, at = _token(_LABEL, text, at, "a label")
        operator, at = _token(_OPERATOR, text, at, "an operator")
        quoted, at = _token(_STRING, text, at, "a string")
        matchers.append(_matcher(label, operator, _unquoted(quoted)))
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "}":
            raise SelectorError(f'parse error: expected "," or "}}" at {at} of "{text[:80]}"')


def _token(pattern: re.Pattern[str], text: str, at: int, what: str) -> tuple[str, int]:
    found = pattern.match(text, _skip(text, at))
    if not found:
        raise SelectorError(f'parse error: expected {what} at {at} of "{text[:80]}"')
    return found[0], _skip(text, found.end())


def _unquoted(quoted: str) -> str:
    if quoted[0] == "`":
        return quoted[1:-1]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted[1:-1])


def _matcher(label: str, operator: str, value: str) -> Matcher:
    if operator == "=":
        return Matcher(label, lambda found: found == value)
    if operator == "!=":
        return Matcher(label, lambda found: found != value)
    try:
        pattern = re.compile(value)
    except re.error as err:
        raise SelectorError(f'parse error: "{value[:80]}" is no regular expression: {err}') from err
    wanted = operator == "=~"
    return Matcher(label, lambda found: (pattern.fullmatch(found) is not None) is wanted)


def _span(text: str, at: int) -> tuple[int | None, int]:
    found = _SPAN.match(text, at)
    if not found:
        return None, at
    written = found[1]
    if written[-1].isdigit():
        return round(float(written) * 1000), found.end()
    return sum(int(number) * _UNIT_MS[unit] for number, unit in _PART.findall(written)), found.end()

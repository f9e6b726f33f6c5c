"""Policies on what a job promises: a deadline that is there, and values that can be read.

CEL in policies has no clock: whether a deadline can be met is for the plan to say. What is looked at on a change is
what the change touches, so that a job from before the policy can still be started, and its gate taken off.
"""

from __future__ import annotations

from gpuyield.controller.manifests.cel import binding, is_work, validating
from gpuyield.controller.manifests.kinds import ALL, Kind
from gpuyield.controller.manifests.settings import Object
from gpuyield.model.marks import PREFIX

_DAY = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
_INSTANT = f"{_DAY}([Tt ]{_TIME}([Zz]|[+-][0-9]{{2}}:?[0-9]{{2}}))?"
_LENGTH = "([0-9]+([.][0-9]+)?(ms|w|d|h|m|s)[ ]*)+"
_CLOCK = "([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?[ ]+[A-Za-z0-9_+/-]+"
_NUMBER = "[+]?([0-9]+([.][0-9]+)?|[.][0-9]+)([eE][+-]?[0-9]{1,2})?"
_RELATIVE = f"within[ ]+{_LENGTH}|{_CLOCK}"
_DEADLINE = f"{_INSTANT}|{_RELATIVE}|milestone:[ ]*[^ ].*"

_WHEN = ("deadline", "due", "earliest-start")
_FORMS = "2026-12-01T06:00:00Z, within 8h, 06:00 Europe/Berlin, or milestone:NAME"
_RELATIVE_FORMS = "within 8h, or 06:00 Europe/Berlin: each job counts from its own creation"


def deadline_policies(action: str) -> list[Object]:
    """For each kind of work a policy and its binding, which warns or denies (`Warn`, `Deny`); both are audited."""
    found: list[Object] = []
    for kind in ALL:
        name = f"gpuyield-deadlines-{kind.name}"
        found += [_policy(name, kind), binding(name, "ValidatingAdmissionPolicy", actions=[action, "Audit"])]
    return found


def _policy(name: str, kind: Kind) -> Object:
    places = [f"object.{path}" for path in (kind.meta, *kind.templates)]
    said = (
        "[" + ",\n ".join(f"{one}.?{part}.orValue({{}})" for part in ("annotations", "labels") for one in places) + "]"
    )
    forms = _RELATIVE_FORMS if kind.is_recurring else _FORMS
    allowed = _RELATIVE if kind.is_recurring else _DEADLINE
    patterns = dict.fromkeys(_WHEN, allowed) | {
        "expected-duration": f"[ ]*{_LENGTH}",
        "weight": f"[ ]*{_NUMBER}[ ]*",
        "preemptible": f"false|no|0|[ ]*{_LENGTH}",
    }
    example = {
        **dict.fromkeys(_WHEN, forms),
        "expected-duration": "90s, 2h, or 3h30m",
        "weight": "a number from 0 on",
        "preemptible": "false, or what a restart costs: 3m",
    }
    # Labels cannot be spelled as freely, but they are read, too; annotations go before them.
    variables = {
        "places": said,
        **{
            _variable(
                key
            ): f"variables.places.filter(each, '{PREFIX}{key}' in each)\n  .map(each, each['{PREFIX}{key}'])"
            for key in patterns
        },
    }
    missing = {
        "expression": "variables.deadline.size() + variables.due.size() > 0",
        "message": f"No deadline. Annotate {_where(kind)} with {PREFIX}deadline: {forms}.",
    }
    readable = [_readable(key, pattern, example[key]) for key, pattern in patterns.items()]
    return validating(
        name,
        [kind.rule("CREATE", "UPDATE")],
        conditions=[*is_work(kind), {"name": "says-something-else", "expression": _changed(kind, list(patterns))}],
        variables=variables,
        validations=[missing, *readable],
    )


def _readable(key: str, pattern: str, example: str) -> Object:
    said, fix = f"variables.{_variable(key)}", f"cannot be read. Write {example}."
    return {
        "expression": f"{said}.size() == 0 ||\n  {said}[0].matches('^({pattern})$')",
        "messageExpression": f"'{PREFIX}{key} \"' + {said}[0] + '\" {fix}'",
        "message": f"{PREFIX}{key} {fix}",
    }


def _changed(kind: Kind, keys: list[str]) -> str:
    """Whether it is new, or one of these annotations or labels changed."""
    named = ", ".join(f"'{PREFIX}{key}'" for key in keys)
    parts = " ||\n  ".join(
        f"object.{kind.meta}.?{part}[?key] != oldObject.{kind.meta}.?{part}[?key]" for part in ("annotations", "labels")
    )
    return f"request.operation == 'CREATE' || [{named}].exists(key,\n  {parts})"


def _variable(key: str) -> str:
    first, *rest = key.split("-")
    return first + "".join(word.capitalize() for word in rest)


def _where(kind: Kind) -> str:
    return "spec.jobTemplate" if kind.is_recurring else f"the {kind.name}"

"""The JSON Schema of `gpuyield.yaml`, for completion in editors.

It comes from the form itself and never refuses what the loader accepts; what needs several keys at once (overlapping
prices, unknown milestones) only the loader says.
"""

from __future__ import annotations

import json
from typing import Any, cast  # a JSON Schema has no narrower type

from gpuyield.declare.form import ClusterForm

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NULL = {"type": "null"}


def declaration_schema() -> dict[str, Any]:
    """The schema as plain JSON values (draft 2020-12)."""
    schema = ClusterForm.model_json_schema(by_alias=True, mode="validation")
    forms = [schema, *cast("dict[str, Any]", schema["$defs"]).values()]
    for form in forms:
        form.pop("title", None)
        required = form.get("required", [])
        for name, field in form.get("properties", {}).items():
            field.pop("title", None)
            field.pop("default", None)
            if name == "hours":
                field["anyOf"] = [{"const": "always"}, *field["anyOf"]]
            if name not in required:
                form["properties"][name] = _or_null(field)
    schema["$defs"]["SelectorForm"]["minProperties"] = 1
    return {"$schema": _DIALECT, "title": "gpuyield.yaml", **schema}


def schema_text() -> str:
    """The schema as `gpuyield schema` prints it."""
    return json.dumps(declaration_schema(), indent=2, ensure_ascii=False) + "\n"


def _or_null(field: dict[str, Any]) -> dict[str, Any]:
    """The same field, which may also be given without a value."""
    about = {key: field[key] for key in ("description",) if key in field}
    rest = {key: value for key, value in field.items() if key not in about}
    choices = rest["anyOf"] if set(rest) == {"anyOf"} else [rest]
    return {**about, "anyOf": [*choices, *([] if _NULL in choices else [_NULL])]}

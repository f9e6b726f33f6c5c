"""YAML as editors read it (YAML 1.2, core schema), to hold documents against the JSON Schema."""

from __future__ import annotations

import re
from typing import Any  # YAML values have no narrower type

import yaml


class _Core(yaml.SafeLoader):
    """PyYAML with the plain scalars of YAML 1.2: no dates, no `yes`, no base 60."""


_Core.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+0123456789.")),
    ("merge", r"<<", ["<"]),
):
    _Core.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def _int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node))


_Core.add_constructor("tag:yaml.org,2002:int", _int)
_Core.add_constructor("tag:yaml.org,2002:float", _float)


def read_as_editor(text: str) -> Any:
    """The values of a YAML text; keys are text, as in JSON."""
    return _keys_as_text(yaml.load(text, Loader=_Core))


def _keys_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _keys_as_text(inner) for key, inner in value.items()}
    return [_keys_as_text(inner) for inner in value] if isinstance(value, list) else value

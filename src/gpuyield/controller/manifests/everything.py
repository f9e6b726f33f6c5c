"""All objects in the order in which they are applied, and their YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import yaml

from gpuyield.controller.manifests import gate, running
from gpuyield.controller.manifests.deadlines import deadline_policies
from gpuyield.controller.manifests.own import limiting
from gpuyield.controller.manifests.rights import roles
from gpuyield.controller.manifests.settings import Deadlines, Gate, Object, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Objects that belong together; the chart has a file of this name for them."""

    name: str
    objects: list[Object]


def parts(settings: Settings) -> list[Part]:
    """Everything that these settings ask for."""
    found = [
        Part(name="namespace", objects=[running.namespace(settings)]),
        Part(name="rights", objects=roles(settings)),
        Part(name="own-limits", objects=limiting(settings)),
        Part(name="guard", objects=gate.guarding(settings)),
    ]
    match settings.gate:
        case Gate.ADD:
            found.append(Part(name="gate-added", objects=gate.adding()))
        case Gate.REQUIRE:
            found.append(Part(name="gate-required", objects=gate.requiring()))
        case Gate.OFF:
            pass
    if settings.deadlines is not Deadlines.OFF:
        found.append(Part(name="deadlines", objects=deadline_policies(settings.deadlines.capitalize())))
    return [
        *found,
        Part(name="check", objects=[running.check()]),
        Part(name="controller", objects=running.controller(settings)),
    ]


def objects(settings: Settings) -> list[Object]:
    """All objects, in order: what limits comes before what acts."""
    return [one for part in parts(settings) for one in part.objects]


def yaml_text(documents: Iterable[Mapping[str, object]]) -> str:
    """The objects as YAML for people: expressions as blocks, keys in our order, nothing abbreviated."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text or (len(text) > 90 and text.isprintable()) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)

"""The templates of the Helm chart, made from the same objects as `controller manifests`: they cannot drift apart.

The objects are made with marks where values go, and the marks become template expressions. `python -m
gpuyield.controller.manifests.chart deploy` writes them; a test compares them, and what the real Helm
makes of them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

from gpuyield.collect.kueue.work import QUEUE_LABEL
from gpuyield.controller.manifests.everything import Part, objects, parts, yaml_text
from gpuyield.controller.manifests.settings import Deadlines, Gate, Hold, Settings

_REPLICAS = 987_654_321
_MARKED = {
    "image": "@image@",
    "namespace": "@namespace@",
    "config": "@config@",
}
_TEXTS = {
    ": '@image@'": ": {{ .Values.image | quote }}",
    ": '@namespace@'": ": {{ .Release.Namespace }}",
    "@namespace@": "{{ .Release.Namespace }}",
    "data:\n  gpuyield.yaml: '@config@'": (
        'data: {{ if .Values.config }}{{ dict "gpuyield.yaml" .Values.config | toJson }}{{ else }}{}{{ end }}'
    ),
    str(_REPLICAS): "{{ .Values.replicas }}",
    "- Warn\n": "- {{ .Values.deadlines | title }}\n",
    f"key in ['{QUEUE_LABEL}']": f"key in [{{{{ if eq .Values.hold \"queue\" }}}}'{QUEUE_LABEL}'{{{{ end }}}}]",
}
_POD = ("imagePullSecrets", "nodeSelector", "tolerations")
"""Values that are left out of the pod where they are empty."""
_WHEN = {
    "gate-added": 'eq .Values.gate "add"',
    "gate-required": 'eq .Values.gate "require"',
    "deadlines": 'ne .Values.deadlines "off"',
}
_TOO_OLD = (
    '{{- if semverCompare "<1.36-0" .Capabilities.KubeVersion.Version }}\n'
    '{{- fail "gate: add needs Kubernetes 1.36. Set gate=require: jobs without the gate are then refused." }}\n'
    "{{- end }}\n"
)
_HEAD = "{{- /* Made by python -m gpuyield.controller.manifests.chart; do not edit. */ -}}\n"


def templates() -> dict[str, str]:
    """The template files by name. The namespace is Helm's own to make, so it is not among them."""
    found: dict[str, Part] = {}
    for way in (Gate.ADD, Gate.REQUIRE):
        settings = Settings(**_MARKED, replicas=_REPLICAS, deadlines=Deadlines.WARN, gate=way, hold=Hold.QUEUE)
        found |= {one.name: one for one in parts(settings) if one.name != "namespace"}
    return {f"{name}.yaml": _template(one) for name, one in found.items()}


def _template(part: Part) -> str:
    text = yaml_text(part.objects)
    for mark, expression in _TEXTS.items():
        text = text.replace(mark, expression)
    if part.name == "controller":
        text = _open(text)
    when = _WHEN.get(part.name)
    if when is None:
        return _HEAD + text
    old = _TOO_OLD if part.name == "gate-added" else ""
    return f"{_HEAD}{{{{- if {when} }}}}\n{old}{text}{{{{- end }}}}\n"


def _open(text: str) -> str:
    """The Deployment's template with what a cluster may want of its pods."""
    found = re.search(r"^( +)enableServiceLinks: false\n", text, re.MULTILINE)
    resources = re.search(r"^( +)resources:\n(?:\1 .*\n)+", text, re.MULTILINE)
    if found is None or resources is None:
        raise AssertionError("the Deployment has another shape")
    text = text.replace(resources[0], f"{resources[1]}resources: {{{{ toJson .Values.resources }}}}\n")
    asked = "".join(
        f"{{{{- with .Values.{key} }}}}\n{found[1]}{key}: {{{{ toJson . }}}}\n{{{{- end }}}}\n" for key in _POD
    )
    text = text.replace(found[0], found[0] + asked)
    return text.replace(
        "priorityClassName: system-cluster-critical", "priorityClassName: {{ .Values.priorityClassName }}"
    )


def write(deploy: Path) -> None:
    """Write the chart's templates and the base of kustomize into the folder `deploy`."""
    for name, text in templates().items():
        (deploy / "helm" / "gpuyield" / "templates" / name).write_text(text, encoding="utf-8")
    values = yaml.safe_load((deploy / "helm" / "gpuyield" / "values.yaml").read_text(encoding="utf-8"))
    namespace, *rest = objects(Settings(image=values["image"]))
    base = deploy / "kustomize" / "base"
    (base / "namespace.yaml").write_text(yaml_text([namespace]), encoding="utf-8")
    (base / "gpuyield.yaml").write_text(yaml_text(rest), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

"""The manifests as an answer: YAML to read, keep and apply; nothing is given to a cluster here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuyield.controller.manifests.everything import objects, yaml_text
from gpuyield.controller.manifests.settings import Deadlines, Gate, Settings, checked
from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.steps.documents import write
from gpuyield.steps.setting import read_declaration


def manifests_answer(settings: Settings, *, config: Path | None, out: Path | None) -> Answer:
    """Everything that these settings ask for, as YAML; `config` is the gpuyield.yaml that the controller shall read.

    Raises:
        DeclarationError: A setting, or the file, cannot be used.
    """
    if config is not None:
        read_declaration(config, required=True)
        settings = replace(settings, config=config.read_text(encoding="utf-8"))
    made = objects(checked(settings))
    text = yaml_text(made)
    document = {
        "schema": schema_name("manifests"),
        "namespace": settings.namespace,
        "image": settings.image,
        "deadlines": str(settings.deadlines),
        "gate": str(settings.gate),
        "hold": str(settings.hold),
        "objects": made,
    }
    if out is None:
        return Answer(document=document, text=text)
    write(out, text.encode())
    return Answer(
        document=document,
        headline=(f"{count(len(made), 'object')} for {settings.image} in {settings.namespace}.", *_meaning(settings)),
        notes=("Nothing was given to a cluster.",),
        next=(
            Next(command=f"kubectl apply --server-side -f {out}", why="installs it"),
            Next(command="kubectl label namespace NAMESPACE gpuyield.dev/managed=true", why="lets a namespace opt in"),
            Next(command="gpuyield controller lint", why="looks at the queues"),
        ),
    )


def _meaning(settings: Settings) -> list[str]:
    gate = {
        Gate.ADD: "The API server adds the gate to each job in the namespaces that opt in (Kubernetes 1.36).",
        Gate.REQUIRE: "Jobs without the gate are refused in the namespaces that opt in.",
        Gate.OFF: "Nobody adds the gate: jobs that come without it are held by the check alone.",
    }
    deadlines = {
        Deadlines.OFF: "Deadlines are not looked at.",
        Deadlines.WARN: "Jobs without a deadline are warned about.",
        Deadlines.DENY: "Jobs without a deadline are refused.",
    }
    return [gate[settings.gate], deadlines[settings.deadlines]]

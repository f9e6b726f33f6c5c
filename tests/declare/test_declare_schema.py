"""The JSON Schema and the loader say the same of every example, and the draft is an example too."""

from __future__ import annotations

import json
import re
from datetime import UTC
from pathlib import Path
from typing import Any  # a schema is plain JSON

import jsonschema
import pytest

from declare.editor import read_as_editor
from declare.whole import WHOLE
from gpuyield.declare.capacity import parse_capacity
from gpuyield.declare.draft import Seen, SeenBatch, SeenService, draft_text
from gpuyield.declare.schema import declaration_schema, schema_text
from gpuyield.declare.yaml_file import parse_declaration
from gpuyield.errors import DeclarationError

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "gpuyield-yaml.md"
SEEN = Seen(
    name="prod gpu",
    zone="Europe/Berlin",
    prometheus_service="monitoring/prometheus-operated:9090",
    opencost_url="http://127.0.0.1:9003",
    context="prod-gpu",
    kueue=True,
    gpus_by_flavor={"h100": 64, "a100": 8},
    namespaces=["evals", "support"],
    services=[
        SeenService(name="chat", namespace="support", labels={"app": "chat"}, model="llama 70b", gpus=16),
        SeenService(name="chat", namespace="other", endpoint="http://127.0.0.1:8000/v1"),
    ],
    batch=[
        SeenBatch(name="nightly", namespace="evals", queue="batch", gpus=2, durations_ms={"h100": 7_200_000}, runs=14)
    ],
)

ASKED = [
    "# > Currency of prices and reports:",
    "# > Files with outcomes or verdicts; without them busy time stays unjudged:",
    "# > Who owns what; without this a team is its namespace:",
    "# > What a GPU-hour costs; without prices there are GPU-hours only, never a guess:",
    "# > How more could be bought:",
    "# > Dates that many jobs share:",
    "# > What it promises; without objectives its headroom is not known:",
    "# > What it promises; without objectives its headroom is not known:",
    "# > Until when; without a deadline nobody can say whether its wait harmed:",
]


def _yaml_blocks() -> list[str]:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    blocks = [block for page in pages for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)]
    return [block for block in blocks if "prometheus" in block and "\nsources:" in f"\n{block}"]


def _is_valid(text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(declaration_schema()).is_valid(read_as_editor(text)))


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(declaration_schema())


def test_the_printed_schema_is_the_same() -> None:
    assert json.loads(schema_text()) == declaration_schema()


@pytest.mark.parametrize("text", [WHOLE, draft_text(SEEN), draft_text(Seen()), *_yaml_blocks()])
def test_examples_are_valid_for_the_schema_and_for_the_loader(text: str) -> None:
    parse_declaration(text.encode(), file="example.yaml")

    assert _is_valid(text)


def test_the_capacity_of_the_reference_page_loads() -> None:
    block = next(one for one in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "resources:" in one)

    found = parse_capacity(block.encode(), file=PAGE, default_origin_ms=0, zone=UTC)

    assert found.capacity.amount("gpu/h100", 5 * 86_400_000) == 72


def test_the_reference_page_names_every_key() -> None:
    schema = declaration_schema()
    keys = {key for form in (schema, *schema["$defs"].values()) for key in form.get("properties", {})}

    page = PAGE.read_text()

    assert [key for key in sorted(keys) if not re.search(rf"`[^`\n]*\b{key}\b[^`\n]*`", page)] == []


@pytest.mark.parametrize(
    "line",
    [
        "currency: eur",
        "rules: {activity_threshold: 5}",
        "rules: {gap_limit: 300}",
        "inventory: [{flavor: h100, gpus: 0}]",
        "inventory: [{flavor: h100}]",
        "services: [{name: a, selector: {}}]",
        "services: [{name: a, selector: {queue: q}, hours: sometimes}]",
        "services: {}",
        "batch: [{name: a, selector: {queue: q}, deadline: 6}]",
        "batch: [{name: a, selector: {queue: q}, preemptible: true}]",
        "milestones: {a: b}",
        "milestone: {a: 2026-12-01}",
        "kind: Service",
    ],
)
def test_what_the_schema_refuses_the_loader_refuses(line: str) -> None:
    text = f"sources: {{prometheus: {{url: http://127.0.0.1:9090}}}}\n{line}\n"

    with pytest.raises(DeclarationError):
        parse_declaration(text.encode(), file="f.yaml")

    assert not _is_valid(text)


def test_the_schema_explains_keys_to_editors() -> None:
    forms: dict[str, Any] = declaration_schema()["$defs"]

    assert forms["PriceForm"]["properties"]["gpu_hour"]["description"] == "Price of one GPU for one hour."


def test_the_draft_holds_what_was_seen_and_asks_for_the_rest() -> None:
    text = draft_text(SEEN)

    declared = parse_declaration(text.encode(), file="gpuyield.yaml")

    assert declared.name == "prod gpu"
    assert declared.sources.prometheus is not None
    assert declared.sources.prometheus.service == "monitoring/prometheus-operated:9090"
    assert [one.name for one in declared.services] == ["chat", "chat-2"]
    assert declared.services[0].model == "llama 70b"
    assert declared.batch[0].durations_ms == {"h100": 7_200_000}
    assert declared.prices == ()
    assert "# GPUs that nodes report: 64 h100, 8 a100" in text
    assert [line.strip() for line in text.splitlines() if line.lstrip().startswith("# >")] == ASKED


def test_a_price_of_the_draft_is_no_number_until_somebody_writes_one() -> None:
    text = (
        draft_text(SEEN).replace("# prices:", "prices:").replace("#   - {flavor: h100, gpu", "  - {flavor: h100, gpu")
    )

    with pytest.raises(DeclarationError, match=r'gpu_hour "..." is not a number'):
        parse_declaration(text.encode(), file="gpuyield.yaml")

"""A measurement holds for the settings it was made with: a service that tells others has no known headroom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.test_services import cluster, declare, remember, served
from doubles.command import Command, isolate
from doubles.model_server import RunningDouble, running_double
from gpuyield.collect.endpoint import endpoint
from gpuyield.demo.api import serving
from gpuyield.demo.engine import EngineSettings
from gpuyield.steps.measure_service import look_at


@pytest.fixture
def server() -> Iterator[RunningDouble]:
    with running_double(engine=EngineSettings(slots=8, step_s=0.005)) as running:
        yield running


@pytest.mark.parametrize("same", [True, False])
def test_headroom_is_known_only_while_the_settings_are_those_that_were_measured(
    same: bool,
    server: RunningDouble,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    isolate(tmp_path, monkeypatch)
    command = Command(tmp_path, capsys)
    digest = look_at(endpoint(product="it", url=server.url, declared_at="test"))().digest
    with serving([*cluster(), *served()]) as url:
        declare(tmp_path, url)
        declared = tmp_path / "gpuyield.yaml"
        declared.write_text(declared.read_text().replace("http://127.0.0.1:9/v1", server.url))
        assert command("collect", "--from", "2026-11-10", "--to", "2026-11-11", "--quiet").code == 0
    remember(tmp_path, digest=digest if same else "sha256:other")

    done = command("services", "-o", "json")

    (service,) = done.document["services"]
    assert (service["headroom_rps"] is not None) is same
    assert ("its settings are others than were measured" in (service["reason"] or "")) is not same
    assert not any("still set as it was measured" in gap["reason"] for gap in done.document["gaps"])

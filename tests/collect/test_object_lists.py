"""Lists of the API server: read in pages, and named where they may not be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from doubles.answers import Asked, Said, answering
from gpuyield.collect.endpoint import endpoint
from gpuyield.collect.http import HttpClient, Patience
from gpuyield.collect.kueue.reading import OF_RUNS, read_objects, serves_kueue
from gpuyield.collect.kueue.snapshot import snapshot
from gpuyield.collect.probe import ApiServer, Forbidden
from gpuyield.errors import SourceError

Connect = Callable[[str], ApiServer]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connections that are closed at the end."""
    opened: list[HttpClient] = []

    def to(url: str) -> ApiServer:
        where = endpoint(product="the API server", url=url, declared_at="context c")
        opened.append(HttpClient(where, patience=Patience(read_s=20, attempts=1), pause=lambda _: None))
        return ApiServer("c", opened[-1])

    yield to
    for one in opened:
        one.close()


def said(document: object, status: int = 200) -> Said:
    return Said(status=status, body=json.dumps(document).encode())


def named(*names: str, further: str = "") -> Said:
    return said({"items": [{"metadata": {"name": one}} for one in names], "metadata": {"continue": further}})


def test_all_pages_of_a_list_are_read(connect: Connect) -> None:
    with answering([named("a", "b", further="x"), named("c")]) as talk:
        found = connect(talk.url).objects("/api/v1/nodes", "nodes")

    assert [one["metadata"]["name"] for one in found] == ["a", "b", "c"]
    assert [one.fields.get("continue") for one in talk.asked] == [None, "x"]


def test_a_list_that_went_out_of_date_is_read_anew(connect: Connect) -> None:
    with answering([named("a", further="x"), said({"message": "expired"}, 410), named("b")]) as talk:
        found = connect(talk.url).objects("/api/v1/nodes", "nodes")

    assert [one["metadata"]["name"] for one in found] == ["b"]


def test_a_list_that_is_always_out_of_date_is_an_error(connect: Connect) -> None:
    def answer(asked: Asked) -> Said:
        return said({"message": "expired"}, 410) if "continue" in asked.fields else named("a", further="x")

    with answering(answer) as talk, pytest.raises(SourceError, match="changes faster than it can be read"):
        connect(talk.url).objects("/api/v1/nodes", "nodes")


def test_every_right_that_lacks_is_named_at_once_with_how_to_grant_it(connect: Connect) -> None:
    def answer(asked: Asked) -> Said:
        lacks = asked.path.endswith(("workloads", "clusterqueues", "pods"))
        return said({"message": "no"}, 403) if lacks else named()

    with answering(answer) as talk, pytest.raises(Forbidden) as refused:
        read_objects(connect(talk.url), "v1beta2")

    assert [one.what for one in refused.value.mistakes] == [
        "may not list clusterqueues.kueue.x-k8s.io (403).",
        "may not list workloads.kueue.x-k8s.io (403).",
    ]
    assert "--resource=clusterqueues.kueue.x-k8s.io,workloads.kueue.x-k8s.io,pods" in refused.value.mistakes[1].fix


def test_what_is_of_use_only_is_a_gap_where_it_may_not_be_read(connect: Connect) -> None:
    def answer(asked: Asked) -> Said:
        return said({"message": "no"}, 403) if asked.path.endswith("/nodes") else named()

    with answering(answer) as talk:
        found = snapshot(read_objects(connect(talk.url), "v1beta1"), at_ms=0)

    assert found.nodes is None
    assert [(one.where, one.reason[:21]) for one in found.gaps] == [("nodes", "May not list nodes. H")]


def test_what_tells_of_finished_work_asks_for_the_rights_of_that_alone(connect: Connect) -> None:
    def answer(asked: Asked) -> Said:
        lacks = not asked.path.endswith(("workloads", "jobs"))
        return said({"message": "no"}, 403) if lacks else named("a")

    with answering(answer) as talk:
        found = read_objects(connect(talk.url), "v1beta2", only=OF_RUNS)

    assert ({name: len(its) for name, its in found.lists.items()}, found.gaps) == ({"workloads": 1, "jobs": 1}, ())


def test_cohorts_of_an_older_kueue_are_read_where_it_keeps_them(connect: Connect) -> None:
    child = {"metadata": {"name": "child"}, "spec": {"parent": "root"}}

    def answer(asked: Asked) -> Said:
        if asked.path.endswith("v1beta1/cohorts"):
            return said({"message": "not found"}, 404)
        return said({"items": [child]}) if asked.path.endswith("v1alpha1/cohorts") else named()

    with answering(answer) as talk:
        found = snapshot(read_objects(connect(talk.url), "v1beta1"), at_ms=0)

    assert [(one.name, one.parent) for one in found.cohorts] == [("child", "root")]


@pytest.mark.parametrize(
    ("served", "expected"), [(["v1beta1"], "v1beta1"), (["v1beta1", "v1beta2"], "v1beta2"), (None, None)]
)
def test_the_newest_version_that_is_understood_is_read(
    connect: Connect, served: list[str] | None, expected: str | None
) -> None:
    group = said({}, 404) if served is None else said({"versions": [{"version": one} for one in served]})

    with answering([group]) as talk:
        assert serves_kueue(connect(talk.url)) == expected


def test_versions_that_are_not_understood_are_refused(connect: Connect) -> None:
    with answering([said({"versions": [{"version": "v1"}]})]) as talk, pytest.raises(SourceError, match="v1 only"):
        serves_kueue(connect(talk.url))

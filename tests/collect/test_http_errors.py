from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from doubles.answers import Asked, Said, answering
from gpuyield.collect.endpoint import Secrets, endpoint, same_place
from gpuyield.collect.http import AnswerTooLarge, AnswerTooLate, HttpClient, Patience
from gpuyield.errors import DeclarationError, SourceError

ANYTHING = msgspec.json.Decoder(dict)


def client(
    url: str,
    *,
    pauses: list[float] | None = None,
    max_bytes: int = 1_000_000,
    read_s: float = 5.0,
    token_file: Path | None = None,
    hint: str = "",
) -> HttpClient:
    where = endpoint(product="Prometheus", url=url, declared_at="sources.prometheus", token_file=token_file, hint=hint)
    told = [] if pauses is None else pauses
    return HttpClient(where, patience=Patience(read_s=read_s, attempts=4), max_bytes=max_bytes, pause=told.append)


def unused_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def test_an_unreachable_server_is_named_with_the_reason_and_what_to_try() -> None:
    url = f"http://127.0.0.1:{unused_port()}"

    with pytest.raises(SourceError) as caught:
        client(url, hint="Is a port-forward running?").get("/api/v1/query")

    assert str(caught.value) == (
        f"sources.prometheus: Cannot reach Prometheus at {url} (connection refused). Is a port-forward running?"
    )
    assert caught.value.exit_code == 3


def test_a_name_that_nobody_knows_is_out_of_reach() -> None:
    with pytest.raises(SourceError, match=r"Cannot reach Prometheus at http://nowhere\.invalid"):
        client("http://nowhere.invalid").get("/")


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_passing_refusal_is_tried_again_with_growing_pauses(status: int) -> None:
    pauses: list[float] = []
    with answering([Said(status=status), Said(status=status), Said(body=b"{}")]) as talk:
        answer = client(talk.url, pauses=pauses).get("/x")

    assert answer.status == 200
    assert len(talk.asked) == 3
    assert 0.1 <= pauses[0] <= 0.3
    assert 0.2 <= pauses[1] <= 0.6


def test_the_pause_that_a_server_asks_for_is_kept() -> None:
    pauses: list[float] = []
    with answering([Said(status=429, headers={"Retry-After": "7"}), Said(body=b"{}")]) as talk:
        client(talk.url, pauses=pauses).get("/x")

    assert pauses == [7.0]


def test_the_same_seed_pauses_alike() -> None:
    def pauses_of(seed: int) -> list[float]:
        told: list[float] = []
        where = endpoint(product="Prometheus", url=talk.url, declared_at="sources.prometheus")
        HttpClient(where, seed=seed, pause=told.append).get("/x")
        return told

    with answering([Said(status=503)]) as talk:
        assert pauses_of(1) == pauses_of(1)
        assert pauses_of(1) != pauses_of(2)


def test_a_refusal_that_lasts_is_told_in_the_servers_words() -> None:
    body = json.dumps({"status": "error", "errorType": "bad_data", "error": "1:5: parse error: unclosed"}).encode()
    with answering([Said(status=400, body=body)]) as talk:
        http = client(talk.url)
        error = http.refuse(http.get("/api/v1/query"), asked="up{")

    assert len(talk.asked) == 1
    assert error.mistakes[0].where == "up{"
    assert "answered 400: 1:5: parse error: unclosed" in str(error)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Said(body=b""), "with an empty body"),
        (Said(body=b"<!doctype html><title>Sign in</title>", content_type="text/html"), "a web page instead of JSON"),
        (Said(body=b'{"status":"success","data":{"resu'), "cut off after 33 bytes"),
        (Said(body=b"not json at all", content_type="text/plain"), "not JSON (text/plain): not json at all"),
        (Said(body=b"[1, 2]"), "JSON of another shape"),
        (Said(body=b"\xff\xfe\x00"), "not JSON"),
    ],
)
def test_an_answer_that_is_no_answer_says_what_it_is(said: Said, words: str) -> None:
    with answering([said]) as talk:
        http = client(talk.url)
        with pytest.raises(SourceError) as caught:
            http.json_of(http.get("/api/v1/query"), ANYTHING)

    assert words in str(caught.value)
    assert caught.value.mistakes[0].fix


def test_a_body_shorter_than_announced_is_tried_again_and_then_an_error() -> None:
    with answering([Said(body=b'{"status":', announced=4000)]) as talk:
        with pytest.raises(SourceError, match="the connection broke before the answer was whole"):
            client(talk.url).get("/x")

        assert len(talk.asked) == 4


def test_a_dropped_connection_is_tried_again() -> None:
    with answering([Said(drop=True), Said(body=b"{}")]) as talk:
        assert client(talk.url).get("/x").status == 200


def test_a_server_that_hangs_is_not_waited_for_for_ever() -> None:
    with answering([Said(hang=True)]) as talk, pytest.raises(AnswerTooLate, match=r"no whole answer within 0\.2 s"):
        client(talk.url, read_s=0.2).get("/x")


def test_an_endless_answer_is_cut_off() -> None:
    with answering([Said(body=b"x" * 50_000)]) as talk, pytest.raises(AnswerTooLarge, match="more than 10,000 bytes"):
        client(talk.url, max_bytes=10_000).get("/x")


def test_an_error_page_is_cut_to_one_short_line() -> None:
    with answering([Said(status=400, body=b"a\n\x1b[31mb " * 9000, content_type="text/plain")]) as talk:
        http = client(talk.url)
        said = http.excerpt(http.get("/x"))

    assert len(said) == 256
    assert said.isprintable()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("s3cr3t-t0ken\n")
    return file


def test_a_token_is_sent_to_the_source_and_shown_nowhere(token_file: Path) -> None:
    def echo(asked: Asked) -> Said:
        return Said(status=403, body=json.dumps({"error": f"bad {asked.headers['Authorization']}"}).encode())

    with answering(echo) as talk:
        http = client(talk.url, token_file=token_file)
        error = http.refuse(http.get("/x"))

    assert talk.asked[0].headers["Authorization"] == "Bearer s3cr3t-t0ken"
    assert "s3cr3t" not in str(error) + repr(http.where) + repr(error)
    assert "it does not let us in" in str(error)


def test_a_token_does_not_follow_a_redirect_to_another_host(token_file: Path) -> None:
    with answering([Said(body=b"{}")]) as other:
        target = other.url.replace("127.0.0.1", "localhost")
        with answering([Said(status=302, headers={"Location": f"{target}/login"})]) as talk:
            answer = client(talk.url, token_file=token_file).get("/x")

    assert answer.status == 302
    assert other.asked == []


def test_without_secrets_a_redirect_is_followed_with_the_same_question() -> None:
    with (
        answering([Said(body=b'{"a": 1}')]) as other,
        answering([Said(status=302, headers={"Location": f"{other.url}/api"})]) as talk,
    ):
        answer = client(talk.url).post("/x", {"query": "up"})

    assert answer.body == b'{"a": 1}'
    assert (other.asked[0].method, other.asked[0].fields) == ("POST", {"query": "up"})


def test_a_redirect_in_a_circle_ends() -> None:
    def circle(asked: Asked) -> Said:
        return Said(status=307, headers={"Location": asked.path})

    with answering(circle) as talk:
        http = client(talk.url)
        answer = http.get("/x")

    assert answer.status == 307
    assert "it sends us elsewhere" in str(http.refuse(answer))
    assert len(talk.asked) == 6


@pytest.mark.parametrize("target", ["http://[::1", "http://a.example:99999999/", "file:///etc/passwd", "http://"])
def test_a_redirect_to_no_address_is_told(target: str) -> None:
    with answering([Said(status=302, headers={"Location": target})]) as talk:
        http = client(talk.url)
        answer = http.get("/x")

    assert answer.status == 302
    assert "it sends us elsewhere" in str(http.refuse(answer))


@pytest.mark.parametrize("header", ["\N{SUPERSCRIPT TWO}", "-1", "soon", "nan", "9" * 400])
def test_a_senseless_time_to_wait_is_not_obeyed(header: str) -> None:
    pauses: list[float] = []
    with answering([Said(status=503, headers={"Retry-After": header}), Said(body=b"{}")]) as talk:
        answer = client(talk.url, pauses=pauses).get("/x")

    assert answer.body == b"{}"
    assert [0 < one <= 30 for one in pauses] == [True]


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        ("https://a.example/x", "https://a.example/y", True),
        ("https://a.example", "https://b.example", False),
        ("https://a.example", "http://a.example", False),
        ("http://a.example", "https://a.example", True),
        ("https://a.example", "https://a.example:8443", False),
        ("http://127.0.0.1:9090", "http://127.0.0.1:9090/x", True),
        ("http://127.0.0.1:9090", "http://127.0.0.1:9091", False),
    ],
)
def test_secrets_stay_where_they_were_meant_to_go(here: str, there: str, same: bool) -> None:
    assert same_place(here, there) is same


def test_credentials_over_plain_http_off_this_machine_are_refused(token_file: Path) -> None:
    with pytest.raises(DeclarationError) as caught:
        client("http://prometheus.example:9090", token_file=token_file)

    assert caught.value.exit_code == 2
    assert "over plain HTTP" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://user:hunter2@prometheus.example", "holds a user or a password"),
        ("ftp://prometheus.example", "is not a URL"),
        ("prometheus.example:9090", "is not a URL"),
        ("http://", "is not a URL"),
        ("https://prometheus.example/?token=hunter2", "goes on after its path"),
        ("http://[::1", "is not a URL"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_repeating_a_secret(url: str, words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        client(url)

    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_all_mistakes_about_an_endpoint_come_at_once(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("X-Scope-OrgID: team-a\nno header\nHost: elsewhere\n")

    with pytest.raises(DeclarationError) as caught:
        endpoint(
            product="Prometheus",
            url="http://mimir.example",
            declared_at="sources.prometheus",
            token_file=tmp_path / "absent",
            headers_file=headers,
        )

    places = [mistake.where for mistake in caught.value.mistakes]
    assert places == ["sources.prometheus.token_file", f"{headers}:2", f"{headers}:3", "sources.prometheus"]


def test_headers_of_a_file_are_sent(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("# for Mimir\nX-Scope-OrgID: team-a\n\n")
    with answering([Said(body=b"{}")]) as talk:
        where = endpoint(product="Prometheus", url=talk.url, declared_at="sources.prometheus", headers_file=headers)
        HttpClient(where).get("/x")

    assert talk.asked[0].headers["X-Scope-OrgID"] == "team-a"


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port()}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_port()}")
    with answering([Said(body=b"{}")]) as talk:
        assert client(talk.url).get("/x").status == 200


@pytest.mark.parametrize("make", [lambda: Secrets(headers=(("Authorization", "Bearer s3cr3t"),))])
def test_secrets_have_no_printed_form(make: Callable[[], Secrets]) -> None:
    assert "s3cr3t" not in repr(make())

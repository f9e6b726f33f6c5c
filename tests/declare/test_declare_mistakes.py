"""Every mistake at once, each at its place and with a fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyield.declare.problem import read_problem
from gpuyield.declare.yaml_file import load_declaration, parse_declaration
from gpuyield.errors import DeclarationError

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "declare"
SOURCES = 'sources: {prometheus: {url: "http://127.0.0.1:9090"}}\n'
NOTHING_SUBSTITUTED = (
    "nothing is substituted in this file. "
    "Write the value itself; a secret goes into a file that token_file or headers_file names."
)
NOW_MS = 1_796_000_000_000


def _mistakes(text: str) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        parse_declaration(text.encode(), file="gpuyield.yaml")
    return [str(one).removeprefix("gpuyield.yaml:") for one in caught.value.mistakes]


@pytest.mark.parametrize(
    "name", ["objectives-wrong", "ten-mistakes", "everything-wrong", "prices-wrong", "currency-missing"]
)
def test_a_wrong_declaration_says_all_its_mistakes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)

    with pytest.raises(DeclarationError) as caught:
        load_declaration(Path(f"{name}.yaml"))

    assert [str(one) for one in caught.value.mistakes] == (GOLDEN / f"{name}.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("jobs", "capacity"), [("jobs-wrong.yaml", "capacity-good.json"), ("jobs-good.csv", "capacity-wrong.json")]
)
def test_a_wrong_job_or_capacity_file_says_all_its_mistakes(
    jobs: str, capacity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GOLDEN)
    wrong = next(one for one in (jobs, capacity) if "wrong" in one)

    with pytest.raises(DeclarationError) as caught:
        read_problem(Path(jobs), capacity=Path(capacity), now_ms=NOW_MS, milestones={"rc": NOW_MS})

    assert [str(one) for one in caught.value.mistakes] == Path(wrong).with_suffix(".txt").read_text().splitlines()


def test_mistakes_of_both_files_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)

    with pytest.raises(DeclarationError) as caught:
        read_problem(Path("jobs-wrong.yaml"), capacity=Path("capacity-wrong.json"), now_ms=NOW_MS)

    assert {one.where.partition(":")[0] for one in caught.value.mistakes} == {"jobs-wrong.yaml", "capacity-wrong.json"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reporting_zone: NO", '2:17: "NO" is not a time zone. Use an IANA name such as Europe/Berlin or UTC.'),
        ("currency: €", '2:11: currency "€" is not a currency code. Write EUR.'),
        ("rules: {gap_limit: 300}", '2:20: gap_limit "300" has no unit. Write 300ms, 300s, 300m or 300h.'),
        ("rules: {gap_limit: 0.5 sec}", '2:20: "0.5 sec" is not a duration. Write 0.5s.'),
        ("inventory: [{flavor: h, gpus: 010}]", "2:31: gpus 010 starts with 0, which some read as octal. Write 10."),
        ("inventory: [{flavor: h, gpus: 8, nodes: 9}]", "2:41: 9 nodes for 8 GPUs. gpus is the total of all nodes."),
        ("limits: {a: {max_gpus: NO}}", '2:24: max_gpus "NO" is not a number. Write a plain number such as 8.'),
        ("metadata: {name: true}", '2:18: name is true. Write a text; quote "true" if it is a name.'),
        ("rules: []", "2:8: rules must be a mapping of keys. Write {gap_limit: ...}."),
        ("teams: {label: ''}", "2:16: label is empty. Write a name, or leave the key out."),
        ("kind: cluster", '2:7: kind "cluster" is not known. Did you mean "Cluster"?'),
        ("Currency: EUR", '2:1: unknown key "Currency". Did you mean "currency"?'),
        ("bill: [{format: focus}]", "2:8: path is missing. Add path: ..."),
        ("milestones: {a: 2026-13-01}", '2:17: a "2026-13-01" is not a date. Write 2026-12-01.'),
        ("rates: [{pair: EUR/EUR, rate: 1, at: 2026-01-01}]", "2:16: pair EUR/EUR is one currency twice. Remove it."),
    ],
)  # fmt: skip
def test_a_mistake_is_said_with_its_place_and_fix(line: str, message: str) -> None:
    found = _mistakes(SOURCES + line + "\n")

    assert found == [message]


def test_a_secret_in_the_file_is_refused_and_never_repeated() -> None:
    text = (
        'sources: {prometheus: {url: "http://admin:hunter2@prom:9090", token: hunter2, password: hunter2},\n'
        '  opencost: {url: "https://opencost", headers: {Authorization: hunter2}, token_file: "${hunter2}"}}\n'
    )

    found = _mistakes(text)

    assert "hunter2" not in "".join(found)
    assert found == [
        "1:29: url has a user name or password in it. Write token_file or headers_file.",
        '1:63: unknown key "token". A secret does not belong here: write token_file: PATH.',
        '1:79: unknown key "password". A secret does not belong here: write headers_file: PATH.',
        '2:39: unknown key "headers". A secret does not belong here: write headers_file: PATH.',
        f"2:86: {NOTHING_SUBSTITUTED}",
    ]


def test_a_flavor_that_nothing_reports_is_a_mistake_when_flavors_are_known() -> None:
    text = (
        f"{SOURCES}inventory: [{{flavor: l40s, gpus: 4}}]\n"
        "batch: [{name: a, selector: {queue: q}, flavors: {h10: {duration: 1h}}}]\n"
    )

    with pytest.raises(DeclarationError) as caught:
        parse_declaration(text.encode(), file="f.yaml", known_flavors=["h100", "a100"])

    assert [str(one) for one in caught.value.mistakes] == [
        'f.yaml:3:51: flavor "h10" is reported by no node and is not in inventory. Did you mean "h100"?'
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "f:1:1: the file is empty. gpuyield init drafts one."),
        (b"# nothing\n", "f:1:1: the file is empty. gpuyield init drafts one."),
        (b"5\n", 'f:1:1: the file is no mapping of keys. Start with sources: {prometheus: {url: "http://127.0.0.1:9090"}}.'),
        (b"a: 1\n\xff\n", "f:2:1: the file is not UTF-8 text. Save it as UTF-8."),
        (b"a: \x00\n", "f:1:4: control character U+0000. Remove it."),
        (b"a: 1\n---\na: 2\n", "f:2:1: a second YAML document starts here. Keep one document per file."),
        (b"a: &x [*x]\n", "f:1:8: alias *x contains itself. Write the value here."),
        (b"a: *x\n", "f:1:4: alias *x names no anchor. Write the value here."),
        (b"? [a]\n: 1\n", "f:1:3: a key must be text. Write key: value."),
        (b"a: 1\na: 2\n", 'f:2:1: key "a" is there twice (first in line 1). Keep one of them.'),
        (b"a: !!python/name:os x\n", "f:1:4: tag !!python/name:os is not allowed. Remove it; values are read as text."),
        (b"a: " + b"[" * 60 + b"]" * 60, "f:1:53: nested deeper than 50 levels. Write it flat."),
    ],
)  # fmt: skip
def test_what_is_no_declaration_at_all_is_said(data: bytes, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_declaration(data, file="f")

    assert str(caught.value) == message


def test_aliases_that_blow_up_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]

    with pytest.raises(DeclarationError, match="more than 200,000 values"):
        parse_declaration("\n".join(lines).encode(), file="f")


def test_a_chain_of_aliases_cannot_nest_without_bounds() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000))]

    with pytest.raises(DeclarationError, match="nested deeper than 50 levels"):
        parse_declaration("\n".join(lines).encode(), file="f")


@pytest.mark.parametrize(
    "line",
    [
        "prices: [{flavor: h100, gpu_hour: 1e30}]",
        "purchase: [{flavor: h100, kind: spot, price: 1e24}]",
        "rates: [{pair: USD/EUR, rate: 2e9, at: 2026-11-01}]",
    ],
)
def test_an_amount_that_no_currency_has_is_a_mistake(line: str, tmp_path: Path) -> None:
    file = tmp_path / "gpuyield.yaml"
    file.write_text(
        "apiVersion: gpuyield.dev/v1alpha1\nkind: Cluster\nmetadata: {name: x}\ncurrency: EUR\n"
        f'sources: {{prometheus: {{url: "http://127.0.0.1:9090"}}}}\ninventory: [{{flavor: h100, gpus: 8}}]\n{line}\n'
    )

    with pytest.raises(DeclarationError, match=r"is above 1,000,000,000"):
        load_declaration(file)

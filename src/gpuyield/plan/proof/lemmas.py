"""What the learning lane found, as the certificate `lemmas` spells it: only what the last lemma rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuyield.plan.instance.board import Board
from gpuyield.plan.kernel import learning as kernel
from gpuyield.plan.kernel.learning import Search

if TYPE_CHECKING:
    from gpuyield.plan.proof.learn import Table


def lemmas_of(board: Board, table: Table, search: Search) -> dict[str, object]:
    """The lemmas that the last one rests on, and the facts that they rest on, as the certificate spells them."""
    return _Writer(board, table, search).certificate()


class _Writer:
    def __init__(self, board: Board, table: Table, search: Search) -> None:
        self.board, self.table, self.search = board, table, search
        self.facts: list[dict[str, object]] = []
        self.known: dict[tuple[object, ...], int] = {}
        self.jobs: dict[int, int] = {}

    def certificate(self) -> dict[str, object]:
        search = self.search
        last = int(search.n[kernel.LEMMAS]) - 1
        needed = [False] * (last + 1)
        needed[last] = True
        for lemma in range(last, -1, -1):
            if needed[lemma]:
                for hint in self._hints(lemma):
                    if hint >= 0:
                        needed[hint] = True
        number: dict[int, int] = {}
        lemmas = []
        for lemma in range(last + 1):
            if not needed[lemma]:
                continue
            hints = [number[hint] if hint >= 0 else self._fact(-1 - hint) for hint in self._hints(lemma)]
            lemmas.append({"says": self._literals(lemma), "from": list(dict.fromkeys(hints))})
            number[lemma] = len(number)
        found: dict[str, object] = {
            "kind": "lemmas",
            "jobs": [self.board.tasks[self.table.tasks[at]].job.id for at in self.jobs],
            "facts": self.facts,
            "lemmas": lemmas,
        }
        if self.table.grid_ms > 1:
            found["grid_ms"] = self.table.grid_ms
        return found

    def _hints(self, lemma: int) -> list[int]:
        low, high = self.search.lemmas[lemma : lemma + 2, kernel.HINT_AT]
        return [int(hint) for hint in self.search.hints[low:high][::-1]]

    def _literals(self, lemma: int) -> list[list[object]]:
        low, high = self.search.lemmas[lemma : lemma + 2, kernel.LITERAL_AT]
        found: list[list[object]] = []
        for place in range(low, high):
            var, value = (int(one) for one in self.search.literals[place])
            word, at = ("by", -value) if var & 1 else ("from", value)
            found.append([self._job(var >> 1), word, at * self.table.grid_ms])
        return found

    def _job(self, number: int) -> int:
        return self.jobs.setdefault(number, len(self.jobs))

    def _fact(self, fact: int) -> int:
        search = self.search
        a, b = int(search.facts[fact, 1]), int(search.facts[fact, 2])
        if search.facts[fact, 0] == kernel.ORDER:
            key: tuple[object, ...] = ("order", a, b)
            entry: dict[str, object] = {"order": [self._job(a), self._job(b)]}
        else:
            tasks = sorted(int(at) for at in search.fact_tasks[search.facts[fact, 3] : search.facts[fact + 1, 3]])
            key = ("together", a, b, *tasks)
            entry = {
                "together": [self._job(at) for at in tasks],
                "resource": self.board.resources[a],
                "at_ms": b * self.table.grid_ms,
            }
        if key not in self.known:
            self.known[key] = len(self.facts)
            self.facts.append(entry)
        return -1 - self.known[key]

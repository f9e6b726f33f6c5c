"""An answer of the double on its way: parts are written when their tokens are there, and each is written down."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic_ns
from typing import Any, Protocol  # JSON values

from gpuyield.demo.answers import Part, Script, write_answer
from gpuyield.demo.asked import Asked, Fault, right_answer, tag_of
from gpuyield.demo.engine import Served
from gpuyield.demo.language_model import LanguageModel, LogRow
from gpuyield.demo.spoken import EMBEDDINGS

_WITHOUT_A_SLOT = frozenset({Fault.TOO_MANY, Fault.UNAVAILABLE, Fault.FAILS, Fault.SILENT})


class Reply(Protocol):
    """Where an answer goes."""

    def write(self, data: bytes) -> None:
        """Send bytes now."""
        ...

    def answered(self, *, closes: bool) -> None:
        """The answer ended; `closes` with the connection."""
        ...


class Answering:
    """One answer on its way: each of its parts is written when the engine has its token."""

    def __init__(self, reply: Reply, model: LanguageModel, asked: Asked, body: bytes, arrived_ns: int) -> None:
        self._reply = reply
        self._model = model
        self._asked = asked
        self._wish = model.wish_of(body)
        fault = "" if self._wish.fault is Fault.NONE else str(self._wish.fault)
        self._row = LogRow(arrived_ns=arrived_ns, fault=fault, tag=tag_of(body))
        self._served = Served(
            arrived_ns=arrived_ns,
            prompt_tokens=asked.prompt_tokens,
            output_tokens=asked.output_tokens,
            begin=self._begin,
            advance=self._write,
        )
        self._given_up = self._ended = False
        self._script = Script(parts=[])
        self._next = 0

    def start(self) -> None:
        """Wait for a slot, and write when it is there; some faults need none."""
        self._model.log.append(self._row)
        self._model.counted.prompt_tokens += self._asked.prompt_tokens
        if self._wish.fault in _WITHOUT_A_SLOT:
            self._served.done = True
            self._begin(self._served)
        else:
            self._model.engine.arrive(self._served)

    def give_up(self) -> None:
        """Nobody listens any more."""
        self._given_up = True
        self._model.engine.leave(self._served, at_ns=monotonic_ns())

    def _begin(self, served: Served) -> None:
        self._row.begun_ns = served.begun_ns
        engine = self._model.settings.engine
        first_s = served.prompt_tokens * engine.prompt_token_s + engine.step_s
        waited_s = (served.begun_ns - served.arrived_ns) / 1e9 if served.begun_ns >= 0 else 0.0
        served.good = self._model.chance.is_good(waited_s + first_s)
        self._script = write_answer(self._asked, self._wish, good=served.good)
        self._write()

    def _write(self) -> None:
        """Write what is due, and come back for the rest."""
        parts, now_ns = self._script.parts, monotonic_ns()
        out: list[bytes] = []
        while self._next < len(parts) and not self._given_up:
            part = parts[self._next]
            at_ns = self._at_ns(part)
            if at_ns is None:
                self._flush(out, now_ns)
                return
            if at_ns > now_ns:
                self._flush(out, now_ns)
                self._model.clock.at(at_ns, self._write)
                return
            if part.pause and out:
                self._flush(out, now_ns)
                self._model.clock.at(now_ns, self._write)
                return
            out.append(part.data)
            self._tell(part, now_ns)
            self._next += 1
            if part.token >= 0 and not part.pause and self._next < len(parts) and parts[self._next].token > part.token:
                self._flush(out, now_ns)
        self._flush(out, now_ns)
        if not self._given_up and not self._ended:
            self._ended = True
            self._end()

    def _flush(self, out: list[bytes], now_ns: int) -> None:
        if out:
            self._reply.write(b"".join(out))
            out.clear()

    def _tell(self, part: Part, now_ns: int) -> None:
        row = self._row
        if part.token < row.tokens:
            return
        if row.first_ns < 0:
            row.first_ns = now_ns
            self._model.counted.first_s.see((now_ns - row.arrived_ns) / 1e9)
        row.last_ns = now_ns
        self._model.counted.generated_tokens += part.token + 1 - row.tokens
        row.tokens = part.token + 1

    def _at_ns(self, part: Part) -> int | None:
        if part.token < 0 or self._served.begun_ns < 0:
            return 0
        return self._model.engine.token_ns(self._served, part.token)

    def _end(self) -> None:
        if self._script.hangs:
            return
        model, row = self._model, self._row
        model.counted.finished += 1
        model.counted.prompts.see(self._asked.prompt_tokens)
        model.counted.outputs.see(row.tokens)
        model.counted.whole_s.see((monotonic_ns() - row.arrived_ns) / 1e9)
        if not self._served.done:
            last = max((part.token for part in self._script.parts), default=0)
            model.engine.leave(self._served, at_ns=model.engine.token_ns(self._served, last) or monotonic_ns())
        self._reply.answered(closes=self._script.closes)


def asked_of(path: str, fields: Mapping[str, Any], body: bytes, model: LanguageModel) -> Asked:
    """What the JSON body of a request asks for."""
    allowed = fields.get("max_tokens", fields.get("max_output_tokens"))
    options = fields.get("stream_options")
    return Asked(
        path=path,
        streams=fields.get("stream") is True and path != EMBEDDINGS,
        usage=isinstance(options, dict) and options.get("include_usage") is True,
        prompt_tokens=_prompt_tokens(fields),
        output_tokens=model.chance.length(allowed if isinstance(allowed, int) and allowed > 0 else None),
        model=model.settings.model,
        right=right_answer(body),
    )


def _prompt_tokens(fields: Mapping[str, Any]) -> int:
    """Words of the prompt: the double's tokens are words."""
    texts = [fields.get("prompt"), fields.get("input")]
    messages = fields.get("messages")
    texts += [one.get("content") for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    return sum(len(text.split()) for text in texts if isinstance(text, str))

"""Log lines as JSON, one a line on stderr, for those who collect logs; bodies are cut, and there are no secrets."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

MOST = 1024


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said = record.getMessage()
        if record.exc_info is not None:
            said = f"{said}: {self.formatException(record.exc_info)}"
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {
            "at": at,
            "level": record.levelname.lower(),
            "part": record.name.rpartition(".")[2],
            "said": said[:MOST],
        }
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(*, debug: bool) -> None:
    """Let our own records go to stderr, and of others only what is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    ours = logging.getLogger("gpuyield")
    ours.handlers[:] = [handler]
    ours.propagate = False
    ours.setLevel(logging.DEBUG if debug else logging.INFO)

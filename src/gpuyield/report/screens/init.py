"""The answer of `gpuyield init`: what was found, and what only a person can add."""

from __future__ import annotations


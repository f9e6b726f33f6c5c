"""The version, read without importing package metadata (which takes longer than --help may)."""

from __future__ import annotations

VERSION = "0.1.0"

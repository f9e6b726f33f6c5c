"""A plan with its canonical inputs as pieces that fit into ConfigMaps, and back; no I/O here.

One stream of gzip JSON is cut into pieces. A pointer names them in order, with the digest of the whole stream: what
does not add up to that digest is torn, and nothing of it is used.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Documents are JSON.

import msgspec

from gpuyield.errors import SourceError
from gpuyield.model.document import schema_name

MOST_BYTES = 900_000
"""Bytes of one piece: a ConfigMap holds 1 MiB."""

MOST_PIECES = 32
"""Pieces of one plan; 10,000 jobs take one or two."""

MOST_UNPACKED = 512 * 2**20
"""A stream that is longer than this when it is unpacked is refused."""

PIECE = "gpuyield-plan-"
_PIECE_NAME = re.compile(r"gpuyield-plan-[0-9]{1,6}")
_SCHEMA = schema_name("plan-store")


class TornStore(SourceError):
    """What the store holds is no plan: pieces are missing, or are not those that the pointer was written for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan document and the bytes of its canonical inputs; `by` says who put it there.

    `first_starts` is, by the uid of a job that is still to begin, the first start that any plan gave it, in epoch ms;
    None where a plan did whose word is lost.
    """

    document: Mapping[str, Any]
    inputs: bytes
    generation: int = 0
    by: str = ""
    first_starts: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """The pieces of the plan in force, by name in order, and the digest of them joined."""

    generation: int
    digest: str
    pieces: tuple[str, ...]
    by: str = ""

    def data(self) -> dict[str, str]:
        """As the data of a ConfigMap."""
        return {
            "schema": _SCHEMA,
            "generation": str(self.generation),
            "digest": self.digest,
            "pieces": " ".join(self.pieces),
            "by": self.by,
        }


def pack(plan: StoredPlan) -> tuple[bytes, ...]:
    """The pieces, each at most `MOST_BYTES` long; the same plan always makes the same ones.

    Raises:
        SourceError: The plan is too large for the store.
    """
    held = {"document": plan.document, "inputs": plan.inputs.decode(), "first_starts": dict(plan.first_starts)}
    stream = gzip.compress(msgspec.json.encode(held, order="sorted"), compresslevel=6, mtime=0)
    pieces = tuple(stream[at : at + MOST_BYTES] for at in range(0, len(stream), MOST_BYTES))
    if len(pieces) > MOST_PIECES:
        raise SourceError(
            f"the plan takes {len(stream):,} bytes, and the store holds {MOST_BYTES * MOST_PIECES:,}.",
            where="plan store",
            fix="Plan fewer jobs at once: finished Jobs with a ttlSecondsAfterFinished go by themselves.",
        )
    return pieces


def digest_of(pieces: Sequence[bytes]) -> str:
    """`sha256:` of the pieces joined."""
    return f"sha256:{hashlib.sha256(b''.join(pieces)).hexdigest()}"


def free_names(taken: Sequence[str], count: int) -> tuple[str, ...]:
    """So many names of pieces that are not among those taken: what is in force is never written over."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"{PIECE}{number}"
        if name not in taken:
            found.append(name)
        number += 1
    return tuple(found)


def read_pointer(data: Mapping[str, object]) -> Pointer:
    """The pointer that a ConfigMap holds.

    Raises:
        TornStore: It is none.
    """
    names = tuple(str(data.get("pieces", "")).split())
    generation = str(data.get("generation", ""))
    digest = str(data.get("digest", ""))
    if data.get("schema") != _SCHEMA:
        raise torn(f'its schema is "{str(data.get("schema"))[:60]}", not {_SCHEMA}')
    if not re.fullmatch(r"[0-9]{1,18}", generation) or not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise torn("its generation or digest cannot be read")
    if not 0 < len(names) <= MOST_PIECES or not all(_PIECE_NAME.fullmatch(name) for name in names):
        raise torn("the names of its pieces cannot be read")
    return Pointer(generation=int(generation), digest=digest, pieces=names, by=str(data.get("by", "")))


def unpack(pointer: Pointer, pieces: Sequence[bytes]) -> StoredPlan:
    """The plan that a pointer and its pieces make.

    Raises:
        TornStore: They do not add up.
    """
    if digest_of(pieces) != pointer.digest:
        raise torn("its pieces are not those that the pointer names by digest")
    try:
        unpacker = zlib.decompressobj(wbits=31)
        whole = unpacker.decompress(b"".join(pieces), MOST_UNPACKED)
        if not unpacker.eof:
            raise torn("it does not end where it should")
        found = msgspec.json.decode(whole)
        document, inputs = found["document"], found["inputs"]
        first_starts = {
            str(uid): None if at_ms is None else int(at_ms) for uid, at_ms in found.get("first_starts", {}).items()
        }
    except (zlib.error, msgspec.MsgspecError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise torn(f"it cannot be unpacked ({type(err).__name__})") from err
    if not isinstance(document, dict) or not isinstance(inputs, str):
        raise torn("it holds no plan with its inputs")
    return StoredPlan(
        document=document,
        inputs=inputs.encode(),
        generation=pointer.generation,
        by=pointer.by,
        first_starts=first_starts,
    )


def torn(why: str) -> TornStore:
    """The error for a store of which this is wrong."""
    return TornStore(
        f"the stored plan cannot be used: {why}.",
        where="ConfigMap gpuyield-plan",
        fix="Publish a plan (gpuyield plan publish --apply), or delete it: the controller then plans anew.",
    )

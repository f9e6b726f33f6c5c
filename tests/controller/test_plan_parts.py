"""A plan goes into pieces and comes back whole, or not at all."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.controller.plan_parts import (
    MOST_BYTES,
    Pointer,
    StoredPlan,
    TornStore,
    digest_of,
    free_names,
    pack,
    read_pointer,
    unpack,
)

DOCUMENT = {"schema": "gpuyield/plan/v1alpha1", "jobs": [{"id": "evals/é", "slack_s": 1.5}]}
INPUTS = b'{"jobs":[{"id":"evals/\xc3\xa9"}]}'
PLAN = StoredPlan(document=DOCUMENT, inputs=INPUTS, first_starts={"uid-1": 1_800_000_000_000})


def pointer_of(pieces: tuple[bytes, ...], generation: int = 3) -> Pointer:
    return Pointer(generation=generation, digest=digest_of(pieces), pieces=free_names((), len(pieces)), by="controller")


def long_inputs(seed: int) -> bytes:
    """Inputs that hardly shrink when they are packed."""
    return random.Random(seed).randbytes(1_200_000).hex().encode()


def test_a_plan_comes_back_as_it_was_with_the_very_bytes_of_its_inputs() -> None:
    pieces = pack(PLAN)

    found = unpack(pointer_of(pieces), pieces)

    assert (found.document, found.inputs, found.generation, found.by) == (DOCUMENT, INPUTS, 3, "controller")


def test_a_large_plan_is_cut_into_pieces_that_a_config_map_holds() -> None:
    inputs = long_inputs(1)

    pieces = pack(replace(PLAN, inputs=inputs))

    assert len(pieces) == 2
    assert max(map(len, pieces)) <= MOST_BYTES
    assert unpack(pointer_of(pieces), pieces).inputs == inputs


def test_the_same_plan_makes_the_same_pieces() -> None:
    assert pack(PLAN) == pack(replace(PLAN, document=dict(reversed(DOCUMENT.items()))))


def test_pieces_of_two_plans_are_torn() -> None:
    old, new = pack(replace(PLAN, inputs=long_inputs(1))), pack(replace(PLAN, inputs=long_inputs(2)))

    with pytest.raises(TornStore, match="digest"):
        unpack(pointer_of(new), (new[0], old[1]))


@given(st.data())
def test_any_byte_that_is_changed_or_lost_is_found_out(data: st.DataObject) -> None:
    pieces = pack(PLAN)
    whole = bytearray(pieces[0])
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        whole[at] ^= data.draw(st.integers(1, 255))
    else:
        del whole[at:]

    with pytest.raises(TornStore):
        unpack(pointer_of(pieces), (bytes(whole),))


@pytest.mark.parametrize("inside", [b"", b"no gzip", b"\x1f\x8b"])
def test_what_is_no_plan_is_refused_even_when_its_digest_is_right(inside: bytes) -> None:
    with pytest.raises(TornStore):
        unpack(pointer_of((inside,)), (inside,))


def test_a_pointer_is_read_as_it_was_written() -> None:
    pointer = pointer_of(pack(PLAN))

    assert read_pointer(pointer.data()) == pointer


@pytest.mark.parametrize(
    "change",
    [{"schema": "other"}, {"generation": "-1"}, {"digest": "sha256:0"}, {"pieces": ""}, {"pieces": "kube-root-ca.crt"}],
)
def test_a_pointer_that_was_tampered_with_is_refused(change: dict[str, str]) -> None:
    pointer = pointer_of(pack(PLAN))

    with pytest.raises(TornStore):
        read_pointer({**pointer.data(), **change})


def test_new_pieces_never_take_the_place_of_those_in_force() -> None:
    pointer = replace(pointer_of(pack(PLAN)), pieces=("gpuyield-plan-0", "gpuyield-plan-2"))

    names = free_names(pointer.pieces, 3)

    assert names == ("gpuyield-plan-1", "gpuyield-plan-3", "gpuyield-plan-4")

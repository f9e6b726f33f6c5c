"""The plan store: whole or told, never written over, never by two at once."""

from __future__ import annotations

import random

import pytest

from doubles.cluster.objects import ApiObjects
from gpuyield.collect.kubernetes import CONFIG_MAP, Conflict
from gpuyield.controller.plan_parts import StoredPlan, TornStore, free_names
from gpuyield.controller.store import POINTER, PlanStore
from gpuyield.errors import SourceError

HOME = "gpuyield-system"


def plan(generation: int, *, size: int = 10) -> StoredPlan:
    inputs = random.Random(generation).randbytes(size).hex().encode()
    return StoredPlan(document={"generation": generation}, inputs=inputs, generation=generation, by="controller")


def test_nothing_is_in_force_where_nothing_was_written() -> None:
    assert PlanStore(ApiObjects(), HOME).pointer() is None


def test_what_was_written_is_read_by_another_replica() -> None:
    api = ApiObjects()
    store = PlanStore(api, HOME)
    store.pointer()
    store.write(plan(1, size=1_000_000))

    other = PlanStore(api, HOME)
    pointer = other.pointer()

    assert pointer is not None
    assert len(pointer.pieces) == 2
    assert other.read(pointer) == plan(1, size=1_000_000)


def test_a_writer_that_dies_before_the_pointer_leaves_the_old_plan_whole() -> None:
    api = ApiObjects()
    store = PlanStore(api, HOME)
    store.pointer()
    pointer = store.write(plan(1))
    (other,) = free_names(pointer.pieces, 1)
    api.put(CONFIG_MAP, {"metadata": {"name": other, "namespace": HOME}, "binaryData": {"piece": "AAAA"}})

    fresh = PlanStore(api, HOME)
    found = fresh.pointer()

    assert found == pointer
    assert fresh.read(pointer) == plan(1)


def test_pieces_of_the_plan_in_force_are_never_written_over_and_old_ones_go() -> None:
    api = ApiObjects()
    store = PlanStore(api, HOME)
    store.pointer()
    first = store.write(plan(1))

    second = store.write(plan(2))

    assert set(first.pieces).isdisjoint(second.pieces)
    kept = [name for _, _, name in api.objects]
    assert sorted(kept) == sorted([POINTER, *second.pieces])


def test_of_two_writers_one_is_told_and_tears_nothing() -> None:
    api = ApiObjects()
    one, other = PlanStore(api, HOME), PlanStore(api, HOME)
    one.pointer(), other.pointer()
    one.write(plan(1))

    with pytest.raises(Conflict):
        other.write(plan(2))

    pointer = one.pointer()
    assert pointer is not None
    assert one.read(pointer).generation == 1


def test_a_torn_pointer_is_told_and_the_next_write_takes_its_place() -> None:
    api = ApiObjects()
    store = PlanStore(api, HOME)
    store.pointer()
    store.write(plan(1))
    api.patch(CONFIG_MAP, POINTER, HOME, merge={"data": {"digest": "none"}})
    with pytest.raises(TornStore):
        store.pointer()

    store.write(plan(2))

    pointer = store.pointer()
    assert pointer is not None
    assert store.read(pointer).generation == 2


def test_a_missing_piece_is_torn() -> None:
    api = ApiObjects()
    store = PlanStore(api, HOME)
    store.pointer()
    pointer = store.write(plan(1))
    api.delete(CONFIG_MAP, pointer.pieces[0], HOME)

    with pytest.raises(TornStore, match="missing"):
        store.read(pointer)


def test_a_refusal_is_told() -> None:
    api = ApiObjects()
    store = PlanStore(api, HOME)
    store.pointer()
    api.refuses.add("configmaps")

    with pytest.raises(SourceError):
        store.write(plan(1))

from __future__ import annotations

import pytest

from gpuyield.errors import InternalError
from gpuyield.model.document import canonical_bytes
from gpuyield.steps.plan import deadline


def test_what_follows_a_search_is_left_at_most_half_of_the_time_limit() -> None:
    stop = deadline("2h", spare_s=24 * 3600)

    assert not stop()


def test_a_limit_of_which_all_is_over_says_stop_at_once() -> None:
    stop = deadline("0s", spare_s=1)

    assert stop()


@pytest.mark.parametrize(
    ("inputs", "where"),
    [
        ({"a": 1.5}, "$.a"),
        ({"a": [1, {"b": (None, "x", 0.0)}]}, "$.a[1].b[2]"),
        ({"a": True, "b": [[2.0]]}, "$.b[0][0]"),
    ],
)
def test_a_float_in_canonical_inputs_is_refused_wherever_it_is(inputs: dict[str, object], where: str) -> None:
    with pytest.raises(InternalError) as refused:
        canonical_bytes(inputs)

    assert where in str(refused.value)

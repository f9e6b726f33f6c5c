"""Where a demo cannot be put, or cannot listen, is said; nothing crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyield.errors import DeclarationError
from gpuyield.steps.demo import demo, serve


def nothing(_: str) -> None:
    return None


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    place.write_text("mine", encoding="utf-8")

    for out in (place, place / "below"):
        with pytest.raises(DeclarationError) as caught:
            demo(out=out, seed=7, gpus=2, days=1, tell=nothing)
        assert caught.value.mistakes[0].where == str(out)

    assert place.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_is_none_is_told(port: int) -> None:
    with pytest.raises(DeclarationError, match="is no port"):
        serve(port=port, seed=7, gpus=2, days=1, ready=nothing)

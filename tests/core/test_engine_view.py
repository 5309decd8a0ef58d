"""What nobody reported is absent from the shown figures, not zero."""

import msgspec
import pytest

from ddwatch.core.engine_view import EngineView, ForwardView


@pytest.mark.parametrize("view", [EngineView(at=1.0, ranks=1), ForwardView(at=1.0, ranks=1)])
def test_a_figure_without_a_source_is_absent(view: EngineView | ForwardView) -> None:
    figures = {name: value for name, value in msgspec.structs.asdict(view).items() if name not in ("at", "ranks")}
    assert {name for name, value in figures.items() if value is not None} <= {"resting", "lost"}

"""A real SGLang is only started when it is asked for; it takes minutes, and 1.7 GB the first time."""

from pathlib import Path

import pytest

from tests.e2e.real_sglang.server import HOME

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips, and counts, what `make test-sglang` runs."""
    ours = [item for item in items if HERE in item.path.parents]
    if "sglang" in config.option.markexpr:
        if ours and not (HOME / "stamp").exists():
            raise pytest.UsageError("the real SGLang is not installed: make test-sglang installs it")
        return
    for item in ours:
        item.add_marker(pytest.mark.skip(reason="starts a real SGLang, which takes minutes: make test-sglang"))

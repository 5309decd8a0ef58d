"""Captured graphs are off where /metrics counts passes without them, but only where some ever ran."""

import pytest

from tests.core.lines import start
from tests.core.test_engine_witness import Page, watched


def test_graphs_that_never_ran_are_not_off() -> None:
    monitor = watched()
    page = Page(monitor)
    page.counters["graph_passes"] = 0.0

    def plain(at: float) -> None:
        page.counters["graph_passes"] = 0.0
        page.counters["plain_passes"] += 80.0

    page.run(60.0, beside=plain)
    assert monitor._engine.graph_off_since(page.at) is None


def test_graphs_that_ran_and_run_no_more_are_off() -> None:
    monitor = watched()
    page = Page(monitor)
    page.run(60.0)

    def plain(at: float) -> None:
        page.counters["graph_passes"] -= 5.0 * 100.0 / 6.0
        page.counters["plain_passes"] += 80.0

    page.run(60.0, beside=plain)
    assert monitor._engine.graph_off_since(page.at) == pytest.approx(65.0)
    page.run(30.0)
    assert monitor._engine.graph_off_since(page.at) is None


def test_graphs_that_ran_before_a_restart_are_off_behind_it() -> None:
    """The counter of graph passes is not on the page of a server that was started anew without them."""
    monitor = watched()
    monitor.accept(start(0.0, model_path="m"))
    page = Page(monitor)
    page.run(60.0)
    monitor.accept(start(page.at, model_path="m", disable_cuda_graph=True))

    def plain(at: float) -> None:
        page.counters["graph_passes"] = 0.0
        page.counters["plain_passes"] += 80.0

    page.counters = dict.fromkeys(page.counters, 0.0)
    page.run(60.0, beside=plain)
    assert monitor._engine.graph_off_since(page.at) == pytest.approx(70.0)

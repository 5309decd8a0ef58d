"""The table of metrics: names by Prometheus' rules, absent is absent, labels are bounded."""

import re
from typing import get_args

import pytest
from ddwatch_sidecar.exports.metric import LABEL_LENGTH, Labels, View, clean_label
from ddwatch_sidecar.exports.metrics import METRICS, metric_table_markdown
from ddwatch_sidecar.metering import OwnFigures
from msgspec.structs import replace

from ddwatch.core.alert_view import AlertView
from ddwatch.core.snapshot import ServerView, VerdictName
from ddwatch.core.tallies import Count, Tallies
from tests.sidecar.exports.supplied import full_snapshot, full_tallies, rank, snapshot


def values(name: str, view: View) -> dict[Labels, float]:
    metric = next(metric for metric in METRICS if metric.name == name)
    return dict(metric.read(view))


def full_view() -> View:
    return View(full_snapshot(), full_tallies(), OwnFigures(cpu_seconds=2.0))


def empty_view() -> View:
    return View(snapshot(), Count().frozen(0), OwnFigures())


def test_names_are_unique_and_spelled_by_the_rules() -> None:
    names = [metric.name for metric in METRICS]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"(ddwatch|process)_[a-z][a-z_]*[a-z]", name) for name in names)


def test_total_is_the_mark_of_counters() -> None:
    assert {m.name for m in METRICS if m.name.endswith("_total")} == {m.name for m in METRICS if m.kind == "counter"}


def test_every_metric_says_what_it_means_in_one_line() -> None:
    for metric in METRICS:
        assert metric.meaning and "\n" not in metric.meaning and "|" not in metric.meaning, metric.name


def test_only_histograms_have_bounds_and_they_rise() -> None:
    for metric in METRICS:
        assert bool(metric.bounds) == (metric.kind == "histogram"), metric.name
        assert list(metric.bounds) == sorted(set(metric.bounds)), metric.name


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_series_carries_the_labels_of_its_row(metric: object) -> None:
    row = next(item for item in METRICS if item is metric)
    seen = [labels for labels, _ in row.read(full_view())] + [labels for labels, _ in row.read_histogram(full_view())]
    assert all(len(labels) == len(row.labels) for labels in seen)


def test_what_nobody_reported_has_no_series() -> None:
    view = empty_view()
    known = {m.name for m in METRICS if any(m.read(view)) or any(m.read_histogram(view))}

    # The verdict always holds, incidents last or do not, and restarts are counted from the first moment.
    assert known == {"ddwatch_verdict", "ddwatch_alert_firing", "ddwatch_restarts_total"}


def test_an_incident_that_lasts_is_one_and_an_acknowledged_one_too() -> None:
    (row,) = (metric for metric in METRICS if metric.name == "ddwatch_alert_firing")
    low = AlertView(
        incident="low-accept-7",
        name="low-accept",
        severity="notice",
        state="acknowledged",
        since=7.0,
        began_at=9.0,
        sentence="the drafter brings next to nothing",
    )
    over = replace(low, name="slow-step", state="resolved", resolved_at=10.0)
    view = empty_view()
    shown = view._replace(snapshot=replace(view.snapshot, alerts=(low, over)))

    assert [labels for labels, value in row.read(shown) if value] == [("low-accept",)]


def test_a_full_snapshot_fills_every_row_but_those_of_this_platform() -> None:
    process = OwnFigures(cpu_seconds=1.0, resident_bytes=2, virtual_bytes=3, started_at=4.0, open_files=5, max_files=6)
    view = View(full_snapshot(), full_tallies(), process)

    assert [m.name for m in METRICS if not any(m.read(view)) and not any(m.read_histogram(view))] == []


def test_live_ranks_speak_and_silent_ones_do_not() -> None:
    assert values("ddwatch_running_requests", full_view()) == {("0",): 2.0, ("1",): 3.0}
    assert values("ddwatch_total_context_tokens", full_view()) == {("0",): 2000.0, ("1",): 3000.0}


def test_engines_with_the_same_rank_are_added_up_and_their_context_is_weighted() -> None:
    first, second = rank(None, 1), rank(None, 3)
    longer = rank(None, 3).sample
    view = View(snapshot(ranks=(first, second)), Tallies(), OwnFigures())

    assert values("ddwatch_throughput_tokens_per_second", view) == {("",): 120.0}
    assert values("ddwatch_running_requests", view) == {("",): 4.0}
    assert values("ddwatch_context_tokens", view) == {("",): longer.context_tokens}


def test_a_rank_that_does_not_report_its_queue_has_none() -> None:
    view = View(snapshot(ranks=(rank(0, queued=None), rank(1, queued=0))), Tallies(), OwnFigures())

    assert values("ddwatch_queued_requests", view) == {("1",): 0.0}


def test_exactly_one_verdict_is_one() -> None:
    found = values("ddwatch_verdict", full_view())

    assert set(found) == {(name,) for name in get_args(VerdictName)}
    assert [labels for labels, value in found.items() if value] == [("as-expected",)]


def test_a_factor_that_is_not_known_has_no_series() -> None:
    assert values("ddwatch_factor_ratio", full_view()) == {
        ("accept_length",): 0.39,
        ("context",): 0.55,
        ("batch",): 1.0,
        ("unexplained",): 0.97,
    }


def test_the_age_of_a_source_that_never_spoke_is_unknown() -> None:
    assert values("ddwatch_source_age_seconds", full_view()) == {("log",): 2.0}
    assert values("ddwatch_source_up", full_view()) == {("log",): 1.0, ("stdin",): 0.0}


def test_a_source_that_is_read_counts_its_losses_from_zero() -> None:
    view = View(snapshot(), Tallies(lines_read={"log": 9}, gaps={"other": 1}), OwnFigures())

    assert values("ddwatch_lines_unread_total", view) == {("log",): 0.0}
    assert values("ddwatch_log_gaps_total", view) == {("log",): 0.0, ("other",): 1.0}
    assert values("ddwatch_log_rotations_total", view) == {}


def test_words_of_the_watched_server_are_bounded_and_printable() -> None:
    hostile = "a\x1b[31m\nb" + "x" * 1000
    view = View(snapshot(server=ServerView(model=hostile)), Tallies(), OwnFigures())
    (labels,) = values("ddwatch_server_info", view)

    assert labels[0].startswith("a[31mbxxx") and len(labels[0]) == LABEL_LENGTH
    assert clean_label(None) == ""


def test_the_readme_table_has_a_row_per_metric() -> None:
    rows = metric_table_markdown().splitlines()

    assert len(rows) == len(METRICS) + 2
    assert rows[2] == (
        "| `ddwatch_accept_length` | histogram | `dp_rank`, `span`, `provenance`, `resolution` | "
        "Tokens committed per request and step, bonus token included; clean samples only |"
    )

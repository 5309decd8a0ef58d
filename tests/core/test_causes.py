"""What began with the slow steps is named first; without anything that did, ddwatch says that it found nothing."""

from ddwatch.core.causes import NOTHING, Facts, causes
from ddwatch.core.snapshot import ServerView

ONSET = 1000.0


def told(**facts: object) -> list[str]:
    known = {"server": ServerView(), **facts}
    return [cause.text for cause in causes(ONSET, Facts(**known))]  # type: ignore[arg-type]


def test_without_a_fact_nothing_is_made_up() -> None:
    assert causes(ONSET, Facts(server=ServerView())) == (NOTHING,)
    assert "compare" in NOTHING.next_step


def test_only_what_began_with_it_is_a_cause() -> None:
    assert told(retracted_at=ONSET - 5) == ["the KV pool was full and requests were sent back"]
    assert told(retracted_at=ONSET - 900) == [NOTHING.text]
    assert told(graph_off_since=ONSET + 3) == ["CUDA graph is off at this batch"]
    assert told(graph_off_since=ONSET - 9000) == [NOTHING.text]


def test_a_card_that_began_with_it_comes_first() -> None:
    finding = (ONSET - 2, "GPU 5 thermal slowdown, 1.62 GHz against 2.41 on the others", "check airflow")
    found = causes(ONSET, Facts(server=ServerView(), retracted_at=ONSET, hardware=(finding,)))
    assert found[0].text.startswith("GPU 5")
    assert found[0].next_step == "check airflow"
    assert len(found) == 2


def test_a_process_that_was_born_slow_is_blamed_on_its_start_with_what_changed() -> None:
    server = ServerView(started_at=ONSET - 30)
    assert told(server=server) == ["it is slow since the restart"]
    assert told(server=server, changed_arguments="+disable_cuda_graph") == [
        "it is slow since the restart (+disable_cuda_graph)"
    ]

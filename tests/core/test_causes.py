"""What began with a change is named first; without anything that did, ddwatch says that it found nothing."""

from ddwatch.core.causes import NOTHING, PREFILL_NEXT, Evidence, Facts, accept_causes, causes, ended_by, words
from ddwatch.core.snapshot import ServerView
from ddwatch.core.waiting import Wait

ONSET = 1000.0


def told(evidence: Evidence | None = None, **facts: object) -> list[str]:
    known = {"server": ServerView(), **facts}
    return [cause.text for cause in causes(ONSET, Facts(**known), evidence or {})]  # type: ignore[arg-type]


def test_without_a_fact_nothing_is_made_up() -> None:
    assert causes(ONSET, Facts(server=ServerView()), {}) == (NOTHING,)
    assert "compare" in NOTHING.next_step
    assert accept_causes(ONSET, Facts(server=ServerView()), {}) == ()
    assert words(()) == (None, ())


def test_only_what_began_with_it_is_a_cause() -> None:
    full = "the KV pool was full and requests were sent back, "
    assert told(retracted_at=ONSET - 5) == [f"{full}5.0 s before the first slow step"]
    assert told(retracted_at=ONSET + 12) == [f"{full}12 s after the first slow step"]
    assert told(retracted_at=ONSET - 900) == [NOTHING.text]
    assert told(graph_off_since=ONSET + 3) == ["CUDA graph is off at this batch"]
    assert told(graph_off_since=ONSET - 9000) == [NOTHING.text]


def test_a_full_pool_that_is_not_recovered_from_says_for_how_long() -> None:
    assert told({"lines": 9}, retracted_at=ONSET)[0].endswith("first slow step")
    assert told({"lines": 14}, retracted_at=ONSET)[0].endswith("; not recovered in 14 clean lines")


def test_a_card_that_began_with_it_comes_first() -> None:
    finding = (ONSET - 2, "GPU 5 thermal slowdown, 1.62 GHz against 2.41 on the others", "check airflow")
    found = causes(ONSET, Facts(server=ServerView(), retracted_at=ONSET, hardware=(finding,)), {})
    assert found[0].text.startswith("GPU 5")
    assert found[0].next_step == "check airflow"
    assert len(found) == 2


def test_a_process_that_was_born_slow_is_blamed_on_its_start_with_what_changed() -> None:
    server = ServerView(started_at=ONSET - 30, restarts=1)
    assert told(server=server) == ["it is slow since the restart"]
    assert told(server=server, changed_arguments="+disable_cuda_graph") == [
        "it is slow since the restart (+disable_cuda_graph)"
    ]


def test_the_first_start_that_was_seen_is_called_no_restart() -> None:
    assert told(server=ServerView(started_at=ONSET - 30)) == ["it is slow since the start"]


def test_a_process_that_was_fast_first_is_not_blamed_on_its_start() -> None:
    server = ServerView(started_at=ONSET - 60, restarts=1)
    assert told({"lines_before": 3}, server=server) == ["it is slow since the restart"]
    assert told({"lines_before": 200}, server=server) == [NOTHING.text]


def test_what_grows_with_the_batch_and_what_stands_beside_prefill_is_said_so() -> None:
    assert told({"form": "batch"}) == ["it grows with the batch: more requests cost more than they did"]
    assert told({"form": "offset"}) == [NOTHING.text]
    assert told({"prefill_share": 0.1, "usual_prefill_share": 0.0}) == [NOTHING.text]
    assert told({"prefill_share": 0.45, "usual_prefill_share": 0.4}) == [NOTHING.text], "it always was so"
    assert told({"prefill_share": 0.45, "usual_prefill_share": None}) == [NOTHING.text]
    found = causes(ONSET, Facts(server=ServerView()), {"prefill_share": 0.45, "usual_prefill_share": 0.02})
    assert words(found) == ("prefill stands in 45 % of the newest windows, before in 2 %", (PREFILL_NEXT,))


def test_what_is_slow_since_a_pause_says_so() -> None:
    assert told({"pause_seconds": None}) == [NOTHING.text]
    assert told({"pause_seconds": 92.0}) == ["it is slow since a pause of 1 min 32 s"]


def test_a_low_accept_length_is_set_beside_the_prefix_cache_and_the_restart_before_it() -> None:
    facts = Facts(
        server=ServerView(started_at=ONSET - 60, restarts=1), changed_arguments="speculative_draft_model a → b"
    )
    hit: Evidence = {"restored_at": ONSET - 4.0, "restored_tokens": 5200}

    cause, steps = words(accept_causes(ONSET, facts, hit))

    assert cause == (
        "it is low since the restart (speculative_draft_model a → b); "
        "a prefix-cache hit restored 5200 tokens that the drafter has not seen"
    )
    assert [step.split()[0] for step in steps] == ["check", "compare"]
    old: Evidence = {**hit, "restored_at": ONSET - 900.0}
    assert accept_causes(ONSET, Facts(server=ServerView()), old) == ()


def test_a_card_that_was_lost_with_the_engine_ended_it() -> None:
    lost = (ONSET - 2, "Xid 79 on GPU 5: the card has fallen off the bus", "reboot the host")
    facts = Facts(server=ServerView(), fatal=(lost,))
    assert words(ended_by(ONSET, facts)) == (lost[1], (lost[2],))
    assert ended_by(ONSET + 900, facts) == ()
    assert causes(ONSET, facts, {}) == (NOTHING,), "what ends an engine does not make its steps longer"


def test_a_gpu_that_waits_is_named_where_passes_are_heard() -> None:
    before = tuple(Wait(ONSET - 100 + 10 * i, 0.0200, 0.0197) for i in range(10))
    after = tuple(Wait(ONSET + 20 + 10 * i, 0.0249, 0.0200) for i in range(5))
    assert told(waits=(*before, *after)) == ["CPU-bound: the GPU waits 4.9 ms of each step (0.3 ms before)"]
    assert told(waits=before) == [NOTHING.text]


def test_without_a_cause_the_next_command_names_the_moment() -> None:
    """What the alarm says can be typed as it stands: the time is the onset, in a form that `compare --at` reads."""
    (found,) = causes(1_780_000_123.7, Facts(server=ServerView()), {})

    assert found.text == NOTHING.text
    assert "ddwatch compare LOG --at 2026-05-28T20:28:43Z; " in found.next_step


def test_a_log_that_tells_no_times_gets_no_invented_moment() -> None:
    (found,) = causes(12.0, Facts(server=ServerView()), {})

    assert "ddwatch compare LOG --at TIME; " in found.next_step

"""A watch is cut at its restarts and at a stated moment, whatever it is read from."""

from datetime import timezone
from itertools import pairwise

from ddwatch.core.comparison.epochs import MOST_EPOCHS, Epochs, changed_words, coupled
from ddwatch.core.grammar import LogReader
from ddwatch.core.records import ServerStart
from ddwatch.demo.scenarios import generate
from tests.core.comparison.service import Service

BEGIN = 1_777_636_800.0
PLAIN = {"model_path": "K", "attention_backend": "flashinfer"}
OTHER = {"model_path": "K", "attention_backend": "trtllm_mla"}


def started(at: float, arguments: dict[str, str]) -> ServerStart:
    return ServerStart(at=at, arguments=dict(arguments))


def test_a_log_is_cut_at_each_restart() -> None:
    reader = LogReader(timezone.utc, BEGIN)
    epochs = Epochs()
    for number, (at, line) in enumerate(generate("restart", 1, BEGIN, 935.0), 1):
        for record in reader.read(line.encode(), at, number):
            epochs.see(record)

    assert epochs.restarts == 3
    assert [epoch.cut for epoch in epochs.kept] == ["start", "restart", "restart", "restart"]
    assert all(epoch.side.clean > 300 for epoch in epochs.kept)
    words = [changed_words(old.start, new.start) for old, new in pairwise(epochs.kept)]
    assert words[0] == ("attention_backend flashinfer → trtllm_mla", "max_running_requests 32 → 48")
    assert words[1] == ("attention_backend trtllm_mla → flashinfer", "max_running_requests 48 → 32")


def test_a_recording_knows_only_what_it_was_told() -> None:
    """The server's port tells the same setup again and again; its log tells each start."""
    epochs = Epochs()
    samples = Service(1).samples(40)
    epochs.told(started(samples[0].at - 1.0, PLAIN), by_log=False)
    for sample in samples[:10]:
        epochs.take(sample)
    epochs.told(started(samples[9].at, PLAIN), by_log=False)
    for sample in samples[10:20]:
        epochs.take(sample)
    assert (epochs.restarts, len(epochs.kept)) == (0, 1)

    epochs.told(started(samples[19].at, OTHER), by_log=False)
    for sample in samples[20:30]:
        epochs.take(sample)
    epochs.told(started(samples[29].at, OTHER), by_log=True)
    for sample in samples[30:]:
        epochs.take(sample)

    assert epochs.restarts == 2
    assert [epoch.side.clean for epoch in epochs.kept] == [20, 10, 10]
    assert changed_words(epochs.kept[1].start, epochs.kept[2].start) == ()


def test_a_start_in_a_recording_whose_arguments_before_are_not_known_is_a_restart() -> None:
    epochs = Epochs()
    samples = Service(1).samples(20)
    for sample in samples[:10]:
        epochs.take(sample)
    epochs.told(started(samples[9].at, PLAIN), by_log=True)

    assert epochs.restarts == 1
    assert changed_words(epochs.kept[0].start, epochs.kept[1].start) is None


def test_a_moment_cuts_between_two_samples() -> None:
    samples = Service(1).samples(20)
    epochs = Epochs(moment=(samples[11].at + samples[12].at) / 2.0)
    for sample in samples:
        epochs.take(sample)

    assert [(epoch.cut, epoch.side.clean) for epoch in epochs.kept] == [("start", 12), ("moment", 8)]


def test_a_service_that_is_restarted_for_ever_stays_bounded() -> None:
    epochs = Epochs()
    for number in range(3 * MOST_EPOCHS):
        epochs.restart(float(number), None)

    assert epochs.restarts == 3 * MOST_EPOCHS
    assert len(epochs.kept) == MOST_EPOCHS


def test_ranks_that_step_together_are_known_by_the_arguments() -> None:
    assert coupled({}) is None
    assert coupled({"enable_dp_attention": True}) is True
    assert coupled({"ep_size": 8}) is True
    assert coupled({"ep_size": 1, "tp_size": 8}) is False

"""One reading as text: what it says of the cards and the host."""

from ddwatch.commands.once import hardware_lines, reading
from tests.tui import frames, gpu_frames


def test_an_odd_card_is_named_in_one_line() -> None:
    assert list(hardware_lines(gpu_frames.throttled().snapshot)) == [
        "GPUs: 7 of 8 normal; GPU 5 too hot, 1.62 GHz, others 2.40, 88 °C"
    ]
    assert "\nGPUs: 7 of 8 normal; GPU 3 lost (Xid 79): GPU is lost\n" in reading(gpu_frames.lost().snapshot)


def test_what_is_wrong_with_the_host_is_named_too() -> None:
    assert list(hardware_lines(gpu_frames.busy_host().snapshot)) == [
        "host: the tokenizer keeps one core full (99 %): tokens wait for it",
        "host: the host swaps 5 MiB/s",
    ]


def test_cards_that_are_well_need_no_line() -> None:
    for story in (gpu_frames.loaded, gpu_frames.idle, gpu_frames.power_cap, gpu_frames.stale, frames.founding):
        assert list(hardware_lines(story().snapshot)) == []

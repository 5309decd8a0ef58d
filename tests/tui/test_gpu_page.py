"""The page of the cards: choose one, read it in full, see the host, and leave by the key that led there."""

import asyncio
from datetime import timezone

import pytest
from msgspec.structs import replace

from ddwatch.core.hardware import GpuInstance
from ddwatch.core.snapshot import Frame
from ddwatch.widgets.gpu_card import card_rows, details, plot_rows, traces
from ddwatch.widgets.gpu_listing import GpuListing
from ddwatch.widgets.rows import plain, width_of
from ddwatch.widgets.view import View
from tests.tui import frames, gpu_frames
from tests.tui.picture import Told
from tests.tui.screen import moved, watched

LIVE = View(link="live")
UTC = timezone.utc


def page(frame: Frame | None, width: int = 80) -> str:
    rows = GpuListing(id="listing").content(frame, LIVE, width)
    assert all(width_of(row) <= width for row in rows)
    return "\n".join(plain(row).rstrip() for row in rows)


def in_full(frame: Frame, index: int, width: int = 80) -> str:
    rows = card_rows(frame.snapshot.gpus[index], frame.snapshot, UTC, width)
    assert all(width_of(row) <= width for row in rows)
    return "\n".join(plain(row).rstrip() for row in rows)


def test_the_page_has_the_table_the_host_and_what_was_found_with_what_to_do() -> None:
    text = page(gpu_frames.throttled())
    order = (
        "GPU  state",
        "▸  5  ! too hot",
        "host   scheduler 100 %",
        "found",
        "GPU 5 is slowed down",
        "next:   look at",
    )
    assert [text.index(words) for words in order] == sorted(text.index(words) for words in order)
    assert "the same on GPU 1, 2, 3, 4, 5, 6, 7" in " ".join(page(gpu_frames.power_cap()).split())
    assert "found" not in page(gpu_frames.loaded())


def test_without_cards_the_page_says_why_and_still_has_the_host() -> None:
    assert "give it access to /dev/nvidiactl" in " ".join(page(gpu_frames.not_permitted()).split())
    around = gpu_frames.loaded().snapshot.host
    frame = gpu_frames.no_driver()
    text = page(replace(frame, snapshot=replace(frame.snapshot, host=around)))
    assert "no NVIDIA driver library" in text and "tokenizer 34 %" in text
    assert page(None).strip() == "no data yet"
    assert "not read here" in page(frames.founding())


def test_stale_cards_say_for_how_long_and_why() -> None:
    text = page(gpu_frames.stale())
    assert " ? not read for 42 s: NVML does not answer at GPU 2; its reader is started" in text


def test_a_card_in_full_has_every_value_by_name() -> None:
    known = dict(details(gpu_frames.throttled().snapshot.gpus[5], gpu_frames.throttled().snapshot))
    assert known == {
        "rank": "TP5 · 87.0 GiB are its own · pid 2005: 87.0 GiB",
        "clocks": "SM 1.62 GHz, normal 2.42 · 2.62 at most · 12.5 GHz memory, normal 12.5 · state P1",
        "clock events": "now: thermal · since the driver was loaded: power cap 6 min 52 s",
        "utilisation": "98 % busy · memory 61 %",
        "power": "284 W, limit 600",
        "temperature": "88 °C, slows down at 92",
        "memory": "88.0 GiB of 95.6",
        "memory errors": "corrected 0, uncorrected 0 since the driver was loaded · ever: corrected 3, uncorrected 0 · "
        "0 rows replaced · waits for a reset: no · replacing failed: no",
        "PCIe": "Gen5 x16 · Gen5 x16 at most · 0 replays",
        "NVLink": "–",
        "Xid": "none in this watch",
        "recovery": "the driver asks for none",
        "card": "NVIDIA RTX PRO 6000 Blackwell Server Edition · PCI 0000:39:00.0 · NUMA node 1 · MIG no",
        "UUID": "GPU-00000005-2d4b-11ef-9c1a-0242ac120002",
        "driver": "8 GPUs, driver 580.105.08",
    }


def test_what_a_card_does_not_report_is_a_dash() -> None:
    frame = gpu_frames.unsupported()
    known = dict(details(frame.snapshot.gpus[0], frame.snapshot))
    assert {name for name, text in known.items() if text == "–"} == {
        "rank", "clock events", "utilisation", "power", "memory errors", "PCIe", "NVLink", "recovery",
    }  # fmt: skip
    assert in_full(frame, 0).count("not reported") == 2
    shared = gpu_frames.shared_memory()
    assert dict(details(shared.snapshot.gpus[0], shared.snapshot))["memory"] == "–"


def test_nvlinks_and_throughput_are_told_where_they_are_reported() -> None:
    frame = gpu_frames.loaded()
    gpu = frame.snapshot.gpus[0]
    linked = replace(
        gpu.card, nvlinks=18, nvlinks_active=17, nvlink_errors={"crc": 4}, pcie_send_bytes_per_second=2.5e9
    )
    known = dict(details(replace(gpu, card=linked, xids={"79": 2}), frame.snapshot))
    assert known["NVLink"] == "17 of 18 up · errors: crc 4"
    assert known["PCIe"].endswith("sends 2.50GB/s")
    assert known["Xid"] == "79 ×2"


def test_the_parts_of_a_split_card_are_told_with_their_memory() -> None:
    frame = gpu_frames.loaded()
    gpu = frame.snapshot.gpus[0]
    part = GpuInstance(uuid="MIG-a", profile="3g.71gb", memory_total_bytes=71 * 2**30, memory_used_bytes=3 * 2**30)
    split = replace(gpu.card, mig=True, instances=(part, GpuInstance()))
    told = [text for name, text in details(replace(gpu, card=split), frame.snapshot) if name == "MIG part"]
    assert told == ["3g.71gb · 3.0 GiB of 71.0 · MIG-a", "–"]


def test_the_plots_end_at_a_round_number_above_the_card_s_own_limit() -> None:
    drawn = traces(gpu_frames.throttled().snapshot.gpus[5])
    assert [(trace.title, round(trace.top, 2), trace.words) for trace in drawn] == [
        ("utilisation", 100.0, ""), ("SM clock", 3.0, "normal 2.42"), ("power", 600.0, "limit 600"),
        ("temperature", 100.0, "slows down at 92"),
    ]  # fmt: skip
    bare = traces(gpu_frames.unsupported().snapshot.gpus[0])
    assert (bare[1].words, bare[3].top) == ("no normal yet", 80.0)
    without = replace(gpu_frames.loaded().snapshot.gpus[0], trend=None)
    assert traces(without) == [] and plot_rows(without, UTC, 80) == []


@pytest.mark.parametrize(("width", "rows"), [(60, 24), (80, 12), (120, 12)])
def test_plots_stand_in_pairs_where_there_is_room(width: int, rows: int) -> None:
    drawn = plot_rows(gpu_frames.throttled().snapshot.gpus[5], UTC, width)
    assert len(drawn) == rows
    assert all(width_of(row) == width for row in drawn)
    signs = "".join(
        plain(row) for row in plot_rows(gpu_frames.throttled().snapshot.gpus[5], UTC, width, ascii_only=True)
    )
    assert not any("⠀" < sign <= "⣿" for sign in signs)


def test_a_lost_card_in_full_says_what_is_known_of_it() -> None:
    text = in_full(gpu_frames.lost(), 3)
    assert "GPU 3 cannot be read: GPU is lost" in text
    assert "PCI 0000:29:00.0" in text and "79 ×1" in text
    assert "nothing is wrong with this card" in in_full(gpu_frames.lost(), 2)
    assert "not read any more" in in_full(gpu_frames.stale(), 2)


def test_the_key_leads_there_and_back_and_home_is_home() -> None:
    async def story() -> None:
        async with watched(Told(gpu_frames.throttled())) as screen:
            await screen.reads("! GPU 5 too hot, 1.62 GHz")
            assert "g GPUs" in screen.text()
            await screen.press("g")
            await screen.reads("8 × RTX PRO 6000 Blackwell · 7 of 8 normal")
            assert "↑ ↓ card  enter in full" in screen.text()
            await screen.press("g")
            await screen.reads("throughput")
            await screen.press("e", "end", "home", "g")
            await screen.reads("times UTC")
            assert "── events" in screen.text()

    asyncio.run(story())


def test_up_and_down_choose_a_card_and_enter_shows_it_in_full() -> None:
    async def story() -> None:
        async with watched(Told(gpu_frames.throttled())) as screen:
            await screen.reads("● live")
            await screen.press("g")
            await screen.reads("▸  5  ! too hot")
            await screen.press("up")
            await screen.reads("▸  4  ✓ ok")
            await screen.press("enter")
            await screen.reads("── GPU 4  TP4")
            assert "  5  ! too hot" not in screen.text()
            await screen.press("down")
            await screen.reads("── GPU 5  TP5")
            assert "normal 2.42" in screen.text()
            await screen.press("end")
            await screen.reads("8 GPUs, driver 580.105.08")
            await screen.press("up")
            await screen.reads("── GPU 4  TP4")
            await screen.press("enter")
            await screen.reads("▸  4  ✓ ok")
            assert "  5  ! too hot" in screen.text()
            await screen.press("up", "up", "up", "up", "up", "up")
            await screen.reads("▸  0  ✓ ok")

    asyncio.run(story())


def test_what_the_reader_has_chosen_stays_chosen() -> None:
    async def story() -> None:
        async with watched(Told(gpu_frames.loaded())) as screen:
            await screen.reads("● live")
            await screen.press("g", "down", "down")
            await screen.reads("▸  2  ✓ ok")
            await screen.say(moved(gpu_frames.throttled(), 1.0), "! too hot")
            assert "▸  2  ✓ ok" in screen.text()

    asyncio.run(story())


def test_a_chosen_card_is_always_in_sight() -> None:
    async def story() -> None:
        async with watched(Told(gpu_frames.sixteen()), 80, 16) as screen:
            await screen.reads("● live")
            await screen.press("g")
            await screen.reads("GPU  state")
            for _ in range(16):
                await screen.press("down")
            await screen.reads("▸ 15  ✓ ok")
            for _ in range(16):
                await screen.press("up")
            await screen.reads("▸  0  ✓ ok")

    asyncio.run(story())


def test_a_tall_page_has_the_chosen_card_s_plots_below() -> None:
    async def story() -> None:
        async with watched(Told(gpu_frames.throttled()), 120, 40) as screen:
            await screen.reads("● live")
            await screen.press("g")
            await screen.reads("enter: in full")
            assert "slows down at 92" in screen.text()

    asyncio.run(story())


def test_the_panel_is_made_large_by_its_number() -> None:
    async def story() -> None:
        async with watched(Told(gpu_frames.throttled())) as screen:
            await screen.reads("● live")
            await screen.press("9")
            await screen.reads("▸ GPUs  8 × RTX PRO 6000 Blackwell")
            assert "throughput" not in screen.text()
            await screen.press("9")
            await screen.reads("throughput")

    asyncio.run(story())

"""The panel of the cards at every height, the host's line, and what was found with what to do."""

from datetime import timezone

import pytest
from msgspec.structs import replace

from ddwatch.core.hardware_view import Finding
from ddwatch.core.snapshot import Frame
from ddwatch.widgets.finding_rows import finding_rows, together, told
from ddwatch.widgets.gpus import NOT_READ, GpuPanel, absence, folded_rows, kinds_of_card
from ddwatch.widgets.host_rows import host_rows
from ddwatch.widgets.rows import plain, width_of
from ddwatch.widgets.view import View
from tests.tui import frames, gpu_frames
from tests.tui.frames import NOON

LIVE = View(link="live")
UTC = timezone.utc


def panel(frame: Frame, width: int, height: int, view: View = LIVE) -> list[str]:
    rows = GpuPanel(id="gpus").draw(frame, view, width, height)
    assert len(rows) <= height
    return [plain(row).rstrip() for row in rows]


def test_one_row_tells_of_all_cards() -> None:
    assert panel(gpu_frames.loaded(), 80, 1) == [
        " ✓ GPUs  8 of 8 normal   96…98 %   2.40…2.43 GHz   413…424 of 600 W   63…70 °C"
    ]
    assert panel(gpu_frames.loaded(), 60, 1) == [" ✓ GPUs  8 of 8 normal   96…98 %   2.40…2.43 GHz"]
    assert panel(gpu_frames.idle(), 80, 1) == [" ✓ GPUs  8 idle   0 %       0.18 GHz        14 of 600 W        31 °C"]
    assert panel(gpu_frames.loaded(), 120, 1)[0].endswith("63…70 °C   88 of 96 GiB")


def test_one_row_begins_with_the_odd_card() -> None:
    assert panel(gpu_frames.throttled(), 80, 1) == [
        f"{' ! GPU 5 too hot, 1.62 GHz, others 2.40, 88 °C':<66}7 of 8 normal"
    ]
    assert panel(gpu_frames.lost(), 60, 1) == [f"{' ✗ GPU 3 lost (Xid 79): GPU is lost':<46}7 of 8 normal"]
    assert panel(gpu_frames.stale(), 80, 1)[0].startswith(" ? GPUs  not read for 42 s: NVML does not answer at GPU 2; ")


def test_three_rows_have_the_odd_card_and_the_others() -> None:
    assert panel(gpu_frames.pcie(), 80, 3) == [
        "── GPUs  8 × RTX PRO 6000 Blackwell ─────────────────────────── 7 of 8 normal ──",
        " ! GPU 1 straggler, PCIe x8/16 G4/5",
        "   the others   96…98 %   2.40…2.43 GHz   414…424 of 600 W   63…70 °C",
    ]
    quiet = panel(gpu_frames.loaded(), 80, 3)
    assert quiet[1] == " ✓ 96…98 %   2.40…2.43 GHz   413…424 of 600 W   63…70 °C   88 of 96 GiB"
    assert quiet[2].startswith("   host   scheduler 100 %, a full core (TP0, busiest of 8)")


def test_where_all_cards_are_well_the_host_s_trouble_comes_first() -> None:
    assert panel(gpu_frames.busy_host(), 80, 1) == [
        f"{' ! the tokenizer keeps one core full (99 %): tokens wait for it':<66}8 of 8 normal"
    ]
    rows = panel(gpu_frames.busy_host(), 80, 3)
    assert rows[1] == " ! the tokenizer keeps one core full (99 %): tokens wait for it"
    assert rows[2].startswith(" ✓ 96…98 %   2.40…2.43 GHz")


def test_what_cards_do_not_report_is_left_out_of_a_row() -> None:
    assert panel(gpu_frames.unsupported(), 80, 1) == [
        " ✓ GPUs  2 of 2 normal   2.42…2.43 GHz   63…64 °C   88 of 96 GiB"
    ]


def test_a_table_has_below_it_what_was_found_or_the_host() -> None:
    hot = panel(gpu_frames.throttled(), 120, 11)
    assert hot[0].endswith("7 of 8 normal ──")
    assert [row.split()[0] for row in hot[2:10]] == list("01234567")
    assert hot[10].startswith(" ! 11:59:00 GPU 5 is slowed down by the driver because it is too hot (88 °C")
    assert panel(gpu_frames.loaded(), 120, 11)[10].startswith(" host   scheduler 100 %, a full core")
    assert panel(gpu_frames.busy_host(), 120, 11)[10].startswith(" ! 11:59:20 the tokenizer keeps one core full (99 %)")
    assert panel(gpu_frames.stale(), 120, 11)[10].startswith(" ? not read for 42 s: NVML does not answer at GPU 2")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 6, 9, 11, 20, 40])
def test_every_story_fits_at_every_size(width: int, height: int) -> None:
    for story in (
        gpu_frames.loaded, gpu_frames.lost, gpu_frames.sixteen, gpu_frames.one, gpu_frames.unsupported,
        gpu_frames.busy_host, gpu_frames.errors, gpu_frames.not_permitted,
    ):  # fmt: skip
        rows = GpuPanel(id="gpus").draw(story(), LIVE, width, height)
        assert 1 <= len(rows) <= height
        assert all(width_of(row) <= width for row in rows)


def test_a_large_panel_has_findings_with_what_to_do_and_the_host() -> None:
    text = "\n".join(panel(gpu_frames.errors(), 100, 40))
    for words in ("drain-and-reset of GPU 0", "next:   drain the service from it", "host   scheduler", "swap 0"):
        assert words in text


def test_without_cards_it_says_why_and_what_would_help() -> None:
    assert "give it access to /dev/nvidiactl" in " ".join(" ".join(panel(gpu_frames.not_permitted(), 80, 6)).split())
    assert absence(gpu_frames.no_driver().snapshot) == gpu_frames.NO_DRIVER
    assert absence(frames.founding().snapshot) == NOT_READ
    assert "--nvml" in " ".join(panel(frames.founding(), 80, 4))


def test_old_data_is_dim() -> None:
    rows = GpuPanel(id="gpus").draw(gpu_frames.throttled(), replace(LIVE, link="lost"), 120, 11)
    assert {role for row in rows for _, role in row} <= {"tainted", "faint"}


def test_it_is_drawn_anew_only_for_new_readings() -> None:
    frame = gpu_frames.loaded()
    later = replace(frame, snapshot=replace(frame.snapshot, at=NOON + 0.5, seq=20_001))
    one = GpuPanel(id="gpus")
    assert one.memory(frame, LIVE) == one.memory(later, LIVE)
    assert one.memory(frame, LIVE) != one.memory(gpu_frames.throttled(), LIVE)
    old = gpu_frames.stale()
    older = replace(old, snapshot=replace(old.snapshot, at=NOON + 5))
    assert one.memory(old, LIVE) != one.memory(older, LIVE)


def test_several_odd_cards_are_counted() -> None:
    frame = gpu_frames.throttled()
    gpus = list(frame.snapshot.gpus)
    gpus[3] = gpu_frames.lost().snapshot.gpus[3]
    both = replace(frame, snapshot=replace(frame.snapshot, gpus=tuple(gpus)))
    first, second = folded_rows(both, LIVE, 80, 3)[:2]
    assert plain(first).startswith(" ✗ GPU 3 lost") and plain(second).startswith(" ! GPU 5 too hot")
    assert plain(folded_rows(both, LIVE, 80, 1, "GPUs")[0]).rstrip().endswith("6 of 8 normal")


def test_cards_of_several_kinds_are_named() -> None:
    gpus = (*gpu_frames.one().snapshot.gpus, *gpu_frames.unsupported().snapshot.gpus)
    assert kinds_of_card(gpus) == "1 × RTX PRO 6000 Blackwell, 2 × H100 80GB HBM3"


def test_the_host_says_who_fills_a_core_and_what_is_not_as_it_should_be() -> None:
    frame = gpu_frames.busy_host()
    rows = host_rows(frame.snapshot.host, 80, 9)
    text = [plain(row) for row in rows]
    assert text == [
        " host   scheduler 100 %, a full core (TP0, busiest of 8)",
        "        ! tokenizer 99 %, a full core   detokenizer 12 %",
        "        run queue 11 on 64 cores   all cores 16 %   memory 395 of 1007 GiB",
        "        ! swap 3.2 GB, 5 MB/s   NUMA 2 nodes, balancing off   governor powersave",
    ]
    assert ("! ", "notice") in rows[1]
    assert len(host_rows(frame.snapshot.host, 80, 2)) == 2
    assert plain(host_rows(None, 80, 2)[0]) == " host –"


def test_what_the_host_does_not_report_is_left_out() -> None:
    around = gpu_frames.loaded().snapshot.host
    assert around is not None
    bare = replace(around, reading=replace(gpu_frames.host(NOON), processes=(), swap_used_bytes=None, numa_nodes=None,
                                           governors=(), run_queue=None, memory_available_bytes=None))  # fmt: skip
    assert [plain(row) for row in host_rows(bare, 80, 9)] == [" host   all cores 16 %"]


def test_a_finding_has_its_sign_time_sentence_and_next_step() -> None:
    finding = Finding(
        kind="pcie-link", grade="warning", severity="notice", since=NOON - 90, index=1, sentence="GPU 1 is slow",
        next_step="check slot, riser and cable",
    )  # fmt: skip
    rows = [plain(row) for row in finding_rows(finding, NOON, UTC, 40)]
    assert rows == [" ! 11:58:30 GPU 1 is slow", "   next:   check slot, riser and cable"]
    assert plain(finding_rows(finding, NOON, UTC, 60, more=(2, 3), step=False)[0]).endswith("; the same on GPU 2, 3")
    assert finding_rows(replace(finding, sentence="\x1b[2J"), NOON, UTC, 60)[0][1][0].isprintable()


def test_the_same_information_of_all_cards_is_said_once_and_a_straggler_with_its_reason_only_by_that() -> None:
    capped = gpu_frames.power_cap().snapshot
    ((first, more),) = together([finding for gpu in capped.gpus for finding in gpu.findings])
    assert (first.kind, more) == ("power-cap", (1, 2, 3, 4, 5, 6, 7))
    assert told(capped) == []
    assert [finding.kind for finding, _ in told(gpu_frames.throttled().snapshot)] == ["thermal"]
    assert [finding.kind for finding, _ in told(gpu_frames.straggler().snapshot)] == ["straggler"]

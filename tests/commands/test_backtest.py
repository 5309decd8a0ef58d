"""`ddwatch backtest`: figures on a simulated log and on a recording, and a sentence where the evidence is too thin."""

import gzip
import math
import random
from datetime import timezone
from pathlib import Path

import pytest
from ddwatch_sidecar.exports.recording_rows import write

from ddwatch.commands.backtest_past import MOST_ENTRIES, Past, cut, of_log
from ddwatch.core.detection.backtest import CHANGES, Restarted
from ddwatch.core.exits import Exit
from ddwatch.core.records import ServerStart
from ddwatch.core.snapshot import Sample
from ddwatch.demo.scenarios import generate
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.sidecar.exports.recordings import START, begun, sample

LOGS = Path(__file__).parent.parent / "golden" / "logs"
FEW = ("--trials", "4", "--tz", "UTC")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours of mixed texts, a line per ten steps."""
    path = tmp_path_factory.mktemp("logs") / "sglang.log"
    lines = [line for _, line in generate("steady", 3, START, 5000.0, interval=10)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class TestFigures:
    def test_every_injected_change_is_found_and_nothing_else(
        self, log: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ended = said(["backtest", str(log), "--json", *FEW], capsys)
        document = held_against("backtest.json", ended.out)

        assert (ended.code, ended.err) == (Exit.OK, "")
        assert [one["name"] for one in document["changes"]] == [change.name for change in CHANGES]
        assert all((one["trials"], one["found"], one["wrong"]) == (4, 4, 0) for one in document["changes"])
        assert document["alarms"]["count"] == 0 and document["alarms"]["per_day"]["low"] == 0.0
        assert document["profile"]["fitted_on"] > 500
        assert document["tested"]["judged"] <= document["tested"]["samples"]
        fifteen = document["changes"][1]
        assert fifteen["lines"]["low"] <= fifteen["lines"]["value"] and fifteen["seconds"]["value"] < 120.0

    def test_the_table_fits_a_terminal_and_the_seed_settles_it(
        self, log: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ended = said(["backtest", str(log), *FEW], capsys)

        assert ended.code == Exit.OK
        assert max(len(line) for line in ended.out.splitlines()) <= 80
        assert "no alarm with nothing injected in" in ended.out
        assert "15 % slower" in ended.out and "4 of 4" in ended.out
        assert said(["backtest", str(log), *FEW], capsys).out == ended.out

    def test_what_fires_by_itself_is_counted(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "slow.log.gz"
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write("\n".join(plain_log(2400, slow_from=1800)) + "\n")
        document = held_against("backtest.json", said(["backtest", str(path), "--json", *FEW], capsys).out)

        assert document["alarms"]["by_name"] == {"slow-step": 1}
        assert document["alarms"]["per_day"]["low"] > 0.0

    def test_a_given_profile_is_judged_by_on_all_of_it(
        self, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        profile = str(tmp_path / "mine.toml")
        said(["fit", str(log), "-o", profile, "--tz", "UTC"], capsys)
        ended = said(["backtest", str(log), "--profile", profile, "--json", *FEW], capsys)
        document = held_against("backtest.json", ended.out)
        halved = held_against("backtest.json", said(["backtest", str(log), "--json", *FEW], capsys).out)

        assert document["profile"] == {**document["profile"], "name": "mine", "fitted_on": None}
        assert document["tested"]["samples"] > 1.8 * halved["tested"]["samples"]

    def test_a_recording_gives_figures_too(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        chance = random.Random(7)
        with begun(tmp_path) as file:
            rows = [
                sample(START + 2.0 * number, step=0.05 * math.exp(0.02 * chance.gauss(0.0, 1.0)))
                for number in range(2400)
            ]
            write(file, rows)
        ended = said(["backtest", str(tmp_path / "service.sqlite"), "--json", *FEW], capsys)
        document = held_against("backtest.json", ended.out)

        assert document["alarms"]["count"] == 0
        found = {one["name"]: one["found"] for one in document["changes"]}
        assert [found[name] for name in ("10 % slower", "15 % slower", "30 % slower", "+30 ms per step")] == [4] * 4
        # At one context only, nobody can know what context costs.
        assert found["context costs twice"] == 0


class TestThinEvidence:
    @pytest.mark.parametrize(
        ("words", "code", "sentence"),
        [
            (["{tmp}/none.log"], 66, "there is no file"),
            (["{logs}/22-start-pt-shards-embedding.log"], 66, "no decode line in"),
            (["{logs}/05-v04-steady-decline-with-context.log"], 3, "the earlier part is too thin: "),
            (["{tmp}/short.log"], 3, "later samples can be judged; need 200"),
            (["{log}", "--profile", "kimi-k2.6-ddtree-8x-rtx-pro-6000"], 3, "accuses nobody"),
            (["{log}", "--tz", "Mars"], 64, "no time zone 'Mars'"),
            (["{log}", "--trials", "0"], 64, "--trials is 1 to 1000"),
            (["{log}", "--profile", "none"], 66, "there is no profile and no file none"),
        ],
    )
    def test_it_is_one_sentence(
        self,
        words: list[str],
        code: int,
        sentence: str,
        log: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        (tmp_path / "short.log").write_text("\n".join(plain_log(200)) + "\n", encoding="utf-8")
        ended = said(["backtest", *(word.format(tmp=tmp_path, logs=LOGS, log=log) for word in words)], capsys)

        assert (ended.code, ended.out) == (code, "")
        assert sentence in ended.err and ended.err.count("\n") == 1

    def test_an_empty_recording_says_so(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with begun(tmp_path):
            pass
        ended = said(["backtest", str(tmp_path)], capsys)

        assert (ended.code, ended.out) == (Exit.INPUT, "")
        assert "no sample is recorded in" in ended.err


class TestCut:
    def test_both_parts_have_half_of_the_clean_samples(self, log: Path) -> None:
        past = of_log(str(log), timezone.utc)
        parts = cut(past)
        clean = sum(one.clean for one in past.samples)

        assert parts.setup is not None and parts.setup.gathering.clean == clean // 2
        assert sum(isinstance(item, Sample) and item.clean for item in parts.later) == clean - clean // 2

    def test_a_restart_is_an_item_of_its_own(self, tmp_path: Path) -> None:
        path = tmp_path / "restart.log"
        lines = plain_log(100)
        boot = "[2026-05-01 00:30:00] server_args=ServerArgs(model_path='a/model', tp_size=8)"
        path.write_text("\n".join([boot, *lines, boot.replace("00:30", "03:30"), *lines]) + "\n", encoding="utf-8")

        assert any(isinstance(item, Restarted) for item in cut(of_log(str(path), timezone.utc), 0.1).later)

    def test_another_service_is_left_out_and_told(self) -> None:
        past = Past("a log")
        for model, begin in (("a/first", 0), ("a/second", 1000)):
            past.add(ServerStart(at=START + begin, arguments={"model_path": model}))
            for number in range(100):
                past.add(sample(START + begin + number))
        parts = cut(past)

        assert parts.later == ()
        assert any("100 later samples of another service" in words for words in parts.left_out)

    def test_the_oldest_give_way_and_their_setup_stays(self) -> None:
        past = Past("a log")
        past.add(ServerStart(at=START, arguments={"speculative_dflash_block_size": 8, "ep_size": 4}))
        one = sample(START)
        for _ in range(MOST_ENTRIES + 5):
            past.add(one)
        parts = cut(past, 0.0)

        assert len(past.entries) == MOST_ENTRIES
        assert (parts.coupled, parts.block_size) == (True, 8)
        assert parts.left_out == (f"5 older samples: the newest {MOST_ENTRIES} are kept",)


def plain_log(count: int, slow_from: int | None = None) -> list[str]:
    """Decode lines two seconds apart of one long run, slower by a third from one line on."""
    chance = random.Random(5)
    found = []
    for number in range(count):
        second = 2 * number
        step = 0.05 * math.exp(0.02 * chance.gauss(0.0, 1.0))
        step *= 1.33 if slow_from is not None and number >= slow_from else 1.0
        found.append(
            f"[2026-05-01 {1 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} TP0] Decode batch, "
            f"#running-req: 2, #token: {8000 + 4 * (number % 100)}, token usage: 0.01, accept len: 2.50, accept rate: "
            f"0.09, cuda graph: True, gen throughput (token/s): {5.0 / step:.2f}, #queue-req: 0"
        )
    return found

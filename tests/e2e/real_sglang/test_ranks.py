"""Two data-parallel ranks of a real SGLang are two ranks in ddwatch, by the log and by the moments."""

import json
from typing import Any

import pytest

from tests.commands.documents import held_against
from tests.e2e.real_sglang.server import Background, serving
from tests.e2e.real_sglang.test_agreement import ACCEPT_LENGTH, ddwatch
from tests.e2e.real_sglang.test_restart import SIDECAR, within
from tests.e2e.real_sglang.test_witnesses import PASSES, REQUESTS, Told, history_of, recorded, settled
from tests.sidecar.running import running

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(600)]


def test_two_ranks_are_two_ranks_everywhere(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ranks")
    name, records = f"ipc://{folder}/fpm", folder / "records"
    flags = ("--load-balance-method", "round_robin", *PASSES, name, *REQUESTS, str(records))
    with serving(folder, *flags, ranks=2) as server:
        words = ("--log", str(server.log), "--sglang-url", server.url, "--fpm", name, "--request-metrics", str(records))
        with running(*words, *SIDECAR) as sidecar:

            def both() -> Any:
                snapshot = held_against("snapshot.json", sidecar.get("/v1/snapshot").text)
                kinds = {(rank["sample"]["dp_rank"], rank["sample"]["provenance"]) for rank in snapshot["ranks"]}
                # A rank whose requests have just ended has no part in the present reading.
                running = sum(rank["sample"]["batch"] or 0 for rank in snapshot["ranks"])
                whole = {(0, "moments"), (1, "moments")} <= kinds and snapshot["now"]["batch"] == running > 1
                return snapshot if whole else None

            def working() -> Any:
                # The page is read every few seconds, which may fall between two answers.
                snapshot = sidecar.get("/v1/snapshot").json()
                engine, forward = snapshot["engine"] or {"running": None}, snapshot["forward"] or {"batch": None}
                return snapshot if engine["running"] in range(2, 5) and forward["batch"] in range(2, 5) else None

            with Background(server, 1, users=4) as load:
                snapshot = within(120, both, "both ranks by their moments")
                within(120, lambda: min(rank[0] for rank in server.moments()) > 250, "steps of both ranks")
                told = within(120, working, "page and passes of both ranks at work")
                page = sidecar.get("/metrics").text
            moments = server.moments()
            within(30, lambda: settled(sidecar, records), "each request to be told")
            requests = history_of(sidecar).requests
        steps = ddwatch("steps", str(server.log), "--tz", "UTC")
        truth = server.verified()
    rows = [json.loads(row) for row in steps.stdout.splitlines()]

    # What both ranks did is one sum, and each request belongs to the rank that its record names.
    assert told["engine"]["queued"] == 0
    of = {Told(one.prompt_tokens, one.completion_tokens, one.latency_seconds): one.dp_rank for one in requests}
    kept = [record for file in recorded(records).values() for record in file]
    assert len(of) == len(requests) == len(kept) > len(load.answers) > 4
    assert {answer.key for answer in load.answers} <= of.keys()
    assert of == {
        Told(one["prompt_tokens"], one["completion_tokens"], one["e2e_latency"]): one["dp_rank"] for one in kept
    }
    assert set(of.values()) == {0, 1}
    assert (told["engine"]["ranks"], told["forward"]["ranks"], told["forward"]["lost"]) == (2, 2, 0)
    for rank in (0, 1):
        series = f'{{dp_rank="{rank}",provenance="fpm",resolution="step",span="forward"}}'
        assert f"ddwatch_verify_latency_seconds_count{series}" in page
    assert snapshot["server"]["dp"] == 2
    assert [rank["sample"]["dp_rank"] for rank in snapshot["ranks"]] == [0, 1]
    assert len(moments) == 2
    assert {row["dp_rank"] for row in rows} == {0, 1}
    committed = sum(row["batch"] * row["accept_length"] for row in rows) / sum(row["batch"] for row in rows)
    assert committed == pytest.approx(sum(map(sum, truth)) / sum(map(len, truth)), rel=ACCEPT_LENGTH)
    for rank, (_, batch, *_, tokens) in enumerate(moments):
        own = [row for row in rows if row["dp_rank"] == rank]
        logged = sum(row["batch"] * row["accept_length"] for row in own) / sum(row["batch"] for row in own)
        assert logged == pytest.approx(tokens / batch, rel=0.1)

"""Where GPUs are known to be absent, one sentence says so, once."""

import asyncio

from ddwatch_sidecar.sources.absent import AbsentCards

from ddwatch.core.records import SourceFault
from tests.fakes.clock import START


def test_the_sentence_is_said_once_and_nothing_is_broken() -> None:
    cards = AbsentCards("no GPUs here: there is no compiler")

    first = asyncio.run(cards.poll(START))
    later = asyncio.run(cards.poll(START + 60))

    assert first == [
        SourceFault(at=START, source="nvml", reason="no GPUs here: there is no compiler", waiting=True),
    ]
    assert later == []

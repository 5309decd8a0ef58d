"""A server that accepts and never answers is found out within the patience that was handed in."""

import pytest

from ddwatch.probes.failures import ProbeFailed
from ddwatch.probes.server import Server
from tests.fakes.hostile import hostile


def test_a_hung_server_is_one_sentence() -> None:
    with hostile(None) as url:
        server = Server(url, patience=0.2)
        with pytest.raises(ProbeFailed) as failed:
            server.generate("why", 8)
        server.close()
    assert failed.value.kind == "hung"
    assert "sends nothing within" in failed.value.sentence

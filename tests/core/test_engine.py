"""A heartbeat is a pass that did nothing."""

from ddwatch.core.engine import ForwardPass


def test_only_a_pass_without_work_and_time_is_a_heartbeat() -> None:
    assert ForwardPass(at=0.0, dp_rank=0, counter=0, seconds=0.0).heartbeat
    assert not ForwardPass(at=0.0, dp_rank=0, counter=0, seconds=0.02, decode_requests=1).heartbeat
    assert not ForwardPass(at=0.0, dp_rank=0, counter=0, seconds=0.0, prefill_requests=1).heartbeat
    assert not ForwardPass(at=0.0, dp_rank=0, counter=0, seconds=0.001).heartbeat

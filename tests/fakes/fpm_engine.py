"""SGLang's side of FPM for tests: real ZMQ PUB sockets that say what the published engine says, byte for byte."""

from pathlib import Path
from typing import Any

import msgspec
import zmq


class Scheduled(msgspec.Struct, frozen=True):
    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    var_prefill_length: float = 0.0
    sum_prefill_kv_tokens: int = 0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    var_decode_kv_tokens: float = 0.0


class Queued(msgspec.Struct, frozen=True):
    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    var_prefill_length: float = 0.0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    var_decode_kv_tokens: float = 0.0


class Message(msgspec.Struct, frozen=True):
    version: int = 1
    worker_id: str = ""
    dp_rank: int = 0
    counter_id: int = 0
    wall_time: float = 0.0
    scheduled_requests: Scheduled = Scheduled()
    queued_requests: Queued = Queued()


def frames(message: Message | dict[str, Any], counter: int) -> list[bytes]:
    """The three parts of a message."""
    return [b"", counter.to_bytes(8, "big"), msgspec.msgpack.encode(message)]


class Engine:
    """One scheduler rank that publishes on a socket of its own."""

    def __init__(self, base: Path | str, dp_rank: int = 0, version: int = 1) -> None:
        name = str(base)
        self.endpoint = name if "://" in name else f"ipc://{name}.{dp_rank}"
        self._dp_rank = dp_rank
        self._version = version
        self.counter = 0
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._socket.bind(self.endpoint)
        if self.endpoint.startswith("tcp://"):
            self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def heard(self) -> bool:
        """Whether somebody has subscribed since this was last asked."""
        return bool(self._socket.poll(0)) and self._socket.recv() == b"\x01"

    def step(
        self,
        seconds: float = 0.02,
        requests: int = 1,
        context: int = 1000,
        prefill: tuple[int, int] = (0, 0),
        queued: int = 0,
    ) -> None:
        """Publishes one pass."""
        self._publish(
            seconds,
            Scheduled(
                num_prefill_requests=prefill[0],
                sum_prefill_tokens=prefill[1],
                num_decode_requests=requests,
                sum_decode_kv_tokens=context,
            ),
            Queued(num_prefill_requests=queued),
        )

    def heartbeat(self) -> None:
        """Publishes what an engine says that has nothing to do."""
        self._publish(0.0, Scheduled(), Queued())

    def lose(self, passes: int) -> None:
        """Counts passes that nobody receives."""
        self.counter += passes

    def say(self, parts: list[bytes]) -> None:
        """Publishes anything."""
        self._socket.send_multipart(parts)

    def _publish(self, seconds: float, scheduled: Scheduled, queued: Queued) -> None:
        message = Message(
            version=self._version,
            dp_rank=self._dp_rank,
            counter_id=self.counter,
            wall_time=seconds,
            scheduled_requests=scheduled,
            queued_requests=queued,
        )
        self.say(frames(message, self.counter))
        self.counter += 1

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close(linger=0)
        self._context.term()

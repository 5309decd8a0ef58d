"""A small real HTTP server that behaves like a sidecar, or like anything else that may answer at its address."""

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from ddwatch.core import wire
from ddwatch.core.snapshot import Frame, History, Point, ServerView, Snapshot, SourceView, Verdict

Answer = Callable[[BaseHTTPRequestHandler], None]


def small_frame(seq: int, *, started_at: float = 100.0, complete: bool = True, first: int | None = None) -> Frame:
    """A frame with the points `first` … `seq` (by default only the newest)."""
    points = tuple(
        Point(seq=number, at=1000.0 + number, throughput=float(number)) for number in range(first or seq, seq + 1)
    )
    return Frame(
        snapshot=Snapshot(
            seq=seq,
            at=1000.5 + seq,
            started_at=started_at,
            server=ServerView(model="m"),
            verdict=Verdict(name="learning", severity="unknown", since=0.0, sentence="no model yet"),
            sources=(SourceView(name="log", state="up", last_at=1000.0 + seq, lines=seq),),
        ),
        history=History(complete=complete, points=points),
    )


def event(frame: Frame) -> bytes:
    """One `frame` event."""
    return b"id: %d\nevent: frame\ndata: %b\n\n" % (frame.snapshot.seq, wire.encode_stream(frame))


def farewell(sentence: str) -> bytes:
    """The last event of a sidecar that stops."""
    return b"event: end\ndata: %b\n\n" % json.dumps({"schema": "ddwatch.error/1", "error": sentence}).encode()


def plain(status: int, kind: str, body: bytes) -> Answer:
    """An ordinary answer."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def snapshot(frame: Frame) -> Answer:
    """/v1/snapshot."""
    return plain(200, "application/json", wire.encode_snapshot(frame.snapshot))


class FakeSidecar:
    """Gives each request for the stream its next answer, the last one again and again; other paths by name."""

    def __init__(self, *streams: Answer, others: dict[str, Answer] | None = None) -> None:
        self.streams = list(streams)
        self.others = others or {}
        self.asked: list[dict[str, str]] = []
        """Headers of every request, in lower case, with the path under `path`."""
        self.released = threading.Event()
        """Ends every stream that is held open."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_arguments: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answers one request."""
        self.asked.append({"path": handler.path, **{name.lower(): value for name, value in handler.headers.items()}})
        path = handler.path.split("?")[0]
        if path in self.others:
            self.others[path](handler)
        elif path == "/v1/stream" and self.streams:
            (self.streams.pop(0) if len(self.streams) > 1 else self.streams[0])(handler)
        else:
            plain(404, "application/json", b"{}")(handler)

    def stream(self, *parts: bytes, hold: bool = True, pause: float = 0.0) -> Answer:
        """A stream that sends the parts with pauses between, then stays open until released, or closes."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
            handler.end_headers()
            for part in parts:
                handler.wfile.write(part)
                handler.wfile.flush()
                if pause:
                    self.released.wait(pause)
            if hold:
                self.released.wait(30)

        return answer

    def serve(self, answers: Sequence[Answer]) -> None:
        """Replaces the answers to come."""
        self.streams[:] = answers

    def __enter__(self) -> "FakeSidecar":
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

"""A stand-in for the daemon: the few answers of the Engine API that a real docker client needs to show a log."""

import json
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.containers.paper import Missing, found, messages, nanos_of

STREAMS = {"stdout": 1, "stderr": 2}


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    root: Path
    leaving: threading.Event

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed breaks its connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 the name is the parent's
        """Says nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parts = [part for part in url.path.split("/") if part]
        if parts[-1] == "_ping":
            self._answer(200, b"OK", "text/plain")
            return
        try:
            if parts[-3:-2] == ["containers"] and parts[-1] == "json":
                _, state = found(self.server.root, parts[-2])
                document = {**state, "Name": f"/{state['Name']}", "Config": {"Tty": False}, "HostConfig": {}}
                self._answer(200, json.dumps(document).encode())
            elif parts[-3:-2] == ["containers"] and parts[-1] == "logs":
                self._logs(parts[-2], {name: values[0] for name, values in parse_qs(url.query).items()})
            else:
                self._answer(404, json.dumps({"message": "page not found"}).encode())
        except Missing as missing:
            self._answer(404, json.dumps({"message": f"No such container: {missing}"}).encode())

    def _answer(self, code: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Api-Version", "1.45")
        self.send_header("Ostype", "linux")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _logs(self, name: str, asked: dict[str, str]) -> None:
        assert asked.get("timestamps") == "1" and asked.get("stdout") == asked.get("stderr") == "1", asked
        tail = asked.get("tail", "all")
        told = messages(
            self.server.root,
            name,
            follow=asked.get("follow") == "1",
            since=nanos_of(asked["since"]) if asked.get("since") else 0,
            tail=None if tail in ("", "all") else int(tail),
        )
        found(self.server.root, name)
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for stream, data in told:
            if self.server.leaving.is_set():
                break
            if data:
                self._chunk(struct.pack(">BxxxI", STREAMS[stream], len(data)) + data)
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


@contextmanager
def daemon(root: Path, socket: Path) -> Iterator[None]:
    """Serves the containers under `root` on a socket."""
    with _Server(str(socket), _Handler) as server:
        server.root = root
        server.leaving = threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.leaving.set()
            server.shutdown()
            thread.join(10)

"""Servers that are not what a probe hopes for: each a real socket on loopback that answers badly, or not at all."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def hostile(answer: bytes | Callable[[bytes], bytes | None] | None) -> Iterator[str]:
    """An address whose server sends these bytes to everybody; None: it accepts and never answers.

    A function is given the request and returns the answer, or None to close without a word.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()
    open_sockets: list[socket.socket] = []

    def serve() -> None:
        while not stop.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            open_sockets.append(client)
            threading.Thread(target=one, args=(client,), daemon=True).start()

    def one(client: socket.socket) -> None:
        with suppress(OSError):
            asked = client.recv(65536)
            if answer is None:
                stop.wait(60)
            else:
                said = answer if isinstance(answer, bytes) else answer(asked)
                if said is not None:
                    client.sendall(said)
            client.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for client in open_sockets:
            client.close()
        thread.join(5)


def http(body: bytes | str, status: str = "200 OK", kind: str = "application/json", more: str = "") -> bytes:
    """A whole HTTP answer."""
    data = body.encode() if isinstance(body, str) else body
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n{more}connection: close\r\n\r\n"
    )
    return head.encode() + data

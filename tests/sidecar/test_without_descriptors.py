"""The sidecar without free descriptors: it goes on, its own figures are absent until they come back."""

import socket
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.waiting import until
from tests.sidecar.running import COMMAND, decode_line, running

FEW = ("sh", "-c", 'ulimit -n 40; exec "$@"', "sh", *COMMAND)


def test_a_flood_of_connections_leaves_the_watch_alive(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(decode_line(1) + "\n")
    with running("--log", str(path), "--no-record", "--no-learn", command=FEW) as sidecar, ExitStack() as flood:
        port = int(sidecar.url.rsplit(":", 1)[1])
        until(lambda: "process_open_fds " in sidecar.get("/metrics").text, "the first reading of itself")
        for _ in range(60):
            flood.enter_context(socket.create_connection(("127.0.0.1", port)))
        until(lambda: "cannot take connections: too many open files" in " ".join(sidecar.said), "what the door says")
        path.rename(tmp_path / "server.log.1")
        path.write_text(decode_line(2) + "\n")
        flood.close()
        until(lambda: 'lines_read_total{source="log"} 2.0' in sidecar.get("/metrics").text, "the line behind it")
        until(lambda: "process_open_fds " in sidecar.get("/metrics").text, "its own figures again")
        assert "Traceback" not in " ".join(sidecar.said)
        assert len(sidecar.said) < 20

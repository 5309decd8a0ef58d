"""A process that looks like an SGLang server from outside: its words, its children's titles, its port and its log."""

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LINE = (
    "[{stamp} TP0] Decode batch, #running-req: 1, #token: {token}, token usage: 0.01, accept len: 2.90, "
    "accept rate: 0.06, cuda graph: True, gen throughput (token/s): 32.20, #queue-req: 0\n"
)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--tp-size", type=int, default=1)
    parser.add_argument("--passes", help="Unix sockets to bind, one per rank, as a scheduler does")
    parser.add_argument("--mute", action="store_true", help="bind no port")
    arguments, _ = parser.parse_known_args()
    return arguments


class Port(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/server_info":
            self.send_error(404)
            return
        body = json.dumps({"version": "0.5.23", "model_path": "told/by-itself", "api_key": "sk-secret"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def children(arguments: argparse.Namespace) -> list[subprocess.Popen[bytes]]:
    """Processes with the titles that SGLang's own children give themselves; they leave when we do."""
    titles = ["sglang::detokenizer", *(f"sglang::scheduler_TP{rank}" for rank in range(arguments.tp_size))]
    found = [
        subprocess.Popen([title], executable="cat", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for title in titles
    ]
    if arguments.passes:
        code = (
            "import socket,sys\nopen_ = socket.socket(socket.AF_UNIX)\nopen_.bind(sys.argv[1])\nopen_.listen()\n"
            "sys.stdin.read()"
        )
        found.append(
            subprocess.Popen(
                ["sglang::scheduler_PASSES", "-c", code, f"{arguments.passes}.0"],
                executable=sys.executable,
                stdin=subprocess.PIPE,
            )
        )
    return found


def log() -> None:
    """Writes until whoever started us is gone."""
    parent, pause = os.getppid(), threading.Event()
    while os.getppid() == parent:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        sys.stderr.write(LINE.format(stamp=stamp, token=5900))
        sys.stderr.flush()
        pause.wait(0.2)


if __name__ == "__main__":
    given = parsed()
    kept = children(given)
    if not given.mute:
        server = ThreadingHTTPServer((given.host, given.port), Port)
        assert server.socket.family == socket.AF_INET
        threading.Thread(target=server.serve_forever, daemon=True).start()
    log()

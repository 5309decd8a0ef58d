"""A real SGLang that serves a tiny random model on the CPU with real speculative decoding, and seeded load for it."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx

ROOT = Path(__file__).resolve().parents[3]
RIG = ROOT / "tests" / "real_sglang" / "rig"
HOME = ROOT / ".cache" / "sglang"
READY = "The server is fired up and ready to roll!"
START_SECONDS = 240.0
STOP_SECONDS = 30.0
STANDALONE = (
    *("--speculative-algorithm", "STANDALONE", "--speculative-num-steps", "3"),
    *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
)
WORDS = ("the", "quick", "brown", "fox", "lazy", "dog", "speculative", "server", "hello", "world", "story", "model")
"""What the tiny model's tokenizer was trained on."""


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Answer(NamedTuple):
    """The figures of one request."""

    completion_tokens: int
    verify_steps: int | None
    prompt_tokens: int
    latency_seconds: float
    """By the server itself."""
    accepted_drafts: tuple[int, ...]
    """How many of its steps accepted 0, 1, 2 … drafts."""
    seconds: float
    """By the clock of the client."""

    @property
    def key(self) -> tuple[int, int, float]:
        """What tells one request from another."""
        return (self.prompt_tokens, self.completion_tokens, self.latency_seconds)


class Server:
    """One running server; its log is appended to, so that a restart goes on in the same file."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path, observed: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.log = log
        self.observed = observed
        """Where the observer inside the server writes the truth of each step."""

    def get(self, path: str) -> Any:
        """One JSON answer."""
        return httpx.get(self.url + path, timeout=30, trust_env=False).raise_for_status().json()

    def moments(self) -> list[list[float]]:
        """The cumulative decode moments of each rank."""
        return [rank["decode_moments"] for rank in self.get("/v1/loads?include=all")["loads"]]

    def ask(self, prompt: str, tokens: int) -> Answer:
        """One request without an early end."""
        parameters = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
        body = {"text": prompt, "sampling_params": parameters}
        asked = time.monotonic()
        answer = httpx.post(f"{self.url}/generate", json=body, timeout=120, trust_env=False).raise_for_status().json()
        meta = answer["meta_info"]
        return Answer(
            completion_tokens=meta["completion_tokens"],
            verify_steps=meta.get("spec_verify_ct"),
            prompt_tokens=meta["prompt_tokens"],
            latency_seconds=meta["e2e_latency"],
            accepted_drafts=tuple(meta.get("spec_correct_drafts_histogram") or ()),
            seconds=time.monotonic() - asked,
        )

    def load(self, seed: int, *, users: int, requests: int, tokens: int) -> list[Answer]:
        """So many users who each ask so many seeded questions one after another."""

        def user(number: int) -> list[Answer]:
            random = Random(f"{seed}:{number}")
            return [
                self.ask(" ".join(random.choices(WORDS, k=random.randint(20, 60))), tokens) for _ in range(requests)
            ]

        with ThreadPoolExecutor(users) as pool:
            return [answer for answers in pool.map(user, range(users)) for answer in answers]

    def verified(self) -> list[list[int]]:
        """Accept lengths of each verify step, one per running request: what SGLang itself committed."""
        lines = self.observed.read_text(encoding="utf-8").splitlines()
        return [event["accept_lens"] for event in map(json.loads, lines) if event["ev"] == "verify"]

    def ran(self) -> list[dict[str, Any]]:
        """Each step and each prefill in order, as the observer inside the server saw them."""
        lines = self.observed.read_text(encoding="utf-8").splitlines()
        return [event for event in map(json.loads, lines) if event["ev"] in ("run_batch", "verify")]

    def kill(self) -> None:
        """What the kernel does to a process that takes too much memory."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """Ends the server as its operator does, and whatever is left of it."""
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        # The schedulers are processes of the same group.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)


def environment(folder: Path, observed: Path, ranks: int, device_seconds: float, zone: str) -> dict[str, str]:
    """What the server's processes see: the rig in front, no network, caches of its own."""
    cores = sorted(os.sched_getaffinity(0))
    # Two ranks on one memory node must be told their cores.
    bound = {"SGLANG_CPU_OMP_THREADS_BIND": "|".join(str(cores[n % len(cores)]) for n in range(ranks))}
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    return {
        "PATH": f"{HOME / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "TZ": zone,
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": str(RIG / "shim"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SGLANG_CACHE_DIR": str(HOME / "jit"),
        "SGLANG_JIT_CACHE_DIR": str(HOME / "jit" / "jit"),
        "SGLANG_USE_CPU_ENGINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        # A tiny model on a few shared cores is faster with one thread each.
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "RIG_OBS_FILE": str(observed),
        "RIG_DEVICE_SECONDS": str(device_seconds),
        **(bound if ranks > 1 else {}),
    }


def command(port: int, more: Sequence[str]) -> list[str]:
    """The command line of a server whose small model drafts for its larger one."""
    models = HOME / "models"
    return [
        str(HOME / "venv" / "bin" / "python"),
        *("-m", "sglang.launch_server", "--device", "cpu", "--model-path", str(models / "tiny-target")),
        *("--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)),
        *("--attention-backend", "torch_native", "--disable-cuda-graph", "--enable-metrics"),
        *("--decode-log-interval", "1", "--max-total-tokens", "4096", "--max-running-requests", "8"),
        *("--mem-fraction-static", "0.2", *STANDALONE, "--speculative-draft-model-path", str(models / "tiny-noisy")),
        *more,
    ]


@contextmanager
def serving(
    folder: Path,
    *more: str,
    port: int | None = None,
    log: Path | None = None,
    ranks: int = 1,
    device_seconds: float = 0.0,
    zone: str = "UTC",
) -> Iterator[Server]:
    """A server that is ready; stopped at the end with all its processes.

    Args:
        folder: where its log, observations and temporary files go.
        more: further server arguments.
        port: where it listens; a free port if left out.
        log: the file that its output is appended to; one of its own if left out.
        ranks: data-parallel ranks.
        device_seconds: least time of each decode step, as if a GPU took it.
        zone: its local time, by which it names its record files.
    """
    port = free_port() if port is None else port
    log = folder / "server.log" if log is None else log
    observed = folder / "observed.jsonl"
    observed.touch()
    begin = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        process = subprocess.Popen(
            command(port, (*more, "--dp", str(ranks)) if ranks > 1 else more),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(folder, observed, ranks, device_seconds, zone),
            cwd=folder,
            start_new_session=True,
        )
    server = Server(process, port, log, observed)
    try:
        wait_until_ready(server, begin)
        yield server
    finally:
        server.stop()


def wait_until_ready(server: Server, begin: int) -> None:
    """Waits for the line that says so; fails with the end of the log when the server dies or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with server.log.open("rb") as opened:
            opened.seek(begin)
            text = opened.read().decode("utf-8", "replace")
        if READY in text:
            return
        if server.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError("the real SGLang did not start:\n" + "\n".join(text.splitlines()[-40:]))
        time.sleep(0.1)


class Background:
    """Load that goes on beside the test until it is over; failures of requests that are cut off do not count."""

    def __init__(self, server: Server, seed: int, users: int = 2) -> None:
        self._server = server
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(seed * 100 + n,), daemon=True) for n in range(users)]
        self.answers: list[Answer] = []

    def _ask(self, seed: int) -> None:
        random = Random(seed)
        with suppress(httpx.HTTPError):
            while not self._over.is_set():
                self.answers.append(self._server.ask(" ".join(random.choices(WORDS, k=40)), 240))

    def __enter__(self) -> "Background":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)

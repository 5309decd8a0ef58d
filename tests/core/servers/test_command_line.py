"""Command lines of SGLang servers, and of everything that only looks like one."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.servers.command_line import Launch, read_command, title_of

SECRETS = ("sk-1234", "hunter2", "/srv/ops", "ops@example")


def launch(text: str, config: str = "") -> Launch:
    found = read_command(shlex.split(text), config)
    assert found is not None, text
    return found


@pytest.mark.parametrize(
    "text",
    [
        "python -m sglang.launch_server --port 31000",
        "python3.11 -u -X dev -W ignore -m sglang.launch_server --port=31000",
        "/opt/venv/bin/python3 -um sglang.launch_server --port 31000",
        "/opt/venv/bin/python3 /opt/venv/lib/python3.11/site-packages/sglang/launch_server.py --port 31000",
        "/opt/venv/bin/python /opt/venv/bin/sglang serve Qwen/Qwen3-8B --port 31000",
        "sglang serve --model-path Qwen/Qwen3-8B --port 31000",
        "python -m sglang.cli.main serve Qwen/Qwen3-8B --port 31000",
        "python -m sglang serve Qwen/Qwen3-8B --port 30001 --port 31000",
    ],
)
def test_every_door_of_sglang_is_known(text: str) -> None:
    assert launch(text).port == 31000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bash -c 'python -m sglang.launch_server --port 31000'",
        "vim sglang/launch_server.py",
        "grep -r sglang.launch_server .",
        "docker run --rm lmsysorg/sglang python3 -m sglang.launch_server --port 31000",
        "sudo python -m sglang.launch_server",
        "ssh gpu01 python -m sglang.launch_server",
        "python -c 'import sglang' -m sglang.launch_server",
        "python -m sglang.bench_serving --port 31000",
        "python -m sglang.cli.main generate",
        "python -m",
        "sglang version",
        "sglang::scheduler_TP0",
        "python -m sglang serve black-forest-labs/FLUX.1-dev --model-type diffusion",
    ],
)
def test_what_only_names_sglang_is_no_server(text: str) -> None:
    assert read_command(shlex.split(text)) is None


def test_only_allowed_arguments_and_the_places_of_sources_leave() -> None:
    found = launch(
        "python -m sglang.launch_server --model-path /srv/ops/models/Kimi-K2.6 --tp 8 --dp-size 2 --host 0.0.0.0 "
        "--api-key sk-1234 --admin-api-key=hunter2 --ssl-certfile /srv/ops/cert.pem --file-storage-path /srv/ops/x "
        "--speculative-algo DDTREE --speculative-ddtree-budget 32 --enable-metrics --export-metrics-to-file "
        "--export-metrics-to-file-dir /var/metrics --enable-forward-pass-metrics "
        "--forward-pass-metrics-ipc-name ipc:///run/fpm --weird ops@example"
    )
    assert found.arguments == {
        "model_path": "Kimi-K2.6",
        "tp_size": 8,
        "dp_size": 2,
        "host": "0.0.0.0",
        "speculative_algorithm": "DDTREE",
        "speculative_ddtree_budget": 32,
        "enable_metrics": True,
        "export_metrics_to_file": True,
        "enable_forward_pass_metrics": True,
    }
    assert found.wants_key
    assert found.tls
    assert found.request_records == "/var/metrics"
    assert found.forward_passes == "ipc:///run/fpm"
    assert not any(secret in repr(found) for secret in SECRETS)


def test_what_is_not_given_is_sglangs_default() -> None:
    found = launch("python -m sglang.launch_server --model m")
    assert (found.host, found.port, found.port_given) == ("127.0.0.1", 30000, False)
    assert not (found.wants_key or found.tls or found.config or found.request_records)
    assert found.http


def test_a_flag_may_be_cut_short_where_it_stays_clear() -> None:
    found = launch("python -m sglang.launch_server --served-model kimi --enable-metr --api sk-1234")
    assert found.arguments == {"served_model_name": "kimi", "enable_metrics": True}
    assert found.wants_key


def test_a_folder_of_request_records_counts_only_where_they_are_on() -> None:
    assert launch("sglang serve m --export-metrics-to-file-dir /var/metrics").request_records is None


@pytest.mark.parametrize("port", ["x", "0", "-1", "70000", "", "30000.5", "True"])
def test_a_port_that_is_none_is_the_default(port: str) -> None:
    found = launch(f"sglang serve m --port {port or chr(39) * 2}")
    assert (found.port, found.port_given) == (30000, False)


def test_a_settings_file_stands_below_the_command_line() -> None:
    config = """
# ours
model-path: "Qwen/Qwen3-8B"
port: 31001   # free
host: '::'
enable_metrics: true
api-key: sk-1234
list:
  - port: 5
tp: 4
"""
    found = launch("sglang serve --config ours.yaml --tp 2", config)
    assert (found.port, found.host, found.config) == (31001, "::", "ours.yaml")
    assert found.arguments == {
        "model_path": "Qwen/Qwen3-8B",
        "port": 31001,
        "host": "::",
        "enable_metrics": True,
        "tp_size": 2,
    }
    assert found.wants_key


@pytest.mark.parametrize("words", ["--grpc-mode", "--smg-grpc-mode", "--nnodes 2 --node-rank 1"])
def test_not_every_server_answers_http(words: str) -> None:
    assert not launch(f"sglang serve m {words}").http
    assert launch("sglang serve m --nnodes 2 --node-rank 0").http


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (("sglang::scheduler_DP0_TP3",), "scheduler_DP0_TP3"),
        (("sglang::tokenizer_worker:4711", "", ""), "tokenizer_worker:4711"),
        (("sglang::detokenizer  ",), "detokenizer"),
        (("python", "sglang::scheduler"), None),
        ((), None),
    ],
)
def test_children_name_themselves(words: tuple[str, ...], title: str | None) -> None:
    assert title_of(words) == title


WORD = st.one_of(
    st.text(max_size=12),
    st.sampled_from([
        "python", "-m", "sglang.launch_server", "sglang", "serve", "--port", "--port=9", "--api-key", "--config", "--",
        "-", "-c", "-X", "sglang::scheduler", "--host", "::", "ray::", "--enable-metrics", "--model-type", "--t", "--=",
    ]),
)  # fmt: skip


@given(st.lists(WORD, max_size=20), st.text(max_size=200))
def test_no_words_are_too_strange(words: list[str], config: str) -> None:
    found = read_command(words, config)
    title_of(words)
    if found is not None:
        assert 0 < found.port < 65536


@given(st.lists(WORD, max_size=8))
def test_a_key_never_leaves(words: list[str]) -> None:
    secret = "sk-very-secret-key"
    found = read_command(["sglang", "serve", "m", *words, "--api-key", secret])
    assert found is None or secret not in repr(found)

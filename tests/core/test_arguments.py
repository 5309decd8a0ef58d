"""Server arguments: what is shown, what is withheld, and what a change between two starts is called."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddwatch.core.arguments import HARMLESS, IDENTITY, JUDGED, changes, identity, judged, read_arguments, short_model
from ddwatch.core.records import ServerStart

KEY = b"a random key"
LOGS = Path(__file__).parents[1] / "golden" / "logs"
SECRET = "hunter2-very-secret"


def start(**arguments: Any) -> ServerStart:
    """A start with these arguments, read from the line that announces them."""
    printed = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    allowed, withheld = read_arguments(f"server_args=ServerArgs({printed})", KEY)
    return ServerStart(at=0.0, arguments=allowed, withheld=withheld)


@pytest.mark.parametrize("name", ["plain", "ngram", "standalone"])
def test_the_log_and_the_server_tell_the_same_arguments(name: str) -> None:
    line = next(line for line in (LOGS / f"real-0.5.23-{name}.log").read_text().splitlines() if "server_args=" in line)
    from_log = read_arguments(line.partition("] ")[2], KEY)
    from_http = read_arguments((LOGS / f"real-0.5.23-{name}.server_info.json").read_text(), KEY)
    assert from_log.allowed.items() <= from_http.allowed.items()
    assert from_http.allowed["version"] == "0.5.23"
    assert from_log.allowed["model_path"] == "tiny-target"
    assert len(from_log.allowed) > 200
    # Values of lists print differently in Python and JSON, so only the names are compared.
    assert from_log.withheld.keys() <= from_http.withheld.keys()
    assert identity(from_log.allowed) == identity(from_http.allowed)


def test_shapes_of_old_and_new_releases() -> None:
    old = read_arguments("server_args=ServerArgs(model_path='a/b', tp_size=8, disable_cuda_graph=True, rate=1e-3)", KEY)
    new = read_arguments(
        "server_args={'model_path': 'a/b', 'tp_size': 8, 'disable_cuda_graph': True, 'rate': 1e-3}", KEY
    )
    http = read_arguments('{"model_path": "a/b", "tp_size": 8, "disable_cuda_graph": true, "rate": 1e-3}', KEY)
    assert old == new == http
    assert old.allowed == {"model_path": "a/b", "tp_size": 8, "disable_cuda_graph": True}


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("server_args=ServerArgs(tp_size=8, dp_size=2, model_path='/a/b", {"tp_size": 8, "dp_size": 2}),
        ("server_args=ServerArgs(tp_size=8, cuda_graph_bs=[1, 2, (3, {'a, b': ')'}", {"tp_size": 8}),
        ("server_args={'tp_size': 8, 'dp_size': 16", {"tp_size": 8}),
        ("server_args={'tp_size': 8, 'dp", {"tp_size": 8}),
        ("server_args=ServerArgs(", {}),
        ("server_args=ServerArgs(junk, 7, tp_size=4)", {"tp_size": 4}),
        ("server_args=ServerArgs(cuda_graph_bs=[1, 2], tp_size=-1, page_size=+2)",
         {"cuda_graph_bs": "[1, 2]", "tp_size": -1, "page_size": 2}),
        ("server_args=ServerArgs(dtype=torch.bfloat16, tp_size=1)", {"dtype": "torch.bfloat16", "tp_size": 1}),
        ("nothing here", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_what_a_line_says_as_far_as_it_goes(text: str, allowed: dict[str, Any]) -> None:
    assert read_arguments(text, KEY).allowed == allowed


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("moonshotai/Kimi-K2.6", "moonshotai/Kimi-K2.6"),
        ("/data/alice/models/Kimi-K2.6/", "Kimi-K2.6"),
        ("~/models/kimi", "kimi"),
        ("./models/kimi", "kimi"),
        ("../kimi", "kimi"),
        ("/data/alice/.cache/huggingface/hub/models--moonshotai--Kimi-K2.6/snapshots/0a1b2c", "moonshotai/Kimi-K2.6"),
        ("s3://key:secret@bucket/models/kimi?token=secret", "kimi"),
        ("C:\\models\\kimi", "kimi"),
        ("kimi", "kimi"),
        ("/", ""),
    ],
)
def test_models_are_named_without_anybodys_path(path: str, name: str) -> None:
    assert short_model(path) == name


def test_paths_in_allowed_values_lose_their_folders() -> None:
    allowed, _ = read_arguments("server_args=ServerArgs(tool_call_parser='/data/alice/x.py', host='0.0.0.0')", KEY)
    assert allowed == {"tool_call_parser": "x.py", "host": "0.0.0.0"}


@pytest.mark.parametrize(
    "name",
    ["api_key", "admin_api_key", "ssl_keyfile_password", "chat_template", "speculative_secret_path", "hf_token", "x"],
)
def test_other_names_keep_only_a_keyed_digest(name: str) -> None:
    text = f"server_args=ServerArgs(tp_size=1, {name}='{SECRET}')"
    allowed, withheld = read_arguments(text, KEY)
    assert allowed == {"tp_size": 1}
    assert list(withheld) == [name]
    assert SECRET not in withheld[name]
    assert withheld != read_arguments(text, b"another key").withheld
    assert read_arguments(text, b"").withheld == {name: "set"}


@pytest.mark.parametrize("value", [None, False, "", [], {}])
def test_what_is_not_set_is_not_told(value: object) -> None:
    assert start(api_key=value).withheld == {}


def test_numbers_and_switches_of_forks_are_shown_and_strings_are_not() -> None:
    told = start(speculative_ddtree_fancy=True, speculative_my_tree_budget=64, speculative_note=SECRET)
    assert told.arguments == {"speculative_ddtree_fancy": True, "speculative_my_tree_budget": 64}
    assert identity(told.arguments) == {"speculative_my_tree_budget": 64}
    assert judged(told.arguments) == {"speculative_ddtree_fancy": True}


def test_what_differs_at_every_start_is_left_out() -> None:
    told = start(random_seed=1, nccl_port=2, launch_command=SECRET)
    assert (told.arguments, told.withheld) == ({}, {})


def test_identity_and_judged_are_apart_and_parsers_in_neither() -> None:
    assert not IDENTITY & JUDGED
    assert not (IDENTITY | JUDGED) & HARMLESS
    told = start(model_path="a/b", tp_size=8, attention_backend="fa3", tool_call_parser="kimi_k2").arguments
    assert identity(told) == {"model_path": "a/b", "tp_size": 8}
    assert judged(told) == {"attention_backend": "fa3"}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {}, ()),
        ({"tool_call_parser": None}, {"tool_call_parser": "kimi_k2"}, ("+tool_call_parser kimi_k2",)),
        ({"tool_call_parser": "kimi_k2"}, {"tool_call_parser": None}, ("-tool_call_parser kimi_k2",)),
        ({"disable_cuda_graph": True}, {"disable_cuda_graph": False}, ("-disable_cuda_graph",)),
        ({"disable_cuda_graph": True}, {}, ("-disable_cuda_graph",)),
        ({}, {"disable_cuda_graph": True}, ("+disable_cuda_graph",)),
        ({"context_length": 65536}, {"context_length": 131072}, ("context_length 65536 → 131072",)),
        ({"attention_backend": "auto"}, {"attention_backend": "fa3"}, ("attention_backend auto → fa3",)),
        ({"attention_backend": "fa3"}, {"attention_backend": "auto"}, ("attention_backend fa3 → auto",)),
        ({"quantization": None}, {"quantization": "none"}, ()),
        ({"cpu_offload_gb": 0}, {"cpu_offload_gb": 8}, ("cpu_offload_gb 0 → 8",)),
        ({"stream_interval": 1}, {"stream_interval": True}, ("stream_interval 1 → True",)),
        ({"api_key": None}, {"api_key": SECRET}, ("api_key set",)),
        ({"api_key": SECRET}, {"api_key": None}, ("api_key unset",)),
        ({"api_key": SECRET}, {"api_key": "other"}, ("api_key changed",)),
        ({"api_key": SECRET}, {"api_key": SECRET}, ()),
        ({"random_seed": 1}, {"random_seed": 2}, ()),
        ({"tp_size": 4, "api_key": "a"}, {"tp_size": 8, "api_key": "b"}, ("api_key changed", "tp_size 4 → 8")),
    ],
)  # fmt: skip
def test_changes_in_words(before: dict[str, Any], after: dict[str, Any], words: tuple[str, ...]) -> None:
    assert changes(start(**before), start(**after)) == words


def test_of_a_cut_line_only_what_it_says_is_compared() -> None:
    names = sorted(JUDGED)[:60]
    whole = start(tp_size=4, **dict.fromkeys(names, 7))
    cut = start(tp_size=8, **dict.fromkeys(names[:10], 7))
    assert changes(whole, cut) == ("tp_size 4 → 8",)
    assert changes(cut, whole) == ("tp_size 8 → 4",)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.text(max_size=40),
    st.lists(st.text(max_size=5), max_size=3),
)
NAMES = st.one_of(st.sampled_from(sorted(IDENTITY | JUDGED | HARMLESS)), st.from_regex(r"[a-z_]{1,20}", fullmatch=True))


@settings(max_examples=200)
@given(st.dictionaries(NAMES, VALUES, max_size=8), st.data())
def test_any_arguments_whole_or_cut(arguments: dict[str, Any], data: st.DataObject) -> None:
    printed = repr(arguments)
    whole = read_arguments(f"server_args={printed}", KEY)
    assert whole == read_arguments(
        f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in arguments.items())})", KEY
    )
    for value in whole.allowed.values():
        assert not isinstance(value, str) or value.isprintable()
    cut = read_arguments(f"server_args={printed}"[: data.draw(st.integers(0, len(printed)))], KEY)
    assert cut.allowed.items() <= whole.allowed.items()
    assert cut.withheld.items() <= whole.withheld.items()
    json_read = read_arguments(json.dumps(arguments), KEY)
    assert json_read.withheld.keys() == whole.withheld.keys()


@settings(max_examples=200)
@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    read_arguments("server_args={" + text, KEY)
    read_arguments(text, KEY)

"""Reads a command line: whether it starts an SGLang server, and with which arguments. Never raises on any words."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ddwatch.core.arguments import ALLOWED, COUNT_LIMIT, NOISE, VALUE_LIMIT, Scalar, is_allowed, scalar, shown

Entry = Literal["launch_server", "serve"]

DEFAULT_PORT = 30000
DEFAULT_HOST = "127.0.0.1"
HIGHEST_PORT = 65535

PYTHON = re.compile(r"(?:python|pypy)[\w.-]*$")
"""Names of interpreters."""
OPTION_WITH_VALUE = frozenset({"-X", "-W", "-Q", "--check-hash-based-pycs"})
"""Options of the interpreter whose value is the next word."""
LAUNCH_MODULES = frozenset({"sglang.launch_server", "sglang.srt.entrypoints.http_server"})
FRONT_MODULES = frozenset({"sglang", "sglang.cli", "sglang.cli.main"})
"""Modules whose first word is a sub-command."""

ALIASES = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "speculative_algo": "speculative_algorithm",
    "speculative_draft_model": "speculative_draft_model_path",
}
"""Other spellings of flags."""
UNLISTED = frozenset({
    "api_key", "admin_api_key", "config", "export_metrics_to_file_dir", "grpc_mode", "model_type", "smg_grpc_mode",
    "ssl_certfile", "ssl_ca_certs", "ssl_keyfile", "ssl_keyfile_password",
})  # fmt: skip
"""Names that matter here and whose values are shown nowhere."""
KNOWN = ALLOWED | UNLISTED | NOISE
SETTING = re.compile(r"""([A-Za-z][\w-]{0,99})\s*:\s*(?:"([^"]*)"|'([^']*)'|([^#\s][^#]*?))?\s*(?:\#.*)?$""")
"""A flat line of a YAML file; what is nested is left alone."""
LONGEST_SETTINGS = 1000


class Launch(Struct, frozen=True, kw_only=True):
    """What a command line says of the server that it starts."""

    entry: Entry
    arguments: dict[str, Scalar] = {}
    """Allow-listed, free of paths."""
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    port_given: bool = False
    """Whether anything names the port; else it is SGLang's default."""
    config: str | None = None
    """The YAML file that gives further arguments; for reading it, never shown."""
    forward_passes: str | None = None
    """Where the socket of the forward passes is asked to be."""
    request_records: str | None = None
    """Folder of the request records, where they are written."""
    wants_key: bool = False
    tls: bool = False
    http: bool = True
    """False where nothing answers HTTP: gRPC mode, or a node that only computes."""


def base(path: str) -> str:
    """The last part of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def is_python(word: str) -> bool:
    """Whether this names an interpreter, or a worker of Ray, which is one."""
    return PYTHON.match(base(word)) is not None or word.startswith("ray::")


def title_of(words: Sequence[str]) -> str | None:
    """The title that an engine's process gave itself (`scheduler_DP0_TP3`), None for every other process."""
    first = words[0].strip() if words else ""
    return first.removeprefix("sglang::").strip()[:100] if first.startswith("sglang::") else None


def entry_of(words: Sequence[str]) -> tuple[Entry, Sequence[str]] | None:
    """Which door the words go in by, and the words behind it; None where they start no server."""
    if not words:
        return None
    if not is_python(words[0]):
        return _served(words[1:]) if base(words[0]) == "sglang" else None
    place = 1
    while place < len(words) and words[place].startswith("-"):
        option = words[place]
        if option == "-c":
            return None
        if re.fullmatch(r"-[a-zA-Z]*m", option):
            return _module(words[place + 1 :])
        place += 2 if option in OPTION_WITH_VALUE else 1
    script, rest = words[place] if place < len(words) else "", words[place + 1 :]
    if script.endswith("sglang/launch_server.py"):
        return "launch_server", rest
    return _served(rest) if base(script) == "sglang" or script.endswith("sglang/cli/main.py") else None


def _module(words: Sequence[str]) -> tuple[Entry, Sequence[str]] | None:
    if not words:
        return None
    if words[0] in LAUNCH_MODULES:
        return "launch_server", words[1:]
    return _served(words[1:]) if words[0] in FRONT_MODULES else None


def _served(words: Sequence[str]) -> tuple[Entry, Sequence[str]] | None:
    return ("serve", words[1:]) if words and words[0] == "serve" else None


def full_name(flag: str) -> str:
    """The argument that a flag means: other spellings and unambiguous beginnings are understood as SGLang does."""
    name = flag.strip().lstrip("-").replace("-", "_")
    name = ALIASES.get(name, name)
    if name in KNOWN or len(name) < 3:
        return name
    longer = [known for known in KNOWN if known.startswith(name)]
    return longer[0] if len(longer) == 1 else name


def flags(words: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with the words that belong to it; what stands before the first one belongs to an empty flag."""
    name, values = "", list[str]()
    for word in words:
        if word.startswith("--") and len(word) > 2:
            yield name, values
            name, equals, value = word.partition("=")
            values = [value] if equals else []
        else:
            values.append(word)
    yield name, values


def settings(text: str) -> Iterator[tuple[str, str]]:
    """Each flat line of a YAML file as a name and its text."""
    for line in text.splitlines()[:LONGEST_SETTINGS]:
        found = SETTING.match(line)
        if found is not None:
            quoted = found[2] if found[2] is not None else found[3]
            yield found[1], quoted if quoted is not None else (found[4] or "").strip()


def read_command(words: Sequence[str], config: str = "") -> Launch | None:
    """What the words start; None where it is no SGLang server. `config` is the text of the file that they name."""
    door = entry_of(words)
    if door is None:
        return None
    entry, rest = door
    given: dict[str, Scalar] = {full_name(name): scalar(value) for name, value in settings(config)}
    for place, (flag, values) in enumerate(flags(rest)):
        if not flag:
            if place == 0 and entry == "serve" and values:
                given["model_path"] = values[0]
            continue
        if len(given) >= COUNT_LIMIT:
            break
        given[full_name(flag)] = True if not values else scalar(values[0]) if len(values) == 1 else " ".join(values)
    if given.get("model_type") == "diffusion":
        return None
    return _launch(entry, given)


def _launch(entry: Entry, given: dict[str, Scalar]) -> Launch:
    port, host = given.get("port"), given.get("host")
    usable = isinstance(port, int) and not isinstance(port, bool) and 0 < port <= HIGHEST_PORT
    rank = given.get("node_rank")
    records = _text(given.get("export_metrics_to_file_dir")) if given.get("export_metrics_to_file") is True else None
    return Launch(
        entry=entry,
        arguments={name: shown(name, value) for name, value in given.items() if _may_leave(name, value)},
        host=_text(host) or DEFAULT_HOST,
        port=port if usable and isinstance(port, int) else DEFAULT_PORT,
        port_given=usable,
        config=_text(given.get("config")),
        forward_passes=_text(given.get("forward_pass_metrics_ipc_name")),
        request_records=records,
        wants_key=_text(given.get("api_key")) is not None or isinstance(given.get("api_key"), (int, float)),
        tls="ssl_certfile" in given,
        http=given.get("grpc_mode") is not True and given.get("smg_grpc_mode") is not True and rank in (None, 0),
    )


def _may_leave(name: str, value: Scalar) -> bool:
    return name not in NOISE and is_allowed(name, value)


def _text(value: Scalar) -> str | None:
    """A word that was given, None where there is none."""
    return value[:VALUE_LIMIT] if isinstance(value, str) and value.strip() else None

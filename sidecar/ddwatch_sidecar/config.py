"""The sidecar's settings: flags before environment before TOML file before defaults; an unknown key is an error."""

import math
import os
import stat
import sys
from collections.abc import Callable, Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct
from platformdirs import user_config_path

from ddwatch.core.durations import seconds_of
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.log_place import read_place
from ddwatch_sidecar.exports.address import Address, address_of
from ddwatch_sidecar.exports.listen import HIGHEST_PORT
from ddwatch_sidecar.exports.quiet import quiet_hours
from ddwatch_sidecar.sources.fpm_name import fpm_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PORT = 9477
DEFAULT_LISTEN = f"127.0.0.1:{DEFAULT_PORT}"
DEFAULT_CATCH_UP_MIB = 16.0
LARGEST_CATCH_UP_MIB = 1024 * 1024.0
DEFAULT_RECORD_MIB = 512.0
LEAST_RECORD_MIB = 32.0
DEFAULT_RECORD_DAYS = 30.0
LARGEST_RECORD_DAYS = 3660.0
LARGEST_TIME_SCALE = 10_000.0
TOKEN_BYTES = 4096
"""Longest token file that is read."""
SHORT_TOKEN = 16
"""A token with fewer characters gets a warning."""
ENVIRONMENT_PREFIX = "DDWATCH_"


class Settings(Struct, frozen=True, kw_only=True):
    """What the operator asked for, checked for type and range."""

    log: tuple[str, ...] = ()
    """Paths of logs, `journal:UNIT`, `docker:NAME`, `command:CMD ARGS`; `-` is standard input."""
    listen: str = DEFAULT_LISTEN
    port: int | None = None
    """Replaces the port of `listen`; 0 lets the system choose."""
    token_file: str | None = None
    allow_host: tuple[str, ...] = ()
    """Further names that the Host header may carry."""
    catch_up: float = DEFAULT_CATCH_UP_MIB
    """How much of an existing log is read at the start, MiB."""
    tz: str | None = None
    """Zone of the stamps in the log; None is the zone of this host."""
    nvml: bool | None = None
    """Whether the GPUs (and with them the host) are read; None is yes."""
    nvml_library: str | None = None
    """Path of the library that stands for the driver's own; without one a simulation has no GPUs."""
    nvml_absent: str | None = None
    """Why there are no GPUs: said in their place, and nothing is read."""
    gpu_seconds: float = 1.0
    """Time between two readings of the GPUs."""
    gpu_throughput: bool = False
    """Whether PCIe throughput is read too; the driver blocks while it samples."""
    sglang_url: str | None = None
    """Address of SGLang itself, asked for its load and its setup."""
    sglang_key_file: str | None = None
    metrics: bool = True
    """Whether SGLang's /metrics page is read too, where `sglang_url` is known."""
    fpm: str | None = None
    """Name of the sockets on which SGLang publishes its forward passes."""
    request_metrics: str | None = None
    """Folder that SGLang writes its records of finished requests to."""
    profile: str | None = None
    """Name or file of the profile to judge by."""
    learn: bool = True
    """Whether what is learned is kept between runs."""
    alerts: str | None = None
    """Folder of acknowledgements and mutes, or `off`; None is the platform's state folder."""
    record: str | None = None
    """Folder of the recording, or `off`.

    None is the platform's state folder, and off for a simulation and for standard input on a free port.
    """
    record_size: float = DEFAULT_RECORD_MIB
    """Size limit of the recording, MiB."""
    record_days: float = DEFAULT_RECORD_DAYS
    """Age limit of the recording, days."""
    webhook_file: str | None = None
    """File with the secret address that incidents are posted to, and a token in its second line if any."""
    notify_command: tuple[str, ...] = ()
    """Words of the command that is run for each incident, without a shell."""
    notify_severity: str = "notice"
    """The least severity that is told: `notice` or `page`."""
    notify_repeat: str | None = None
    """After which time an incident that nobody acknowledges is told again, like 4h; None for never."""
    quiet_hours: str | None = None
    """Hours of this host's day in which only pages are told, like 22:00-07:00."""
    time_scale: float = 1.0
    simulated: bool = False


Reading = Callable[[Any], Any]
"""Checks one raw value (text, or a TOML value) and gives the setting; raises ValueError with a phrase."""


def _text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("must be a text that is not empty")


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) and item for item in value):
        return tuple(value)
    raise ValueError("must be a text or a list of texts")


def _logs(value: Any) -> tuple[str, ...]:
    found = _texts(value)
    for text in found:
        read_place(text)
    return found


def _url(value: Any) -> str:
    if isinstance(value, str):
        found = urlsplit(value if "//" in value else f"http://{value}")
        try:
            usable = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
        except ValueError:
            usable = False
        if usable and found.username is None and found.path in ("", "/") and not found.query:
            return f"{found.scheme}://{found.netloc}"
    raise ValueError("must be an address like http://127.0.0.1:30000, without a path or a password")


def _passes(value: Any) -> str:
    return fpm_name(_text(value))


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    return _texts(value)


def _number(lowest: float, highest: float, phrase: str) -> Reading:
    def read(value: Any) -> float:
        try:
            number = float("nan") if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not (math.isfinite(number) and lowest <= number <= highest):
            raise ValueError(phrase)
        return number

    return read


def _port(value: Any) -> int:
    number = _number(0, HIGHEST_PORT, f"must be a port number from 0 to {HIGHEST_PORT}")(value)
    if number != int(number):
        raise ValueError("must be a whole number")
    return int(number)


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError("must be true or false")


def _zone(value: Any) -> str:
    name = _text(value)
    zone_of(name)
    return name


def _severity(value: Any) -> str:
    if value in ("notice", "page"):
        return str(value)
    raise ValueError("must be notice or page")


def _duration(value: Any) -> str:
    words = _text(value)
    seconds_of(words)
    return words


def _quiet(value: Any) -> str:
    words = _text(value)
    quiet_hours(words)
    return words


READINGS: dict[str, Reading] = {
    "log": _logs,
    "listen": _text,
    "port": _port,
    "token_file": _text,
    "allow_host": _names,
    "catch_up": _number(0.0, LARGEST_CATCH_UP_MIB, "must be a number of MiB from 0 up"),
    "tz": _zone,
    "time_scale": _number(0.001, LARGEST_TIME_SCALE, f"must be a number above 0, at most {LARGEST_TIME_SCALE:.0f}"),
    "nvml": _flag,
    "nvml_library": _text,
    "nvml_absent": _text,
    "gpu_seconds": _number(0.0, 3600.0, "must be a number of seconds from 0.5 to 3600"),
    "gpu_throughput": _flag,
    "sglang_url": _url,
    "sglang_key_file": _text,
    "metrics": _flag,
    "fpm": _passes,
    "request_metrics": _text,
    "profile": _text,
    "learn": _flag,
    "alerts": _text,
    "record": _text,
    "record_size": _number(
        LEAST_RECORD_MIB, LARGEST_CATCH_UP_MIB, f"must be a number of MiB from {LEAST_RECORD_MIB:.0f} up"
    ),
    "record_days": _number(0.01, LARGEST_RECORD_DAYS, "must be a number of days above 0"),
    "webhook_file": _text,
    "notify_command": _texts,
    "notify_severity": _severity,
    "notify_repeat": _duration,
    "quiet_hours": _quiet,
    "simulated": _flag,
}
"""One entry per setting; the key is its name in the file, the flag and the environment differ in dashes and case."""


def zone_of(name: str | None) -> tzinfo | None:
    """The zone with this name, None for the host's own; raises ValueError with a phrase."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"names no time zone known here: {name!r} (write it like Europe/Berlin or UTC)") from error


def _checked(raw: Mapping[str, Any], place: Callable[[str], str]) -> dict[str, Any]:
    return {key: _check(key, value, place(key)) for key, value in raw.items()}


def _check(key: str, value: Any, place: str) -> Any:
    try:
        return READINGS[key](value)
    except ValueError as error:
        raise CommandFailed(f"{place} {error}", Exit.USAGE) from error


def default_file() -> Path:
    """Where the settings of this user live."""
    return user_config_path("ddwatch") / "sidecar.toml"


def read_file(path: Path) -> dict[str, Any]:
    """The settings of a TOML file; raises CommandFailed with one sentence."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise CommandFailed(f"the settings file {path} cannot be read: {error.strerror}", Exit.INPUT) from error
    except UnicodeDecodeError as error:
        raise CommandFailed(f"the settings file {path} is not UTF-8 text", Exit.INPUT) from error
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CommandFailed(f"the settings file {path} is not TOML: {error}", Exit.USAGE) from error
    for key in raw:
        if key == "token":
            raise CommandFailed(
                f"{path} holds a token; put it into a file of its own and name it by token_file", Exit.USAGE
            )
        if key not in READINGS:
            known = ", ".join(READINGS)
            raise CommandFailed(f"unknown key {key!r} in {path}; there are {known}", Exit.USAGE)
    return _checked(raw, lambda key: f"{key} in {path}")


def settle(flags: Mapping[str, Any], environment: Mapping[str, str], config: str | None) -> Settings:
    """Joins all layers.

    Args:
        flags: settings given as flags; a missing one is None.
        environment: the process's environment.
        config: the file named by --config; without one DDWATCH_CONFIG is used, then the user's own file if it exists.

    Raises:
        CommandFailed: with one sentence that names the setting and where it stands.
    """
    named = config or environment.get("DDWATCH_CONFIG") or None
    layers: dict[str, Any] = {}
    if named is not None:
        layers |= read_file(Path(named))
    elif default_file().is_file():
        layers |= read_file(default_file())
    variables = {
        key: value
        for key in READINGS
        if (value := environment.get(f"{ENVIRONMENT_PREFIX}{key.upper()}")) not in (None, "")
    }
    layers |= _checked(variables, lambda key: f"{ENVIRONMENT_PREFIX}{key.upper()}")
    given = {key: value for key, value in flags.items() if value is not None}
    layers |= _checked(given, lambda key: f"--{key.replace('_', '-')}")
    return Settings(**layers)


def read_sglang_key(settings: Settings, environment: Mapping[str, str], tell: Callable[[str], None]) -> str | None:
    """SGLang's own key from --sglang-key-file, else from DDWATCH_SGLANG_KEY, else None; raises CommandFailed."""
    return _secret("key of SGLang", settings.sglang_key_file, "DDWATCH_SGLANG_KEY", environment, tell)


def read_token(settings: Settings, environment: Mapping[str, str], tell: Callable[[str], None]) -> str | None:
    """The token from --token-file, else from DDWATCH_TOKEN, else None; raises CommandFailed."""
    token = _secret("token", settings.token_file, "DDWATCH_TOKEN", environment, tell)
    if token is not None and len(token) < SHORT_TOKEN:
        origin = settings.token_file or "DDWATCH_TOKEN"
        tell(f"the token in {origin} is short; use {SHORT_TOKEN} characters or more")
    return token


def read_webhook(settings: Settings, environment: Mapping[str, str], tell: Callable[[str], None]) -> Address | None:
    """The address from --webhook-file, else from DDWATCH_WEBHOOK, else None; raises CommandFailed without it."""
    if settings.webhook_file is not None:
        words = _secret_of_file("webhook", Path(settings.webhook_file), tell)
        origin = settings.webhook_file
    elif environment.get("DDWATCH_WEBHOOK"):
        words, origin = environment["DDWATCH_WEBHOOK"], "DDWATCH_WEBHOOK"
    else:
        return None
    try:
        return address_of(words)
    except ValueError as error:
        raise CommandFailed(f"the webhook in {origin} {error}", Exit.INPUT) from None


def _secret(
    what: str, file: str | None, variable: str, environment: Mapping[str, str], tell: Callable[[str], None]
) -> str | None:
    if file is not None:
        secret, origin = _secret_of_file(what, Path(file), tell), file
    elif variable in environment:
        secret, origin = environment[variable].strip(), variable
    else:
        return None
    if not secret:
        raise CommandFailed(f"the {what} in {origin} is empty", Exit.INPUT)
    if not all("!" <= mark <= "~" for mark in secret):
        raise CommandFailed(
            f"the {what} in {origin} must be one line of visible ASCII characters without spaces", Exit.INPUT
        )
    return secret


def _secret_of_file(what: str, path: Path, tell: Callable[[str], None]) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(TOKEN_BYTES + 1)
    except OSError as error:
        raise CommandFailed(f"the {what} file {path} cannot be read: {error.strerror}", Exit.INPUT) from error
    if len(data) > TOKEN_BYTES:
        raise CommandFailed(f"the {what} file {path} is too long to be a {what}", Exit.INPUT)
    if stat.S_IMODE(mode) & 0o077:
        tell(f"the {what} file {path} can be read by others; run chmod 600 on it")
    return data.decode("ascii", "replace").strip()

"""A name that SGLang could have been given is taken as it is; anything else is refused before it is listened at."""

import pytest
from ddwatch_sidecar.sources.fpm_name import fpm_name


@pytest.mark.parametrize(
    "name",
    [
        "ipc:///run/sglang/fpm",
        "/tmp/fpm",
        "fpm",
        "ipc://fpm",
        "tcp://127.0.0.1:5557",
        "tcp://[::1]:5557",
        "tcp://gpu01:1",
    ],
)
def test_what_sglang_takes_is_taken(name: str) -> None:
    assert fpm_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ipc://",
        "tcp://5557",
        "tcp://:5557",
        "tcp://host",
        "tcp://host:0",
        "tcp://host:70000",
        "tcp://host:port",
        "tcp://host:" + "9" * 5000,
        "tcp://host:²",
        "http://127.0.0.1:5557",
        "inproc://fpm",
        "/" + "x" * 200,
        "/tmp/a\0b",
    ],
)
def test_what_can_be_no_name_is_one_phrase(name: str) -> None:
    with pytest.raises(ValueError, match="must be SGLang's --forward-pass-metrics-ipc-name"):
        fpm_name(name)

"""Where a log is, from one word of a command line; what cannot be meant is refused with a phrase."""

import pytest

from ddwatch.core.log_place import LONGEST_LABEL, LogPlace, read_place


@pytest.mark.parametrize(
    ("text", "place", "label"),
    [
        ("-", LogPlace("stdin", "-"), "stdin"),
        ("/var/log/sglang.log", LogPlace("file", "/var/log/sglang.log"), "log"),
        ("./journal:x", LogPlace("file", "./journal:x"), "log"),
        ("odd:name.log", LogPlace("file", "odd:name.log"), "log"),
        ("journal:sglang", LogPlace("journal", "sglang"), "journal:sglang"),
        ("journal:sglang@0.service", LogPlace("journal", "sglang@0.service"), "journal:sglang@0.service"),
        ("journal:user/sglang", LogPlace("journal", "sglang", user=True), "journal:user/sglang"),
        ("docker:kimi-k2_6.a", LogPlace("docker", "kimi-k2_6.a"), "docker:kimi-k2_6.a"),
        ("command:/usr/bin/ssh a 'tail -F x'", LogPlace("command", "/usr/bin/ssh a 'tail -F x'"), "command:ssh"),
    ],
)
def test_a_place_and_its_name(text: str, place: LogPlace, label: str) -> None:
    assert read_place(text) == place
    assert place.label == label


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("journal:", "names no unit: write journal:UNIT"),
        ("journal:user/", "names no unit"),
        ("journal:a b", "names no unit of systemd: 'a b'"),
        ("journal:--vacuum-size=1", "names no unit of systemd"),
        ("journal:../x", "names no unit of systemd"),
        ("docker:", "names no container: write docker:NAME"),
        ("docker:-f", "names no container: '-f'"),
        ("docker:a/b", "names no container: 'a/b'"),
        ("command:", "names no command"),
        ("command:   ", "names no command"),
        ("command:''", "names no command"),
        ("command:sh -c 'x", "cannot be split into words: no closing quotation"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        read_place(text)


def test_words_are_split_as_a_shell_would_and_nothing_is_expanded() -> None:
    assert read_place("command:ssh gpu 'tail -F $HOME/*.log'").words == ("ssh", "gpu", "tail -F $HOME/*.log")


def test_a_label_is_short_and_shows_no_argument() -> None:
    place = read_place("command:" + "x" * 500 + " --token secret")
    assert len(place.label) == LONGEST_LABEL and place.label.endswith("x…")
    assert "secret" not in place.label

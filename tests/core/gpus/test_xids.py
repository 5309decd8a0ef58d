"""The lists of codes: what is grave, what is noise, and that each has words."""

from ddwatch.core.gpus.xids import CRITICAL, MEANINGS, WARNING, grade, meaning


def test_the_lists_are_those_of_the_alert_rules() -> None:
    assert {code for code in range(200) if grade(code) == "critical"} == {48, 62, 64, 74, 79, 95, 119, 120}
    assert {code for code in range(200) if grade(code) == "warning"} == {94}
    assert {grade(code) for code in (13, 31, 43, 63, 92)} == {"information"}


def test_every_grave_code_has_a_meaning_and_a_next_step() -> None:
    for code in CRITICAL | WARNING:
        assert MEANINGS[code].words and MEANINGS[code].next_step


def test_an_unknown_code_says_where_to_look() -> None:
    assert meaning(999).words == "" and "999" in meaning(999).next_step

"""The factor line: an exact product, as full as the width allows, never cut, and honest about what is not known."""

import pytest
from msgspec.structs import replace

from ddwatch.core.snapshot import Frame
from ddwatch.widgets.factor_row import caveats, difference_words, factor_row, model_words, parts_of, reference_words
from ddwatch.widgets.rows import plain, width_of
from tests.tui import frames, model_frames

STORY = model_frames.founding_end()


def line(frame: Frame, width: int) -> str:
    row = factor_row(frame.snapshot, width)
    assert row is not None
    return plain(row)


def test_the_line_at_four_widths() -> None:
    full = "accept ×0.40 (7.40 → 2.96)   context ×0.56 (2.3k → 5.9k)   batch ×1.00 (1 → 1)   unexplained ×0.95"
    assert line(STORY, 120) == f"   138 → 29.4   {full}"
    assert line(STORY, 80) == "   138 → 29.4   accept ×0.40   context ×0.56   batch ×1.00   unexplained ×0.95"
    assert line(STORY, 72) == "   138 → 29.4  accept ×0.40  context ×0.56  batch ×1.00  rest ×0.95"
    assert line(STORY, 60) == "   138 → 29.4 accept ×0.40 context ×0.56 rest ×0.95"


@pytest.mark.parametrize("width", range(55, 160))
def test_it_is_never_longer_than_its_room(width: int) -> None:
    assert all(width_of(factor_row(frame.snapshot, width) or ()) <= width for frame in (STORY, model_frames.slow()))


def test_the_factors_multiply_to_measured_over_remembered() -> None:
    product = 1.0
    for _, value, _ in parts_of(STORY.snapshot):
        assert value is not None
        product *= value
    assert product == pytest.approx((STORY.snapshot.now.throughput or 0.0) / 138.0)


def test_what_explains_stands_out_and_what_does_not_stays_quiet() -> None:
    row = factor_row(STORY.snapshot, 80) or ()
    assert ("×0.40", "strong") in row
    assert any("batch ×1.00" in text and role == "label" for text, role in row)


def test_a_split_of_what_is_unexplained_is_told() -> None:
    assert line(model_frames.slow(), 120).endswith("unexplained ×0.66 (offset ×0.71, slope ×0.99)")


def test_unknown_factors_are_dashes_and_a_mixed_sample_is_not_split() -> None:
    factors = STORY.snapshot.factors
    assert factors is not None
    unknown = replace(STORY, snapshot=replace(STORY.snapshot, factors=replace(factors, accept_length=None)))
    assert "accept –" in line(unknown, 80)
    now = replace(STORY.snapshot.now, flags=("prefill",))
    mixed = replace(STORY, snapshot=replace(STORY.snapshot, factors=None, now=now))
    assert line(mixed, 80) == f"{'   138 → 29.4   a mixed sample is not split (prefill)':<80}"
    assert factor_row(frames.founding().snapshot, 80) is None


def test_the_reference_says_what_it_is_and_whether_it_was_inferred() -> None:
    assert reference_words(model_frames.REMEMBERED) == "138, what was remembered before the restart (inferred)"
    said = replace(model_frames.REMEMBERED, inferred=False, label="measured\x1b[31m in March")
    assert reference_words(said) == "138, measured\N{REPLACEMENT CHARACTER}[31m in March"


def test_caveats_are_said_in_words() -> None:
    assert caveats(STORY.snapshot) == ["not calibrated: explains, never accuses"]
    outside = model_frames.outside().snapshot
    assert caveats(outside) == []
    assert caveats(replace(outside, verdict=model_frames.AS_EXPECTED)) == ["outside its evidence: a guess"]
    assert caveats(model_frames.narrow().snapshot) == []


def test_a_model_says_whose_it_is_and_what_it_rests_on() -> None:
    outside, differing = model_frames.outside().snapshot.model, model_frames.differing().snapshot.model
    assert outside is not None
    assert differing is not None
    assert " · ".join(model_words(outside)) == "learned here: 160 clean samples · 4 cells settled · fit error 1.1 %"
    assert " · ".join(model_words(differing)) == "280 clean samples · fit error 1.1 % · profile kimi-k2.6-march"
    assert difference_words(differing) == "version: the profile has 0.5.15, the service 0.5.18 · 1 more: x"
    assert difference_words(outside) == ""

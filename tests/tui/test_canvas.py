"""Dots become braille, or ASCII strokes at three heights."""

from ddwatch.widgets.canvas import Layer, braille, stroke


def test_dots_stand_where_they_were_put() -> None:
    layer = Layer(1, 1)
    layer.dot(0, 0)
    layer.dot(1, 3)
    layer.dot(9, 9)
    assert braille(layer.bits(0, 0)) == "⢁"
    assert braille(0) == " "


def test_a_slope_is_connected() -> None:
    layer = Layer(2, 2)
    layer.line(0, 7, 3, 0)
    dots = sum(bin(layer.bits(column, row)).count("1") for column in range(2) for row in range(2))
    assert dots >= 8 - 2


def test_strokes_have_three_heights_and_a_bar() -> None:
    assert [stroke(bits) for bits in (0, 0x01, 0x02, 0x04, 0x40, 0x47)] == [" ", "'", "-", "-", "_", "|"]

"""A card that is slowed down by heat is one cause, set beside its peers or its own normal."""

from tests.core.gpus.machine import Machine, every, only

LEARN = 120


def test_heat_explains_the_clock_and_is_the_only_event() -> None:
    machine = Machine().run(LEARN).run(20, only(3, reasons=0x40, sm_clock_hertz=1.2e9, temperature_celsius=93.0))

    assert machine.kinds() == [(3, "thermal"), (3, "straggler")]
    heat, straggler = machine.findings()
    assert "(93 °C, SM clock 1200 MHz, the others 2370 MHz)" in heat.sentence
    assert (heat.slows, straggler.slows) == (True, False), "one card has one cause"
    assert [event.text for event in machine.events()] == [machine.findings()[0].sentence]
    assert machine.view(3).state == "critical"


def test_heat_of_a_lone_card_is_set_beside_its_own_normal() -> None:
    machine = Machine(1).run(LEARN).run(20, every(reasons=0x40, sm_clock_hertz=1.2e9, temperature_celsius=93.0))

    assert "(93 °C, SM clock 1200 MHz, normally 2370 MHz)" in machine.findings()[0].sentence


def test_a_sentence_does_not_change_with_every_flicker_of_the_clock() -> None:
    machine = Machine().run(20, only(3, reasons=0x40, sm_clock_hertz=1.2e9, temperature_celsius=93.0))
    sentence = machine.findings()[0].sentence
    machine.run(1, only(3, reasons=0x40, sm_clock_hertz=1.215e9, temperature_celsius=93.0))

    assert machine.findings()[0].sentence == sentence


def test_a_hot_card_with_a_slow_link_has_both_causes() -> None:
    machine = Machine().run(20, only(3, reasons=0x40, temperature_celsius=93.0, pcie_generation=2))

    assert [(item.kind, item.slows) for item in machine.findings()] == [("thermal", True), ("straggler", True)]

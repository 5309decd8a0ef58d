"""The simulated cards follow the load, ail as their story says, and lengthen the steps by the law that they show."""

from ddwatch.demo.gpus.cards import (
    BOOST,
    COUNT,
    HW_SLOWDOWN,
    HW_THERMAL,
    IDLE,
    POWER_CAP,
    REST_SECONDS,
    SERVED_MEMORY,
    Ailment,
    Cards,
    stretch,
)

HOT = Ailment(card=5, after=100.0, clock=1620, celsius=93, reasons=HW_SLOWDOWN | HW_THERMAL)


def told(cards: Cards) -> list[dict[str, str]]:
    """What each card reports, by the keys of the driver's stand-in."""
    found: list[dict[str, str]] = [{} for _ in range(COUNT)]
    for line in cards.text().splitlines():
        words = line.split(maxsplit=3)
        if words[0] == "gpu":
            found[int(words[1])][words[2]] = words[3]
    return found


def at_work(*ailments: Ailment, seconds: float = 200.0, busy: float = 1.0) -> Cards:
    """Cards that have worked for a while."""
    cards = Cards("seed", ailments)
    for second in range(int(seconds) - 100, int(seconds) + 1):
        cards.advance(float(second), busy, serving=True)
    return cards


def test_without_an_ailment_nothing_takes_longer() -> None:
    assert stretch((), 500.0) == 1.0
    assert stretch((HOT,), 99.9) == 1.0


def test_a_slower_clock_and_a_poorer_link_make_the_step_longer() -> None:
    assert stretch((HOT,), 100.0) > 1.25
    slower = Ailment(card=1, clock=1200)
    assert stretch((HOT, slower), 100.0) == stretch((slower,), 100.0) > stretch((HOT,), 100.0)
    links = [stretch((Ailment(card=1, generation=generation),), 0.0) for generation in (5, 4, 3, 2, 1)]
    assert links[0] == 1.0
    assert links == sorted(links) and links[3] > 1.3


def test_under_load_all_cards_boost_and_their_links_are_wide() -> None:
    for card in told(at_work()):
        assert int(card["sm_clock"]) >= BOOST - 15
        assert (card["link_gen"], card["link_width"], card["pstate"], card["reasons"]) == ("5", "16", "0", "0")
        assert 94 <= int(card["utilization"]) <= 100
        assert 60 <= int(card["temperature"]) <= 75
        assert 380_000 <= int(card["power"]) <= 440_000
        assert int(card["memory_used"]) == round(SERVED_MEMORY)


def test_at_rest_clocks_link_and_power_fall_and_the_memory_stays() -> None:
    cards = at_work()
    for second in range(201, 401):
        cards.advance(float(second), 0.0, serving=True)
    for card in told(cards):
        assert (card["link_gen"], card["pstate"], card["reasons"]) == ("1", "8", str(IDLE))
        assert (card["utilization"], card["sm_clock"]) == ("0", "180")
        assert int(card["temperature"]) < 42 and int(card["power"]) < 50_000
        assert int(card["memory_used"]) == round(SERVED_MEMORY)


def test_a_short_pause_lowers_nothing_but_the_utilization() -> None:
    cards = at_work()
    cards.advance(200.0 + REST_SECONDS / 2, 0.0, serving=True)
    assert {(card["link_gen"], card["pstate"]) for card in told(cards)} == {("5", "0")}
    assert {card["utilization"] for card in told(cards)} == {"0"}


def test_heat_comes_slowly() -> None:
    cards = at_work(seconds=99.0)
    cards.advance(100.0, 0.0, serving=True)
    after_a_second = int(told(cards)[0]["temperature"])
    cards.advance(112.0, 0.0, serving=True)
    assert 36 < int(told(cards)[0]["temperature"]) < after_a_second - 10
    assert after_a_second > 60


def test_an_ailment_begins_at_its_moment_and_shows_on_its_card_only() -> None:
    before, after = told(at_work(HOT, seconds=99.0)), told(at_work(HOT))
    assert [card["reasons"] for card in before] == ["0"] * COUNT
    assert int(after[5]["sm_clock"]) <= 1620 and int(after[5]["temperature"]) >= 92
    assert int(after[5]["reasons"]) == HW_SLOWDOWN | HW_THERMAL
    assert int(after[5]["power"]) < min(int(card["power"]) for i, card in enumerate(after) if i != 5)
    assert all(int(card["sm_clock"]) > 2300 for i, card in enumerate(after) if i != 5)


def test_a_hot_card_rests_like_the_others() -> None:
    cards = at_work(HOT)
    cards.advance(300.0, 0.0, serving=True)
    assert (told(cards)[5]["reasons"], told(cards)[5]["sm_clock"]) == (str(IDLE), "180")


def test_the_time_under_a_reason_is_counted_by_the_drivers_field() -> None:
    counted = [int(card["field_270"]) for card in told(at_work(HOT))]
    assert counted[5] > 0 and sum(counted) == counted[5]


def test_a_card_at_its_power_limit_draws_just_that() -> None:
    capped = told(at_work(Ailment(card=1, watts=350, clock=2340, reasons=POWER_CAP)))[1]
    assert 340_000 <= int(capped["power"]) <= int(capped["power_limit"]) == 350_000
    assert stretch((Ailment(card=1, watts=350, clock=2340, reasons=POWER_CAP),), 0.0) < 1.03


def test_a_lost_card_answers_nothing_and_its_fault_is_told_once() -> None:
    lost = Ailment(card=5, after=100.0, lost=True, xid=79)
    cards = at_work(lost, seconds=101.0)
    assert told(cards)[5]["*"] == "error 15"
    assert [line for line in cards.text().splitlines() if line.startswith("xid")] == ["xid 1 5 79"]
    cards.advance(1000.0, 0.0, serving=False)
    assert "xid" not in cards.text()
    assert told(cards)[5]["*"] == "error 15"
    assert "xid" not in at_work(lost, seconds=99.0).text()


def test_memory_fills_while_the_model_is_loaded_and_is_free_without_it() -> None:
    cards = Cards("seed")
    cards.advance(0.0, 0.0, serving=False)
    empty = int(told(cards)[0]["memory_used"])
    cards.advance(4.0, 0.0, serving=False, loading=True)
    filling = int(told(cards)[0]["memory_used"])
    cards.advance(100.0, 0.0, serving=False, loading=True)
    full = int(told(cards)[0]["memory_used"])
    assert empty < 2**30 < filling < full == round(SERVED_MEMORY)
    cards.advance(101.0, 0.0, serving=False)
    assert int(told(cards)[0]["memory_used"]) == empty


def test_no_two_cards_share_a_name_or_an_address() -> None:
    cards = told(at_work())
    for key in ("uuid", "pci"):
        assert len({card[key] for card in cards}) == COUNT

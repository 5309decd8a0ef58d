"""The row of the Grafana dashboard that shows each card, in the order in which a card that ails shows it."""

from ddwatch.commands.dashboard_shapes import BAD, GOOD, HERE, ODD, Panel, Query, Row, meaning_of
from ddwatch.core.gpus.reasons import REASONS

CARDS = f'{HERE}, gpu=~"$gpu"'
"""The cards that the variables choose."""
CARD = "GPU {{gpu}}"
HARMLESS = "|".join(reason.name for reason in REASONS if reason.grade == "information")
"""Clock-event reasons that a healthy card has too."""
WRONG = meaning_of({"0": ("no", "transparent"), "1": ("yes", BAD)})


def one(name: str) -> str:
    """The series of one figure of the chosen cards."""
    return f"ddwatch_gpu_{name}{{{CARDS}}}"


GPUS = Row(
    "GPUs",
    (
        Panel(
            title="Odd cards",
            meaning="Slower than their peers under load, or not to be read any more. Absent where there are no peers.",
            kind="state-timeline",
            queries=(
                Query(one("outlier"), f"{CARD} outlier"),
                Query(one("lost"), f"{CARD} lost"),
                Query(one("row_remap_pending"), f"{CARD} row remap pending"),
            ),
            defaults={"mappings": WRONG},
        ),
        Panel(
            title="Clock-event reasons",
            meaning="What holds a clock down. A power cap and rest are normal and left out.",
            kind="state-timeline",
            queries=(Query(f'ddwatch_gpu_throttle{{{CARDS}, reason!~"{HARMLESS}"}} == 1', CARD + " {{reason}}"),),
            defaults={"mappings": meaning_of({"1": ("holds", ODD)})},
        ),
        Panel(
            title="SM clock",
            meaning="Under load all cards of a service run at about the same clock.",
            queries=(Query(one("sm_clock_hertz"), CARD),),
            unit="hertz",
        ),
        Panel(
            title="Power and limit",
            meaning="At its limit a card is capped, which is normal where it costs no clock.",
            queries=(
                Query(one("power_watts"), CARD),
                Query(one("power_limit_watts"), f"{CARD} limit"),
            ),
            unit="watt",
            overrides=(
                {
                    "matcher": {"id": "byRegexp", "options": ".* limit$"},
                    "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [4, 8]}}],
                },
            ),
        ),
        Panel(
            title="Temperature",
            meaning="Of the chip. Beside its peers a hot card tells of air or paste.",
            queries=(Query(one("temperature_celsius"), CARD),),
            unit="celsius",
        ),
        Panel(
            title="Utilisation",
            meaning="Share of time in which a kernel ran. 1 proves no progress: a hung collective shows 1 too.",
            queries=(Query(one("utilization_ratio"), CARD),),
            unit="percentunit",
            defaults={"max": 1},
        ),
        Panel(
            title="Memory in use",
            meaning="Share of the device memory.",
            queries=(Query(f"{one('memory_used_bytes')} / {one('memory_total_bytes')}", CARD),),
            unit="percentunit",
            defaults={"max": 1},
        ),
        Panel(
            title="Memory clock and performance state",
            meaning="State 0 is the fastest.",
            queries=(
                Query(one("memory_clock_hertz"), CARD),
                Query(one("performance_state"), f"{CARD} state"),
            ),
            unit="hertz",
            overrides=(
                {
                    "matcher": {"id": "byRegexp", "options": ".* state$"},
                    "properties": [{"id": "unit", "value": "none"}, {"id": "custom.axisPlacement", "value": "right"}],
                },
            ),
        ),
        Panel(
            title="Time under each clock-event reason",
            meaning="As the driver counts it, as a share of time; a healthy card has power cap and rest only.",
            queries=(Query(f"rate({one('throttle_seconds_total')}[$__rate_interval])", CARD + " {{reason}}"),),
            unit="percentunit",
        ),
        Panel(
            title="PCIe link, as a share of its highest",
            meaning="Generation and width. Low at rest is normal; under load it is a card, a slot or a riser.",
            queries=(
                Query(
                    f"{one('pcie_link_generation')} / {one('pcie_link_generation_max')}",
                    f"{CARD} generation",
                ),
                Query(f"{one('pcie_link_width')} / {one('pcie_link_width_max')}", f"{CARD} width"),
            ),
            unit="percentunit",
            defaults={"max": 1},
        ),
        Panel(
            title="NVLinks that are up",
            meaning="Absent where a card has none.",
            queries=(Query(one("nvlinks_active"), CARD),),
            defaults={"decimals": 0},
        ),
        Panel(
            title="Errors in the chosen time",
            meaning="PCIe replays, NVLink and memory errors, and the faults (Xid) that the driver reported.",
            kind="bargauge",
            queries=(
                Query(f"increase({one('pcie_replays_total')}[$__range]) > 0", f"{CARD} PCIe replays", instant=True),
                Query(f"increase({one('nvlink_errors_total')}[$__range]) > 0", CARD + " NVLink {{kind}}", instant=True),
                Query(f"increase({one('ecc_errors_total')}[$__range]) > 0", CARD + " ECC {{kind}}", instant=True),
                Query(f"{one('xid_errors_total')} > 0", CARD + " Xid {{xid}}", instant=True),
            ),
            defaults={"decimals": 0, "color": {"mode": "fixed", "fixedColor": BAD}, "noValue": "none", "min": 0},
        ),
        Panel(
            title="Cards",
            meaning="All cards that are read.",
            kind="stat",
            queries=(Query(f"count by (job, instance) ({one('lost')} == 0)", "{{instance}}", instant=True),),
            width=24,
            height=3,
            defaults={"decimals": 0, "color": {"mode": "fixed", "fixedColor": GOOD}, "noValue": "no GPUs are read"},
        ),
    ),
)

"""Keeps samples of different setups apart: what was measured under other flags or another build is never merged."""

from collections.abc import Mapping

from ddwatch.core.expectation.fit import Gathering
from ddwatch.core.expectation.identity import (
    Identity,
    Scalar,
    identity_differences,
    identity_of,
    judged_differences,
    judged_of,
)
from ddwatch.core.records import GraphSizes, Record, ServerStart, SpeculationSetup
from ddwatch.core.snapshot import Sample

MOST_SETUPS = 16
"""Setups that are kept apart; a log with more of them is not one service."""


class Setup:
    """One identity and judged setup with the samples that were seen under it."""

    def __init__(
        self, identity: Identity, judged: Mapping[str, Scalar], coupled: bool | None, interval: int | None
    ) -> None:
        self.identity = identity
        self.judged = dict(judged)
        self.graph_sizes: tuple[int, ...] = ()
        self.gathering = Gathering(coupled, interval)

    def words(self, chosen: "Setup") -> str:
        """How this setup differs from the chosen one, in a few words."""
        if not self.judged and self.identity == Identity():
            return "a setup that the log does not name"
        differences = [
            *identity_differences(chosen.identity, self.identity),
            *judged_differences(chosen.judged, self.judged),
        ]
        told = ", ".join(f"{one.name} {one.service}"[:60] for one in differences[:3])
        return f"another setup ({told})" if told else "another setup"


class Setups:
    """Sorts the samples of logs by the setup that they were measured under."""

    def __init__(self) -> None:
        self.lines = 0
        """Lines read."""
        self._setups: list[Setup] = []
        self._current: Setup | None = None
        self._text_class: str | None = None
        self._arguments: Mapping[str, object] = {}
        self._dropped = 0

    def begin(self, text_class: str | None) -> None:
        """Another log begins."""
        self._text_class = text_class
        self._arguments = {}
        self._current = None

    def see(self, record: Record, sample: Sample | None) -> None:
        """Takes a record, and the sample that it gave, if it gave one."""
        if isinstance(record, ServerStart):
            self._arguments = record.arguments
            self._enter()
        elif isinstance(record, SpeculationSetup) and (record.tree_budget or record.block_size):
            self._enter(tree_budget=record.tree_budget, block_size=record.block_size)
        elif isinstance(record, GraphSizes):
            self._here().graph_sizes = record.sizes
        if sample is not None:
            self.take(sample)

    def take(self, sample: Sample) -> None:
        """Takes a sample; one of a recording comes without the record that it was made from."""
        self._here().gathering.see(sample, self._text_class)

    @property
    def current(self) -> Setup | None:
        """The setup in force; None before anything was seen."""
        return self._current

    def _here(self) -> Setup:
        return self._current if self._current is not None else self._enter()

    def _enter(self, tree_budget: int | None = None, block_size: int | None = None) -> Setup:
        arguments = self._arguments
        identity = identity_of(arguments, tree_budget=tree_budget, block_size=block_size)
        judged = judged_of(arguments)
        for setup in self._setups:
            if setup.identity == identity and setup.judged == judged:
                setup.gathering.cut()
                self._current = setup
                return setup
        attention = arguments.get("enable_dp_attention")
        experts = arguments.get("ep_size")
        coupled: bool | None = None
        if arguments:
            coupled = attention is True or (isinstance(experts, int) and experts > 1)
        told = arguments.get("decode_log_interval")
        interval = told if isinstance(told, int) and told > 0 else None
        self._current = Setup(identity, judged, coupled, interval)
        if len(self._setups) >= MOST_SETUPS:
            poorest = min(self._setups, key=lambda setup: setup.gathering.clean)
            self._dropped += poorest.gathering.samples
            self._setups.remove(poorest)
        self._setups.append(self._current)
        return self._current

    def richest(self) -> Setup | None:
        """The setup with the most clean samples; None when there was no sample at all."""
        used = [setup for setup in self._setups if setup.gathering.samples]
        return max(used, key=lambda setup: (setup.gathering.clean, setup.gathering.samples)) if used else None

    def left_out(self, chosen: Setup) -> list[str]:
        """What was not fitted because it belongs to another setup."""
        sentences = [
            f"{setup.gathering.clean} clean samples of {setup.words(chosen)}"
            for setup in self._setups
            if setup is not chosen and setup.gathering.samples
        ]
        if self._dropped:
            sentences.append(f"{self._dropped} samples of further setups")
        return sentences

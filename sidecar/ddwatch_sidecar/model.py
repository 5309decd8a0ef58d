"""The model side of one watch: which profiles may speak, what was learned before, and keeping what is learned now."""

import asyncio
from typing import Protocol

from ddwatch.core.expectation.learning import Learner
from ddwatch.core.expecting import Expecting
from ddwatch.profiles.in_force import model_side
from ddwatch_sidecar.keeping import Keeper

SAVE_SECONDS = 10.0
"""How often it is looked whether something new was learned."""


class Learning(Protocol):
    """A watch that learns."""

    def learner(self) -> Learner | None:
        """What has been learned, once after each change that should be saved."""

    def relearn(self) -> None:
        """Forgets what was learned of this service."""


def expecting(profile: str | None, keeper: Keeper | None) -> Expecting:
    """The model side for these settings; raises CommandFailed when the named profile cannot be used.

    Args:
        profile: name or path of a profile; None for none.
        keeper: keeps what is learned between runs; None to learn in memory only.
    """
    return model_side(profile, keeper.recall if keeper is not None else None)()


async def keep(watch: Learning, keeper: Keeper, stopped: asyncio.Event) -> None:
    """Saves what is learned until the end, off the loop; a removed state file is a wish to relearn."""
    unsaved: Learner | None = None
    known: Learner | None = None
    while True:
        last = stopped.is_set()
        fresh = watch.learner()
        unsaved = fresh if fresh is not None else unsaved
        known = fresh if fresh is not None else known
        if known is not None and await asyncio.to_thread(keeper.forgotten, known.identity):
            watch.relearn()
            unsaved = known = None
        if unsaved is not None and await asyncio.to_thread(keeper.save, unsaved):
            unsaved = None
        if last:
            return
        try:
            await asyncio.wait_for(stopped.wait(), SAVE_SECONDS)
        except asyncio.TimeoutError:
            continue

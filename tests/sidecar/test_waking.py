"""A wait with a limit ends at the event or at the limit, whichever comes first, and leaves nothing behind."""

import asyncio

import pytest
from ddwatch_sidecar.waking import Wake

LONG = 60.0


async def waiting(wake: Wake, seconds: float) -> asyncio.Task[bool]:
    task = asyncio.create_task(wake.within(seconds))
    await asyncio.sleep(0)
    return task


def test_setting_it_ends_every_wait_at_once() -> None:
    async def story() -> None:
        wake = Wake()
        first, second = await waiting(wake, LONG), await waiting(wake, LONG)
        unlimited = asyncio.create_task(wake.wait())
        await asyncio.sleep(0)
        wake.set()
        assert await first and await second and await unlimited
        assert await wake.within(LONG)

    asyncio.run(story())


def test_the_limit_ends_a_wait_and_the_next_one_waits_again() -> None:
    async def story() -> None:
        wake = Wake()
        assert not await wake.within(0.001)
        again = await waiting(wake, LONG)
        assert not again.done()
        wake.set()
        assert await again

    asyncio.run(story())


def test_what_was_set_and_cleared_before_the_waiter_ran_has_still_woken_it() -> None:
    async def story() -> None:
        wake = Wake()
        task = await waiting(wake, LONG)
        wake.set()
        wake.clear()
        assert not await task

    asyncio.run(story())


def test_a_cancelled_wait_is_forgotten() -> None:
    async def story() -> None:
        wake = Wake()
        task = await waiting(wake, LONG)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        wake.set()
        assert await wake.within(LONG)

    asyncio.run(story())

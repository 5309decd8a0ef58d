"""An event that can be waited for with a limit and without a task per wait: the sidecar waits many times a second."""

import asyncio


class Wake(asyncio.Event):
    """Like asyncio.Event; `within` costs one future and one timer where asyncio.wait_for makes a task."""

    def __init__(self) -> None:
        super().__init__()
        self._limited: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        """Wakes everyone who waits, with a limit or without."""
        super().set()
        for waiter in self._limited:
            _end(waiter)

    async def within(self, seconds: float) -> bool:
        """Waits until it is set, but no longer than this; whether it is set."""
        if self.is_set():
            return True
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._limited.add(waiter)
        timer = loop.call_later(seconds, _end, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._limited.discard(waiter)
        return self.is_set()


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

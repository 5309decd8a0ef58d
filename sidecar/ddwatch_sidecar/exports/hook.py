"""Runs the operator's own command for each message: no shell, the document on its stdin, never for long."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ddwatch_sidecar.exports.notify import Failed

NAME = "notify command"
TIMEOUT_SECONDS = 10.0
GRACE_SECONDS = 2.0
"""Between the request to end and the end."""
OWN_PREFIX = "DDWATCH_"
"""Variables of ours, secrets among them, that the command does not get."""


class CommandHook:
    """A channel that starts a process per message; it leads a process group that ends with it."""

    name = NAME

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._words = tuple(words)
        self._environment = {name: value for name, value in environment.items() if not name.startswith(OWN_PREFIX)}
        self._timeout = timeout_seconds
        self._grace = grace_seconds

    async def deliver(self, message: bytes) -> Failed | None:
        """Runs the command once; it may have done its work whatever it ends with, so it is not run again."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            return Failed(f"cannot be started ({(reason or 'an argument holds a null byte').lower()})", again=False)
        try:
            await asyncio.wait_for(process.communicate(message + b"\n"), self._timeout)
        except asyncio.TimeoutError:
            await self._end(process)
            return Failed(f"ran for {self._timeout:g} s and was ended", again=False)
        except asyncio.CancelledError:
            _signal(process.pid, signal.SIGKILL)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), self._grace)
            raise
        code = process.returncode
        return None if code == 0 else Failed(f"ended with {code}", again=False)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        _signal(process.pid, signal.SIGTERM)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), self._grace)
        # Whatever the command has started and left behind is of its group.
        _signal(process.pid, signal.SIGKILL)
        await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)

"""The server leaves on request."""

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.records import Record, ServerStop


def read(message: Message) -> Record | None:
    """SGLang's own words on SIGTERM, or uvicorn's."""
    return ServerStop(**message.where)


FORMAT = Format(
    "stop",
    r"Gracefully exiting\b|SIGTERM received\b|Shutting down *$|Finished server process \[\d{1,10}\]",
    read,
)

"""The server answers requests from here on."""

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.records import Record, ServerReady


def read(message: Message) -> Record | None:
    """A warm-up request may come before or after this line."""
    return ServerReady(**message.where)


FORMAT = Format("ready", r"The server is fired up and ready to roll", read)

"""A server process announces its arguments, in the two shapes that releases print them in."""

from ddwatch.core.arguments import read_arguments
from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.records import Record, ServerStart


def read(message: Message) -> Record | None:
    """Allow-listed values and digests of the others; a line cut short gives what it still says."""
    allowed, withheld = read_arguments(message.text, message.key)
    if not allowed and not withheld:
        return message.unread("server_args", [])
    return ServerStart(**message.where, arguments=allowed, withheld=withheld)


FORMAT = Format("start", r"server_args ?= ?(?:\w{1,40}\(|\{)", read)

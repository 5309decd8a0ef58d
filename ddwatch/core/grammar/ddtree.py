"""Lines of DDTree forks: the worker's shape, and the drafts that a verify accepted."""

import re

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.grammar.text import clean
from ddwatch.core.records import Record, SpeculationSetup, VerifyDrafts

NUMBER = re.compile(r"\b(\w{1,40})=(\d{1,9})\b")
LIST = re.compile(
    r"\b(accept_length_per_req|num_correct_drafts_per_req|commit_lens|commit_lens_per_req)=\[([\d, ]{0,4000})\]"
)
REQUEST_LIMIT = 512


def setup(message: Message) -> Record | None:
    """`Initialized DDTree worker. block_size=16, tree_budget=32, max_tree_nodes=33`."""
    words = message.text.split(" ", 2)
    numbers = {name: int(value) for name, value in NUMBER.findall(message.text)}
    if not numbers.keys() & {"block_size", "tree_budget", "max_tree_nodes"}:
        return None
    return SpeculationSetup(
        **message.where,
        algorithm=clean(words[1], 32).upper(),
        block_size=numbers.get("block_size"),
        tree_budget=numbers.get("tree_budget"),
        max_tree_nodes=numbers.get("max_tree_nodes"),
    )


def verify(message: Message) -> Record | None:
    """`DDTREE verify completed. …=[4, 0, 7]`: commit lengths count the bonus token, the other lists do not."""
    found = LIST.search(message.text)
    if found is None:
        return message.unread("verify completed", [])
    listed = tuple(int(word) for word in re.findall(r"\d{1,6}", found[2])[:REQUEST_LIMIT])
    bonus = found[1].startswith("commit")
    return VerifyDrafts(
        **message.where,
        drafts=tuple(max(0, value - 1) for value in listed) if bonus else listed,
        tokens=listed if bonus else tuple(value + 1 for value in listed),
    )


SETUPS = Format("speculation", r"Initialized [\w-]{2,32} (?:draft )?(?:worker|runner)\b", setup)
VERIFIES = Format("verify", r"[A-Z][A-Z0-9_]{3,24} (?:spine |tree )?verify completed\b", verify)

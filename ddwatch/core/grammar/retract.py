"""Retractions: the KV pool was full. The old wording says `out of memory` and is no crash."""

import re

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.records import Record, Retraction

REQUESTS = re.compile(r"#retracted_reqs?: (\d{1,9})")
RATIO = re.compile(r"#new_token_ratio: (\d{1,6}(?:\.\d{1,12})?) -> (\d{1,6}(?:\.\d{1,12})?)")


def read(message: Message) -> Record | None:
    """How many requests went back to the queue, as far as the line says."""
    requests = REQUESTS.search(message.text)
    ratio = RATIO.search(message.text)
    return Retraction(
        **message.where,
        requests=int(requests[1]) if requests else None,
        new_token_ratio_before=float(ratio[1]) if ratio else None,
        new_token_ratio_after=float(ratio[2]) if ratio else None,
    )


FORMAT = Format("retract", r"KV cache pool is full\b|Decode out of memory happened\b", read)

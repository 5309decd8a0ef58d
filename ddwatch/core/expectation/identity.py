"""Which service a profile speaks of: what makes another profile, what is judged, and what does not matter.

Identity: another value is another service and needs another profile. Judged: the profile still holds, the
difference is shown, and a change of speed is exactly what should be seen. Everything else (parsers, ports,
logging, names, keys) is ignored.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from ddwatch.core.arguments import JUDGED

Scalar = str | int | float | bool


class Identity(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Model, drafter, hardware and shape; each None where not known."""

    model: str | None = None
    draft_model: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    tp: int | None = None
    dp: int | None = None
    ep: int | None = None
    quantization: str | None = None
    algorithm: str | None = None
    tree_budget: int | None = None
    block_size: int | None = None


class Difference(Struct, frozen=True):
    """One thing in which a running service is not what the profile was fitted on."""

    kind: Literal["identity", "judged"]
    name: str
    profile: Scalar
    service: Scalar

    def sentence(self) -> str:
        """For the operator: `tp: the profile has 8, the service 4`."""
        return f"{self.name}: the profile has {self.profile}, the service {self.service}"


TREE_BUDGETS = (
    "speculative_ddtree_tree_budget",
    "speculative_ddtree_budget",
    "speculative_tree_budget",
    "speculative_dflash_tree_budget",
    "speculative_num_draft_tokens",
)
BLOCK_SIZES = ("speculative_dflash_block_size", "speculative_dspark_block_size", "speculative_block_size")
VENDORS = re.compile(r"\b(?:nvidia|amd|geforce|corporation|graphics|edition)\b", re.IGNORECASE)

EDITION = re.compile(r" (?:server|workstation|max-q workstation)")
"""What NVIDIA adds to the name of one chip for its kind of board (its word `Edition` is left out before)."""


def _number(arguments: Mapping[str, object], names: Iterable[str]) -> int | None:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _word(arguments: Mapping[str, object], name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) and value else None


def identity_of(
    arguments: Mapping[str, object],
    *,
    gpus: Iterable[str] = (),
    tree_budget: int | None = None,
    block_size: int | None = None,
) -> Identity:
    """The identity that allow-listed server arguments tell.

    Args:
        arguments: as the grammar or /server_info gives them.
        gpus: names of the GPUs where they are known, one per card.
        tree_budget: as the drafter announced it, where it did (better than the arguments).
        block_size: same.
    """
    names = list(gpus)
    return Identity(
        model=_word(arguments, "model_path"),
        draft_model=_word(arguments, "speculative_draft_model_path"),
        gpu=names[0] if names and len(set(names)) == 1 else (" + ".join(sorted(set(names))) or None),
        gpu_count=len(names) or None,
        tp=_number(arguments, ("tp_size",)),
        dp=_number(arguments, ("dp_size",)),
        ep=_number(arguments, ("ep_size",)),
        quantization=_word(arguments, "quantization"),
        algorithm=_word(arguments, "speculative_algorithm"),
        tree_budget=tree_budget if tree_budget is not None else _number(arguments, TREE_BUDGETS),
        block_size=block_size if block_size is not None else _number(arguments, BLOCK_SIZES),
    )


def judged_of(arguments: Mapping[str, object], version: str | None = None) -> dict[str, Scalar]:
    """The arguments that are judged, by name; the SGLang version among them."""
    judged: dict[str, Scalar] = {}
    if version:
        judged["version"] = version
    for name in sorted(arguments):
        value = arguments[name]
        if name in JUDGED and isinstance(value, (str, int, float, bool)):
            judged[name] = value
    return judged


def _bare(name: str, value: Scalar) -> Scalar:
    """A value as it is compared: model names without their owner, GPU names without their vendor."""
    if not isinstance(value, str):
        return value
    plain = value.strip().casefold()
    if name in ("model", "draft_model"):
        return plain.rstrip("/").rsplit("/", 1)[-1]
    if name == "gpu":
        return " ".join(VENDORS.sub(" ", plain).split())
    return plain


def _same(name: str, ours: Scalar, theirs: Scalar) -> bool:
    """Whether two values are of one service: a GPU named without its edition is a GPU of any edition."""
    one, other = _bare(name, ours), _bare(name, theirs)
    if one == other or name != "gpu":
        return one == other
    short, long = sorted((str(one), str(other)), key=len)
    return EDITION.fullmatch(long.removeprefix(short)) is not None


def identity_differences(profile: Identity, service: Identity) -> tuple[Difference, ...]:
    """What of the identity is known on both sides and differs: what is not known on one side is no difference."""
    found = []
    for name in Identity.__struct_fields__:
        ours, theirs = getattr(profile, name), getattr(service, name)
        if ours is not None and theirs is not None and not _same(name, ours, theirs):
            found.append(Difference("identity", name, ours, theirs))
    return tuple(found)


def joined(known: Identity, told: Identity) -> Identity | None:
    """All that is known of one service by two accounts of it, the newer one in its own words.

    None when they contradict each other, or when not both name the model: then nothing says that they are of one.
    """
    if known.model is None or told.model is None or identity_differences(known, told):
        return None
    filled = {
        name: value if (value := getattr(told, name)) is not None else getattr(known, name)
        for name in Identity.__struct_fields__
    }
    return Identity(**filled)


def judged_differences(profile: Mapping[str, Scalar], service: Mapping[str, Scalar]) -> tuple[Difference, ...]:
    """What of the judged setup is known on both sides and differs."""
    return tuple(
        Difference("judged", name, profile[name], service[name])
        for name in sorted(profile)
        if name in service and profile[name] != service[name]
    )


def key_of(identity: Identity) -> str:
    """A file name for the profile of this identity: readable, stable, the same for equal identities."""
    words = [
        str(_bare(name, value))
        for name in ("model", "algorithm", "tree_budget", "gpu_count", "gpu", "tp", "dp", "ep", "quantization")
        if (value := getattr(identity, name)) is not None
    ]
    text = re.sub(r"[^a-z0-9.]+", "-", "-".join(words)).strip("-.")
    return text[:120] or "service"

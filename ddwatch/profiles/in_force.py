"""The model side of a watch: the profile that was named, those that come with ddwatch, what was learned before."""

from collections.abc import Callable

from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.profile_text import read_profile
from ddwatch.core.expecting import Expecting, Recall
from ddwatch.profiles.shelf import Shelf, built_in_names, built_in_text


def model_side(profile: str | None, recall: Recall | None = None) -> Callable[[], Expecting]:
    """Makes the model side for one watch after another, reading the profiles once.

    Args:
        profile: name or file of the profile to judge by; None for none.
        recall: finds what an earlier watch has learned.

    Raises:
        CommandFailed: the named profile cannot be used; the sentence names the offending key.
    """
    given = Shelf().load(profile) if profile is not None else None
    built_in = [found for name in built_in_names() if isinstance(found := read_profile(built_in_text(name)), Profile)]
    return lambda: Expecting(given=given, built_in=built_in, recall=recall)

"""Before and after a restart or a moment: what changed, measured where batch and context were the same."""

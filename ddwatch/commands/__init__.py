"""One file per command of `ddwatch`: its arguments, and what it does with them."""

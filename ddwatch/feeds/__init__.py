"""Where the screen gets its frames: a live sidecar, or a replayed log."""

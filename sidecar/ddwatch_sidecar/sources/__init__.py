"""Where readings come from; each source yields text, bytes or values, and its faults as values."""

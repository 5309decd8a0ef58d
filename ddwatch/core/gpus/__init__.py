"""Judges cards and host by their own normal and by their peers: what differs, what it means, what to do next."""

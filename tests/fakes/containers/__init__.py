"""Containers that exist on paper only: their state and log in files, told by a stand-in client or a stand-in daemon."""

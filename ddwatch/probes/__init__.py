"""Active measurements against a service."""

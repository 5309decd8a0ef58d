"""The whole screens of the terminal app."""

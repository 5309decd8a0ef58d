"""Looks for SGLang servers among the processes of this machine. Reads only, and asks no server but by a plain GET."""

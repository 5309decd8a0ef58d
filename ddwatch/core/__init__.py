"""The rules of the house, pure: told the time and the text, it reads no clock, file or socket."""

"""A driver library that answers from a scenario: the real pynvml loads it, so all of the reader is the real one."""

"""ddwatch: what an SGLang service with speculative decoding does, what it should do, and why they differ."""

__version__ = "0.1.0"

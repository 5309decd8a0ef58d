"""Detectors: samples over time to suspicions, each with its onset, its evidence and a stated false-alarm rate."""

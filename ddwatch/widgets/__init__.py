"""The parts that screens are made of: each shows one slice of a frame."""

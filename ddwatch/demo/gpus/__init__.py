"""Cards for the simulated service: a stand-in for the driver's library, and what the cards do under its load."""

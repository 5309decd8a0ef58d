"""The profiles that come with ddwatch, and the shelf that finds them and the operator's own."""

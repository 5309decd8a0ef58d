"""A simulated DDTree service that speaks dialects of SGLang, for the demo and the tests."""

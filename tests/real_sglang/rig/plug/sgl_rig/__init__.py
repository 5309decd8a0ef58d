"""SGLang plugins for a machine without a GPU: CPU verification, CPU events, and an observer of each step."""

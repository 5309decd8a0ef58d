"""Where snapshots go; each export only formats what it is handed."""

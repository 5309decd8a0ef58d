"""All that goes onto the GPU host: sources in, one snapshot, exports out."""

"""What the service should do at this batch and context, how sure that is, and why reality differs."""

"""Number formats, memory layout, settings of torch, and what shows that they took effect."""

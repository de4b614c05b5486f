"""Jobs: what needs no cluster."""

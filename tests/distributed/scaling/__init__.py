"""Models of exchanges and of steps, held against measurements."""

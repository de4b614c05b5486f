"""What was predicted and what was measured, on this machine, across notebooks."""

"""Worker processes that hold copies of a workload and step them by tokens."""

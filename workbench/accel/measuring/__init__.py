"""Is a candidate faster, by how much, and does its loss still follow? Numbers and sentences, no processes."""

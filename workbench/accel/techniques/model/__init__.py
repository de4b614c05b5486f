"""A model's call wrapped in place, bare copies to try things on, and its repeated blocks."""

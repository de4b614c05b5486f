"""Loaders and their iterators, data sets, transforms, and what a few samples show of them."""

"""A run that goes on where it stopped: what is written, when, and how the loop is replayed.

checkpoint_wish.py      --checkpoint, --every, --max-restarts: whether they make sense for a cell
checkpoint_file.py      written whole or not at all; those that do not read back well are reported
checkpoints.py          when one is taken
checkpoint_contents.py  what the cell's variables hold, to be written
"""

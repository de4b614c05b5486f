"""A plan as plain PyTorch: what was measured, without a dependency on accel.

export.py          Export: code, diff and notes; export_cell
cell_rewriter.py   which lines go where
in_place.py        short forms: an argument of a constructor, a `with` round a call
"""

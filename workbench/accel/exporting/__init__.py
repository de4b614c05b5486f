"""A plan as plain PyTorch: what was measured, without a dependency on accel.

export.py          Export: code, diff and notes; export_cell
cell_tree.py       the cell as a tree, without what only IPython understands (magic_lines.py); edits.py: its changes
cell_rewriter.py   which lines go where: placement.py, plain_code.py; under names of their own: private_names.py
in_place.py        short forms: an argument of a constructor (call_arguments.py), a `with` round a call (model_calls.py)
holders.py         whether other code than the cell's could call a model
"""

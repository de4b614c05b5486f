"""Pictures of a Profile in plotly, which is imported when one is drawn: one file a kind, listed in `report.py`.

sunburst.py    area is self time: phase, module, operation
steps.py       every step with its phases; warm-up, profiled and slow ones marked
memory.py      bytes held over the profiled steps, the peak marked
roofline.py    rates of operations under the measured peaks
"""

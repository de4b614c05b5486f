"""The Jupyter layer: the only part of the engine that imports IPython.

extension.py       %load_ext accel, %unload_ext accel
magics.py          %accel and %%accel
profiled_cell.py   the text of a %%accel profile cell, for IPython and for the workload
cell_runner.py     the profile session around the run of such a cell
waiting.py         the ladder on the page while a trial runs
completion.py      Tab
greeting.py        one line after %load_ext accel
docked.py          the panel next to the notebook
page_news.py       notices on the page
"""

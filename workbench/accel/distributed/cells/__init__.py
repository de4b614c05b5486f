"""The notebook's cell on ranks: shipped, run, its state brought home, its result.

run_options.py                     how a cell trains on ranks: the options as they travel
plan_on_ranks.py                   a plan for ranks: what of the catalogue cannot work there, and why
plan_in_rank.py · plan_effects.py  the plan on what the cell uses, in each rank; what was read back of it
cell_execution.py                  the cell's text, run as a notebook runs it
watched_run.py · ddp_run.py        a run as others see it; one in the background
run_pages.py · run_lanes.py        where a notebook shows runs; what each rank does now
ddp_result.py                      what a run did
changed_during_run.py              what the notebook changed while the ranks trained
home_objects.py · brought_home.py  the objects that were shipped, and what became of them
run_cell.py · run_in_rank.py       the kernel's side and the rank's
whole_files.py                     files that all ranks save, each as a whole
launched_cell.py                   a rank as torchrun would have launched it
code_in_place.py                   what a cell has put in the place of functions and classes
cell_loops.py                      how a cell that begins at its top is led back to a checkpoint by its loops
plain_values.py                    what the cell's variables hold, as numbers and tensors
"""

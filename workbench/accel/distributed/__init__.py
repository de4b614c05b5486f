"""The notebook's own cell on several processes of this machine, data-parallel, without a script and without a restart.

accel.ddp(cell_or_function, n=2)    run it in n warm ranks; the trained state comes back
RankPool(n).run(function)           any function in n ranks that can talk to each other

rank_process.py · rank_pool.py      children (processes/) with CPUs of their own, kept warm
rank_run.py · failed_run.py         one run: wait, watch, stop; which rank caused a failure, and where the others stood
cpus_of_ranks.py                    which CPUs they get, in a run as in a trial
rank_environment.py                 the variables that a rank has of the kernel
run_options.py                      how a cell trains on ranks: the options as they travel
room_for_ranks.py                   memory and CPUs for so many ranks, before they are started
rank_page.py · rank_messages.py     what they say to each other
process_group.py                    what they exchange gradients in; errors that are another rank's fault
trial_group.py · trial_rank.py      a trial of `ddp`: ranks that are stepped as one worker
trial_answers.py                    what they answer, as one
rank_main.py · run_in_rank.py       the rank's side
data_parallel.py                    what makes an unmodified cell data-parallel: models, loaders, random numbers, gradients
synchronised_model.py               DistributedDataParallel round a model's call, in place
bucket_exchange.py · gradient_compression.py  how DDP is made; how a bucket of gradients travels
step_watching.py · communication_recorder.py  --communication: some steps watched, bucket by bucket
communication_times.py · device_clocks.py · bare_all_reduces.py  what a rank saw, by which clock, and what its link does alone
communication_report.py             what it cost; _figures: the arithmetic, _advice: which knob, _view: the picture
gradient_exchange.py · averaging.py  means of gradients where DDP is too early, or knows nothing of them
accumulation.py · gradient_readers.py  passes that need no exchange; code that looks at gradients itself
graph_leaves.py                     parameters of no model
shared_loops.py · step_lane.py      the cell's loops over loaders; what a rank tells of its steps
plan_on_ranks.py                    a plan for ranks: what of the catalogue cannot work there, and why
plan_in_rank.py · plan_effects.py   the plan on what the cell uses, in each rank; what was read back of it
training_notes.py                   where a run was not what one process would have done
shared_loader.py                    each rank's part of the same batches
lineages.py                         random numbers: those that all ranks share, and each rank's own
cell_execution.py                   the cell's text, run as a notebook runs it
called_function.py                  a function as a cell that calls it
rank_devices.py                     the backend, and the GPU of each rank; why not, in words
oneccl/                             oneCCL as the backend of a group, built where it is asked for
rank_prints.py · lanes_view.py      what a run shows while it goes on: prints of rank 0, and each rank's lane
sweep_plan.py · sweep_run.py        which configurations a sweep runs; one after the other, and what was measured stays
evaluation_clock.py                 what of a run's time was evaluation, which a time of training leaves out
rank_quality.py                     how good the trained model is, told by rank 0 at the end of a run
straggler.py                        the rank that the others wait for
watched_run.py · ddp_run.py         a run as others see it; one in the background
run_pages.py                        where a notebook shows runs
ddp_result.py                       what a run did
changed_meanwhile.py                what the notebook changed while the ranks trained
home_objects.py · brought_home.py   the objects that were shipped, and what became of them
gathered_pieces.py                  what a cell kept of a model that is spread over ranks, made whole before it comes home
checkpoint_wish.py                  --checkpoint, --every, --max-restarts: whether they make sense for a cell
checkpoints.py · cell_loops.py      when one is taken, and how a cell that begins at its top is led back there by its loops
checkpoint_contents.py · plain_values.py   what the cell's variables hold, as numbers and tensors
checkpoint_file.py                  written whole or not at all; those that do not read back well are told
"""

"""A few steps of a cell under torch.profiler, read from the raw events into a Profile.

profiled_window.py    ProfiledWindow: opens the profiler with the cell, closes it some steps later
quiet_stderr.py       what the profiler prints to descriptor 2 stays out of the notebook
kineto_columns.py     raw events as numpy columns, with parents and self time; activity_kind.py: of which kind each is
nesting.py            which event encloses which
inheritance.py        what events inherit from the ranges round them
attribution.py        phase and module of every event; backward by the module of its forward
kept_steps.py         the steps a trace is read for: warm-up cut off
profiled_events.py    the events with phase, module and kept part of each: tables and views read from it
op_table.py           rows of (phase, module, op) per step
step_timing.py        step time, spread and phase shares, from the marks; phase_words.py: phases in words
profile_options.py    what a profile looks into beyond its default
op_inputs.py          shapes, dtypes and values each operation was called with
op_families.py        which operations belong together, and FLOPs an element
op_formulas.py        FLOPs and bytes of one call
contractions.py       the same for matrix products, convolutions, attention, recurrent layers
op_cost.py            FLOPs and bytes of operations and modules, per step
roofline.py           their rates against this machine's measured peaks
user_lines.py         which line of the user's code runs when, written into the trace
line_cost.py          LineCost: the line that led to each operation
memory_use.py         MemoryUse: bytes over the profiled steps, from the profiler's allocations and the CUDA allocator
compilation.py        graphs, recompilations and graph breaks; reason and line in what dynamo says
compile_watch.py      listens to dynamo while the cell runs
loader_time.py        time of each transform, in the loader's workers too
loader_watch.py       watches the DataLoaders while the cell runs
pipeline_timer.py     times the stages of one batch, here or in a worker
whole_run.py          settings, page faults, unused graphs and loader starts of the whole run
synchronisations.py   where the code waits for the device on the quiet: those calls are counted and timed while the cell runs
device_work.py        kernels and copies of a GPU, each with the call that launched it; intervals.py: their union
device_activity.py    kernels, copies, idle time of a GPU; reading_device_activity.py reads it
completeness.py       whether the profiler lost something
findings.py           Finding: what a rule of accel.diagnosis found; Findings: all of them, as a result
profile_data.py       ProfileData: all that was found out, what diff, tables and trace file read
profile.py            Profile, which can be asked for them, and build_profile; `accel.views` shows it
profile_notes.py      what a reader must know before believing one
profile_diff.py       ProfileDiff: two profiles side by side, and what replaced what
compared_ops.py       their operations, by phase and module
profile_tables.py     Profile as data frames, by kind
timeline.py           the profiled steps as slices in rows and lanes, to be drawn
timeline_rows.py      which row and lane each event lies in
chrome_trace.py       the profiled steps as a file for Perfetto
"""

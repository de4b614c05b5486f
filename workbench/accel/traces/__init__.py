"""torch.profiler traces from anywhere, read into the same report as a profile of this notebook.

opening.py           open_trace: a file, several, or a folder of ranks
trace_bytes.py       the file's bytes in pieces, unpacked
event_batches.py     events in batches, in bounded memory, past damage
trace_event.py       one event, typed
event_table.py       what stays of the events: numpy columns
damage.py            what was wrong, counted
trace_columns.py     the same columns that a live profile is read into; events that overlap, made to nest
outermost_work.py    which phase torch's own names tell
foreign_phases.py    phases and steps of a trace that accel did not record
trace_timing.py      step times and phase shares
trace_source.py      file, machine, rank; which other tool wrote it
trace_profile.py     TraceProfile: the report on one file
rank_facts.py        what the comparison needs of one rank, and what that spent on talking to others
aligned_calls.py     the same collective on all ranks
reading_ranks.py     several files compared; the straggler
ranks_report.py      RanksReport
"""

from accel.traces.opening import open_trace

__all__ = ["open_trace"]

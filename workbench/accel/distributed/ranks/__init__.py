"""Ranks as processes: started warm on CPUs of their own, asked, watched, and ended with one clear error.

warm_ranks.py · rank_process.py         children (processes/) with CPUs of their own, kept warm
rank_pool.py                            RankPool, which calls functions in them
rank_run.py · rank_answers.py           one run: send, watch, stop; wait for the answers
failed_run.py                           which rank caused a failure, and where the others stood
cpus_of_ranks.py                        which CPUs they get, in a run as in a trial
rank_environment.py                     the variables that a rank has of the kernel
room_for_ranks.py                       memory and CPUs for so many ranks, before they are started
rank_page.py · rank_messages.py         what they say to each other
rank_output.py · rank_prints.py         what they print
rank_freshness.py · process_state.py    whether one is as a fresh one after a cell, and by what that is known
process_group.py                        what they exchange gradients in; errors that are another rank's fault
called_function.py                      a function as a cell that calls it
rank_devices.py                         the backend, and the GPU of each rank; why not, in words
rank_main.py                            the rank's side
bare_all_reduces.py · device_clocks.py  what a rank's link does alone, by which clock
step_lane.py · resident_memory.py       what a rank says of its steps and its memory
"""

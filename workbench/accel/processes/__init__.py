"""Processes of accel's own: workers of trials, ranks, and those that measure, all of one kind.

A child is a fresh interpreter on a socket that it inherits, over which it answers in typed JSON. It has a folder that goes with
it, imports torch only when its CPUs and variables are set, ends with the kernel (and before it when memory runs out), and is
ended with all that it started.

child.py          as the kernel sees it: start, messages, output, where it stands, how it ended, its end
child_main.py     what it does first, in the process itself
channel.py        messages over the socket
failure.py        what raised in it, as a message, and what to do when memory ran out
spawner.py        the thread that starts all of them
process_tree.py   a process and all that it started, ended together
kernel_folder.py  folders that the kernel removes, or the next one where this one was killed
starting_mask.py  the CPUs that this process could use before OpenMP narrowed its mask
"""

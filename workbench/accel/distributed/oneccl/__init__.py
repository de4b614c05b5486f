"""oneCCL for ranks on the CPUs of one machine: optional, experimental, and built where it is asked for.

%accel oneccl --build           download Intel's wheels into the user's cache, compile the backend, keep 13 MB
%%accel ddp -n 2 --backend ccl  train over it

ccl_backend.cpp                 the backend of torch.distributed, in C++
built.py                        where a build lies, and why there is none
building.py                     making one
limits.py                       what is refused with it: PowerSGD, fully_shard
joining.py                      in a rank: load it, meet the others; all take it, or none
leftovers.py                    what a rank that was killed leaves in /dev/shm
state.py                        what `%accel oneccl` shows
"""

"""What shows in a process that it was started with something: the OpenMP runtime's settings, its threads, the allocator."""

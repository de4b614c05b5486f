from process_as_it_was import one_thread_and_the_usual_allocator, the_process_as_it_was  # noqa: F401

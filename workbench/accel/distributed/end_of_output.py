"""The line that a rank prints when a run is over: what comes after it belongs to the next."""

END_OF_OUTPUT = "\x1eaccel: end of output\x1e"

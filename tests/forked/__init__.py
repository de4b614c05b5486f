"""Children of tests are real processes, forked from an interpreter that has imported torch: a start takes 20 ms, not 3 s."""

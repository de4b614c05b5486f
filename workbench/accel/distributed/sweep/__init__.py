"""The same cell on several numbers of ranks and threads, one after the other.

sweep_plan.py · sweep_run.py  which configurations a sweep runs; one after the other, and what was measured stays
"""

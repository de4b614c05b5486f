"""A plan of several ranks as one variant of a trial.

trial_group.py · trial_rank.py  a trial of `ddp`: ranks that are stepped as one worker
trial_answers.py                what they answer, as one
evaluation_clock.py             what of a run's time was evaluation, which a time of training leaves out
rank_quality.py                 how good the trained model is, reported by rank 0 at the end of a run
"""

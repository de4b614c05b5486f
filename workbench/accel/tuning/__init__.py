"""Search for the best plan: what to measure next, from what was measured. It starts no process and knows no clock.

candidates.py   what a plan may be made of, and what is expected of each part
gain_model.py   what each part adds, alone and next to another: a linear model with uncertainty
race.py         asks for plans, takes their gains, and says which is best
"""

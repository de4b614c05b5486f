"""How a training would go on more ranks than there are: all-reduces as a model of links, steps with overlap, and forecasts.

links.py       what a link carries, and how long rings and trees take over it
steps.py       one step: buckets that are exchanged while the backward pass goes on
yardstick.py   how fast threads compute here and there, and what of an exchange nothing hides
calibration.py links from measured all-reduces or from measured trainings
forecast.py    a training on ever more machines: accel.what_if
"""

"""What ranks exchange: recorded call by call, measured, with advice.

communication_report.py    what it cost; _figures: the arithmetic, _advice: which knob, _view: the picture
straggler.py               the rank that the others wait for
communication_recorder.py  --communication: some steps watched, bucket by bucket
communication_times.py     what a rank saw
"""

"""What ranks exchange: recorded call by call, measured, with advice.

communication_report.py    what it cost; communication_figures.py: the arithmetic;
                           communication_advice.py: which knob; how it looks: accel/views/communication.py
straggler.py               the rank that the others wait for
communication_recorder.py  --communication: some steps watched, bucket by bucket
communication_times.py     what a rank saw
"""

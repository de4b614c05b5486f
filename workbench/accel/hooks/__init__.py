"""How training is heard: its events (`training_loop.py`), torch's attributes replaced for a while, the optimizer that leads."""

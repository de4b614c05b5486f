"""How the parts of a lab look: guesses, tables of the course, checked exercises, recorded results, and diagrams.

diagram.py, with boxes_layout.py, boxes_routes.py, boxes_sides.py, boxes_labels.py, boxes_drawing.py and
lanes_drawing.py, writes SVG; svg_parts.py is the pen.
"""

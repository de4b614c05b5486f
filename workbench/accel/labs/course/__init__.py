"""A lab as a notebook has it: guesses, tables of the course, diagrams, exercises; and what a student has done so far.

asked.py            what the words after `%accel labs` ask for
chapter.py          what a chapter's file holds: labs/chapters/05.yaml
lab.py              Lab: what `accel.lab(5)` gives to the notebook
guess.py            a student's number before the measurement, and both after it
reference_table.py  figures of the course, with the student's own in the same rows
recorded.py         a result of hardware that a reader may lack
diagram.py          boxes with arrows, and lanes: drawn from the chapter's file
grading.py          an exercise checked: what was seen, what was asked, a hint
lab_files.py        the notebooks: listed, and copied into a student's folder
lab_lint.py         what is wrong with a lab or a quiz; the skeleton of a new one
standing.py         points of a student, over all chapters
submission.py       what a student hands in, and a class of them as a table
fetching.py         data sets from the network, for those who ask for it
"""

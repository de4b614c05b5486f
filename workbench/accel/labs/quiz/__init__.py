"""Quizzes: questions in YAML, a student's answers, and the score; docs/how-to/teach.md has the form of a file.

quiz.py         Quiz: a chapter's questions as one student has them; Score
quiz_file.py    reads a file, and says what is wrong with it
questions.py    the kinds of question: what the page may know, and how an answer is marked
own_profile.py  questions about the student's own last profile
"""

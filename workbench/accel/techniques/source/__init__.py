"""The user's code and names, and our own modules as plain code for a user's cell."""

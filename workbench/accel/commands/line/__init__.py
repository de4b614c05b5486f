"""A line that was typed: taken apart, completed, its result put into a variable, its waiting shown."""

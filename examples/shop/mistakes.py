"""What a person at the keyboard got wrong.

It is shown as one line that says what to type instead, never as a traceback.
"""


class Mistake(Exception):
    """The message names what is wrong and what to do about it."""

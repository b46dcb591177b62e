"""A site of questions and answers, each page of it a read: `python -m examples.qa --help` lists what it does."""

"""What the tests of engines and of users' own code import; nothing here is imported by the library itself.

Knows everything of oneread, pytest and hypothesis. The law is "Users' tests" of the decisions
page.
"""

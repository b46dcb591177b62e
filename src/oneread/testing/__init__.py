"""What the tests of engines and of users' own code import; nothing here is imported by the library itself.

See "Users' tests" of the decisions page.
"""

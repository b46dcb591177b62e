"""The engines: one for each kind of store, all answering the same requests.

Imported only by `oneread.connect` and `oneread.testing`. See "The store contract" of the architecture page.
"""

"""The engines: one for each kind of store, all answering the same requests.

Knows rows, requests and its own client. Must not know models or plans. Imported only by `oneread.connect` and
`oneread.testing`. The law is "The store contract" of the architecture page.
"""

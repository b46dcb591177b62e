"""Generated twins of the asynchronous modules beside this folder, and nothing else: see tools/unasync.py."""

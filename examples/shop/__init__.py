"""A wholesaler's purchases, in which every page is one read: `python -m examples.shop --help` lists what it does."""

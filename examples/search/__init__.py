"""A search engine that is kept equal to a store, while everything is killed."""

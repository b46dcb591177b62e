"""Costs: what an operation may ask of a store, from the declarations alone; budgets; and what that takes in time.

Knows declarations, bounds and measured numbers. Must not know engines or faces. The law is docs/explanation/costs.md.
"""

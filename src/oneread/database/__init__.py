"""The public verbs as plans and their two faces.

Knows schemas, views and plans. Must not know which engine or cache is underneath. The law is the API page.
"""

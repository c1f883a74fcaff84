"""The commented configuration file that ``skybridge init`` writes, made of a few choices.

========= =====================================================================
choices   the choices, their defaults, and the secret files that they need
sections  the sections that depend on a choice: active, or commented out
text      the whole file: ``skybridge.yaml`` with these sections in its slots
trial     checks an answer before the file exists
========= =====================================================================

What is not chosen stays in the file as a comment, so that a reader can take the comment signs away.
"""

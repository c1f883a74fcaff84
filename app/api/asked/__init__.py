"""Shell. What several resources ask of a service, as small protocols grouped by who answers them.

A part is given by its kind (``http.given``), and a handler names the kinds that it uses (``access.operations.uses``).
What one resource alone asks for is declared in the folder of that resource.
"""

"""Shell. The protocols through which several resources use a service, one module for each provider.

A part is looked up by its protocol (``http.given``). A handler names the protocols that it uses
(``access.parts.uses``). A protocol that one resource alone uses is declared in the folder of that
resource.
"""

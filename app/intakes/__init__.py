"""Pure. Verify a webhook request and compute the event that it becomes. Values in, a verdict out.

======================= ==================================================================
arrival                 the request, and the JSON document that pointers refer to
verification            the ways to verify a request; ``Unverified`` is answered 401
mapping                 templates over headers and body; ``Unmappable`` is answered 422
adapters, github,       the attributes that the CloudEvents project's adapters define for the
gitlab                  events of GitHub and GitLab
presets                 one table: publisher, verification, event, what is signed
compiled                an intake of the configuration in the form that serves requests
======================= ==================================================================
"""

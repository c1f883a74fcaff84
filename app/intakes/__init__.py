"""Pure. A request of any webhook, verified and turned into an event: values in, verdict out.

======================  ==================================================================
arrival                 the request, and the JSON document that pointers look into
verification            the ways to verify it; ``Unverified`` is 401
mapping                 templates over headers and body; ``Unmappable`` is 422
adapters, github,       the attributes that the CloudEvents project's adapters give to the events of
gitlab                  GitHub and GitLab
presets                 one table: publisher, verification, event, what is signed
compiled                an intake of the configuration, ready to be asked
======================  ==================================================================
"""

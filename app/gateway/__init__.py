"""Shell. The events listener: the hot path from a socket to a log and back, and the server under every listener.

A request goes down this list, its answer comes up again:

======================  ==========================================================================
server, port, tls, guard
                        a listener's life, its port, its certificates; is uvicorn as we know it
listener                what its connections share: limits, and how much of them is taken
httptools_protocol      what travels on a connection; which requests take the short way
connection              its bounds, its deadlines, its end
pipeline, flow, watch   answers in order; who holds the reading; how long it may stay as it is
asgi                    the same resource for requests that are no events
resource                ``/events``: methods, handshake, what is refused before it is read
publish, conclude       one request: decode, plan, submit; and the fates of its events as an answer
request, answers, wire  the values that pass between them, and their bytes
limits, content_coding  the bounds; bodies out of gzip and deflate
======================  ==========================================================================
"""

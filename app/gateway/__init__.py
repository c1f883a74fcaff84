"""Shell. The events listener: the hot path from a socket to a log and back, and nothing else.

A request flows down this list, and its answer flows up again:

======================  ==========================================================================
server, tls, guard      the listener's life, its certificates, and whether uvicorn is as we know it
httptools_protocol      a connection: bounds, deadlines, which requests are hot
pipeline, flow, watch   a connection's answers in order; who holds its reading; how long it may wait
asgi                    the same resource for every other request and every other server
resource                ``/events``: methods, handshake, encodings
publish                 one request: decode, plan, submit, answer
request, answers, wire  the values that pass between them, and their bytes
======================  ==========================================================================
"""

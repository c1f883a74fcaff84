"""Shell. The events listener: the hot path from a socket to a log and back, and the server under every listener.

A request goes down this list, its answer comes up again:

==========================  ======================================================================
server, port, tls           a listener's life, its port, its certificates
uvicorn_adapter             what is used of uvicorn, and which versions are known
listener                    the limits that its connections share, and their use
httptools_protocol          the bytes of a connection; which requests take the hot path
connection                  its bounds, its deadlines, its end
door, issuers               who sends, by the head of a request; the keys of token issuers
request_queue               the requests of a connection, answered in order
read_control, timeouts      when reading pauses; how long a connection may stay as it is
asgi                        the same resource for requests that are no events
resource                    ``/events``: methods, handshake, early refusals
intakes, repeats            ``/in/{name}``: a webhook verified and made an event, once
publish, conclude           one request: decode, plan, submit; and its outcomes as an answer
request, answers, http_wire the values between them, and their bytes
limits, content_coding      the bounds; bodies out of gzip and deflate
==========================  ======================================================================
"""

"""Shell. The events listener: the fast path from a socket to a log and back. Every other listener
uses its server, too.

A request passes these modules from top to bottom, and its answer passes them from bottom to top:

=========================== ======================================================================
server, port, tls           start and stop of a listener, its port, its certificates
uvicorn_adapter             the parts of uvicorn that are used, and the known versions
listener                    the limits that the connections of a listener share, and their use
httptools_protocol          the bytes of a connection; the choice of the fast path
head_layout                 heads that senders repeat, each compiled to one pattern
connection                  the bounds, the deadlines and the end of a connection
door, issuers               authentication by the head of a request; the keys of token issuers
request_queue               the requests of a connection, answered in order
read_control, timeouts      pauses of reading; time-outs of a connection
asgi                        the same resource for requests that carry no events
resource                    ``/events``: methods, handshake, early refusals
intakes, repeats            ``/in/{name}``: webhooks that are verified and become one event each
publish, conclude           one request: decode, plan, submit; and its results as an answer
row_plan                    the records of requests whose head is compiled
request, answers, http_wire the values that these modules exchange, and their bytes
limits, content_coding      the bounds; decoding of gzip and deflate bodies
=========================== ======================================================================
"""

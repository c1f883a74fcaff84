"""TLS from PEM files: what is made of them is made whole, tried, and then swapped.

faults   what is wrong with a certificate, a key or a bundle of authorities, for ``check`` and for errors
tried    the context that is in use, and the next one when its files change; none is changed in place
regular  regular files, and copies of them; pipes and devices are refused
copies   copies of tried files, for libraries that read files themselves
"""

from app.tls.copies import Copies
from app.tls.faults import PemFault, Pems, faults_of
from app.tls.regular import NotRegular, read_regular, read_text
from app.tls.tried import ClientContext, Tried, end_in_use, mark_of, server_context

__all__ = [
    "ClientContext",
    "Copies",
    "NotRegular",
    "PemFault",
    "Pems",
    "Tried",
    "end_in_use",
    "faults_of",
    "mark_of",
    "read_regular",
    "read_text",
    "server_context",
]

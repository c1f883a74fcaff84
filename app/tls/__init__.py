"""TLS from PEM files: an object such as a TLS context is rebuilt from all files, checked, and then
put in use.

- ``faults``: Faults of a certificate, a key or a bundle of authorities, for ``check`` and for
  errors.
- ``tried``: The context in use, replaced when its files change; no context is changed in place.
- ``regular``: Regular files and copies of them; pipes and devices are refused.
- ``copies``: Copies of valid files, for libraries that read files themselves.
"""

from app.tls.copies import Copies
from app.tls.faults import PemFault, Pems, faults_of
from app.tls.regular import NotRegular, read_regular, read_text
from app.tls.tried import ClientContext, PemReloader, end_in_use, mark_of, server_context

__all__ = [
    "ClientContext",
    "Copies",
    "NotRegular",
    "PemFault",
    "PemReloader",
    "Pems",
    "end_in_use",
    "faults_of",
    "mark_of",
    "read_regular",
    "read_text",
    "server_context",
]

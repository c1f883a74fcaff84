"""An AsyncAPI 3 document of a configuration: its topics, who sends to them, who reads them. Pure.

========= ====================================================================================
document  the whole: operations of routes and subscriptions, as Skybridge performs them
servers   the brokers, as a client finds them; never a credential
channels  a channel for each topic of a broker
messages  an event in each content mode, as the binding of each kind of broker writes it
========= ====================================================================================
"""

from app.config.asyncapi.document import document

__all__ = ["document"]

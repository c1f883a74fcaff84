"""The AsyncAPI 3 document of a configuration: its topics, and the routes and subscriptions that
write and read them. Pure.

========= ====================================================================================
document  the whole document, with the operations of routes and subscriptions
servers   the brokers, as a client reaches them, without credentials
channels  one channel per topic of a broker
messages  an event in each content mode, by the binding of each kind of broker
========= ====================================================================================
"""

from app.config.asyncapi.document import document

__all__ = ["document"]

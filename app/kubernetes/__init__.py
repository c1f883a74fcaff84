"""The role ``operator``: subscriptions as Kubernetes objects, in the namespace of the application that gets the events.

One process, the leader, watches the objects of the listed namespaces. It writes each one as a subscription through
the admin API, and reports the state of the subscription on the object. It delivers no event, so its end disturbs no
delivery. Only this package imports ``kubernetes_asyncio`` (the extra ``kubernetes``).
"""

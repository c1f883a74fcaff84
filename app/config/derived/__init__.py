"""Shell. Values derived from the model: credentials, logins of Kafka listeners, kinds of brokers,
resources of routes.
"""

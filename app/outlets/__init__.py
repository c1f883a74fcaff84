"""Shape the request of a subscription for a target that does not speak CloudEvents. Pure: values in, a request out.

Only the request is shaped. The event stays unchanged in the log, in dead letters and for every other subscription.

==========  ==================================================================================
values      placeholders: which value of an event each one names, as JSON text
places      one template for one place of a request, with the escaping of that place
body        JSON bodies, forms, texts, and the data of the event as it came
request     method, path, query, headers and body together: the ``CompiledRequest``
success     which answers mean that the target has taken the event
presets     the requests and answers of Slack, Teams, Discord, PagerDuty, Jira, Elasticsearch, Splunk
preview     the request that would be sent, with its secrets hidden
compiled    the ``Outlet`` of a subscription, ready to shape
==========  ==================================================================================
"""

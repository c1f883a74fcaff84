"""Shell. The demo's parts: the stage (service and endpoints), the ledger, and what is shown of it.

stage      the configuration, the service as a child process, three endpoints that misbehave
ledger     pure: what was sent, accepted and delivered, and whether the account holds
lines      an event's way as one line, the account as a table
"""

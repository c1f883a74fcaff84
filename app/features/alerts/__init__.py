"""Shell. Alerts: report what needs a person to channels such as Slack or PagerDuty."""

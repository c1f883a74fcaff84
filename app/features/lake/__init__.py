"""From the section ``pipeline`` to the jobs on Spark."""

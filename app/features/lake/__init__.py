"""The settings of the Spark jobs, from the section ``pipeline``."""

"""Shell. The sections of the file as pydantic models, with the meaning and default of each setting.
``config`` is the root.
"""

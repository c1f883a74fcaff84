"""Shell. The YAML file: its model, its reader, its faults.

``load`` reads ``document`` (values with their lines), puts ``secrets`` and ``overrides`` into it, and
makes the ``model`` of it, or a BadConfiguration with every ``finding`` that ``problems`` translates.
``lint`` then looks for mistakes in a valid file. ``schema`` and ``skybridge.yaml``, a first file, help to write it.
"""

"""Shell. The one YAML file: what may stand in it, how it is read, what is wrong with it.

``load`` reads ``document`` (values with their lines), puts ``secrets`` and ``overrides`` into it, and
makes the ``model`` of it, or a BadConfiguration with every ``finding`` that ``problems`` explains.
``lint`` then asks what a valid file may still get wrong. ``schema`` and ``template`` help to write it.
"""

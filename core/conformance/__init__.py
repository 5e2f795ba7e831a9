"""The contract of a replay memory as rules that anybody's memory can be held to.

`pytest --engram-memory=module:factory` does it (see `plugin`); `rules.check` is the same without
pytest. Nothing here needs more than numpy, and nothing else of this package imports it.
"""

"""On how many random cases each property is tried."""

from hypothesis import settings

settings.register_profile("hundreds", max_examples=400, deadline=None)
settings.load_profile("hundreds")

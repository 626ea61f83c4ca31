"""The number of examples on which Hypothesis tries each property."""

import os

from hypothesis import Phase, settings

settings.register_profile("hundreds", max_examples=400, deadline=None)
# It does not look for the smallest example that fails.
settings.register_profile(
    "first_failure",
    settings.get_profile("hundreds"),
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "hundreds"))

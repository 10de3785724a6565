"""Settings of the pure tests of kit/."""

from __future__ import annotations

import hypothesis

# Two cores that are shared with an API server: slowness is no finding here.
hypothesis.settings.register_profile(
    "shared machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], max_examples=60
)
hypothesis.settings.load_profile("shared machine")

"""NovaAPI: the compute API."""

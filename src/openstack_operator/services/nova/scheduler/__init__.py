"""NovaScheduler: chooses hosts for servers."""

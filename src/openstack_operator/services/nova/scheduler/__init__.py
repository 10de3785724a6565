"""NovaScheduler: chooses hosts for servers, and maps new hosts to their cells."""

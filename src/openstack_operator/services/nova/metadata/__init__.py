"""NovaMetadata: what instances ask at 169.254.169.254, for all cells or for one."""

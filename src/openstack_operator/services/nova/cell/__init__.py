"""NovaCell: one cell with its conductor, consoles, metadata and computes."""

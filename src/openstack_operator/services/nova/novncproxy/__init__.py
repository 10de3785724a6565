"""NovaNoVNCProxy: consoles of a cell's servers in the browser."""

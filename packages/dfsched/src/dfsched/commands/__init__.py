"""One module per sub-command of `dfsched`."""

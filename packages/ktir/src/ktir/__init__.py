"""Kernel Tile IR: typed SSA core, MLIR text in and out, verification, layouts."""

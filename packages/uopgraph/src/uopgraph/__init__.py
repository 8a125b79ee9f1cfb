"""Immutable, hash-consed operation graph with pattern rewriting and symbolic simplification."""

"""The NumPy reference executor: runs a Schedule, and evaluates tensor expressions over storage."""

from rangeify.executor.execute import InputLike, run, with_values
from rangeify.executor.expression import evaluate_expression

__all__ = ["InputLike", "evaluate_expression", "run", "with_values"]

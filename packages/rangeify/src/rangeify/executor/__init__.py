"""The NumPy reference executor: runs a Schedule, and evaluates tensor expressions over storage."""

from rangeify.executor.expression import evaluate_expression
from rangeify.executor.execute import InputLike, run

__all__ = ["InputLike", "evaluate_expression", "run"]

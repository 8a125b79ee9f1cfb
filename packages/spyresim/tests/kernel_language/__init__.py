"""A small language of valid KTIR programs: text, and a meaning in plain NumPy that shares no code with spyresim.

- `numbers`: element types, exact integer arithmetic on Python's integers, rounding, IEEE minimum and maximum;
- `values`: typed values, the writer of text, the environment of one tile;
- `scalars`: statements that work element by element, casts, and scalar code;
- `tensors`: statements on whole tensors (structured operations, shapes, slices, products, reductions);
- `regions`: loops and branches;
- `places`: views, access tiles, gathers, scratchpads, and what tiles tell each other;
- `strategies`: Hypothesis strategies that grow whole programs.

A statement is one class with `emit` (its KTIR) and `run` (its meaning for one tile).
"""

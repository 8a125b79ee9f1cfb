"""A small language of tensor programs, and their meaning in plain NumPy.

- `program`: a program as text, with facts about what it does to storage;
- `growing`: the state of a program that is being written: names, shapes, storage, views;
- `statements`: one function a kind of statement;
- `strategies`: Hypothesis strategies that grow whole programs;
- `on_arrays`: the oracle. The text runs on NumPy arrays, and every slice is copied;
- `on_tensors`: the same text on lazy tensors.

Nothing but `on_tensors` imports the packages under test. All results are exact: integers wrap, and what is summed
in floating point was rounded to small integers first.
"""

"""Drawn calls of the Python array API standard, and the comparison of two namespaces.

- `drawing`: dtypes, values, shapes, arrays, axes;
- `calls`: one drawn call per function;
- `table`: which call belongs to which function;
- `comparison`: the same call on both namespaces, and when two results are the same.
"""

import array_api_strict

# the peer speaks the version of the standard that we do
array_api_strict.set_array_api_strict_flags(api_version="2024.12")

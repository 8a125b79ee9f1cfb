"""`wrap-program-dfir`: symbol definitions move beside the program (dataflowir spec 3.12).

Takes program modules with one function. Leaves a private declaration of the body, a public function with
the program's arguments that declares the symbols and calls the body, and the body without arguments in a
module of its own. A program that computes with its arguments (coordinator values) keeps one level.

Before::

    module @p { func.func @p(%a: index) attributes {grid = [2 : index]} {
      symbol.create_id %a {symbol_id = -1 : si64} : index
      dataflow.program_unit ... } }

After::

    module @p {
      func.func private @p_body()
      func.func @p(%a: index) { symbol.create_id %a {symbol_id = -1 : si64} : index  call @p_body() ... }
      module { func.func @p_body() attributes {grid = [2 : index]} { dataflow.program_unit ... } }
    }

>>> from dfsched.passes.examples import after, kernel
>>> after("wrap-program-dfir", kernel(),
... r"func.func|symbol.create")
func.func @k(%x: index, %y: index) attributes {grid = [1]} {
symbol.create_id %x {symbol_id = -1 : si64} : index
symbol.create_id %y {symbol_id = -2 : si64} : index
func.func private @local_schedule_0(index, index)
func.func private @local_schedule_0_body()
func.func @local_schedule_0(%x: index, %y: index) {
symbol.create_id %x {symbol_id = -1 : si64} : index
symbol.create_id %y {symbol_id = -2 : si64} : index
symbol.create_id %0 {symbol_id = -3 : si64} : index
symbol.create_id %1 {symbol_id = -4 : si64} : index
func.func @local_schedule_0_body() attributes {grid = [1]} {
%10 = symbol.create_symbol {SymbolId = -3 : i64} : index
%13 = symbol.create_symbol {SymbolId = -4 : i64} : index
"""

from __future__ import annotations

from dfsched.lowering.wrap import wrap_programs
from dfsched.passes.base import Group, Pass, PassContext
from ktir.dialects.builtin import Module

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Wrap every program; running it twice changes nothing."""
    return wrap_programs(module)


PASS = Pass("wrap-program-dfir", Group.BACKEND, run, "symbol definitions beside the body of each program")

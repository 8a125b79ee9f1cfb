"""The whole road: a Schedule compiled for a dataflow accelerator and launched. Needs ``rangeify[spyre]``."""

from rangeify.spyre.executable import Executable, compile

__all__ = ["Executable", "compile"]

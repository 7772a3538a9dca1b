"""PTX on a CPU: reads PTX text, ours or anybody's, and executes it in NumPy.

`emulate` runs a kernel, `TensorMap` makes tensor maps, `Report` and `Finding` say what happened.
"""

from __future__ import annotations

from tkc.emulator.launch import emulate
from tkc.emulator.parameters import Poisoned, Struct, TensorMaps
from tkc.emulator.report import Finding, Report
from tkc.emulator.tensormap import TensorMap

__all__ = ["Finding", "Poisoned", "Report", "Struct", "TensorMap", "TensorMaps", "emulate"]

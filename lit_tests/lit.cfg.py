"""How real lit runs the files here: `lit lit_tests`, with the tools of the Python that runs it."""

import os
import sys
from pathlib import Path

config = globals()["config"]  # lit's, put there by lit

BIN = Path(sys.executable).parent

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from lit_format import Format  # noqa: E402

config.name = "tkc"
config.test_format = Format(execute_external=False)
config.suffixes = [".mlir", ".tk"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = str(Path(__file__).parent.parent / "out" / "lit")
config.environment["PATH"] = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
if (BIN / "ptxas").exists() or next(
    BIN.parent.glob("lib/python*/site-packages/nvidia/*/bin/ptxas"), None
):
    config.available_features.add("ptxas")
if os.path.exists("/dev/nvidiactl"):
    config.available_features.add("gpu")

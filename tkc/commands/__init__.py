"""The command line's commands: one module each, holding a click command called `command`."""

COMMANDS = {
    "compile": ("tkc.commands.compile", "compile a tile program to PTX, a cubin or IR"),
    "check": ("tkc.commands.check", "report what is wrong with a program, and what it uses"),
    "explain": ("tkc.commands.explain", "say why each synchronisation is there, or is gone"),
    "emulate": (
        "tkc.commands.emulate",
        "run a kernel, ours or any PTX, on the CPU and report what is wrong",
    ),
    "run": ("tkc.commands.run", "run a kernel on the GPU here"),
    "opt": ("tkc.commands.opt", "run passes on IR text (also tkc-opt)"),
    "fmt": ("tkc.commands.fmt", "put programs into the one style"),
    "completion": ("tkc.commands.completion", "print a script that completes words in a shell"),
    "facts": ("tkc.commands.facts", "print what is known of a target or an instruction"),
}
"""Command name → the module that holds its click command, and a line for the list of commands."""

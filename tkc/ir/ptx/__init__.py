"""PTX, typed: one operation for each instruction, each of which prints its own line.

`registers` has the types, `values` constants and parts of tuples, `kernel` the kernel and what it finds, `control`
loops and branches, `instruction` the class of each row, `emit` the builder, `dialect` all of it for the parser. The
other files are the families of `tkc.ir.isa.instructions`.
"""

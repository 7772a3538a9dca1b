// What the verifiers of the ptx level refuse, each on its line.
// RUN: tkc-opt %s --split-input-file --expect-errors

builtin.module {
  %a = ptx.imm {value = 1 : i64} : () -> (!ptx.reg<b32>)
  %b = ptx.imm {value = 1 : i64} : () -> (!ptx.reg<b64>)
  %c = ptx.imm {value = 4294967296 : i64} : () -> (!ptx.reg<b32>) // error: 4294967296 does not fit b32
  %w = ptx.mov %b {type = ".b64"} : (!ptx.reg<b64>) -> (!ptx.reg<b64>)
  %d = ptx.add %a, %w {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b64>) -> (!ptx.reg<b32>) // error: b is in b64, but add.u32 takes b32
  %e = ptx.add %a {type = ".u32"} : (!ptx.reg<b32>) -> (!ptx.reg<b32>) // error: takes a, b, but has 1
  %f = ptx.add %a, %a {type = ".u33"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>) // error: add has no type .u33
  ptx.print %a {format = "%g"} : (!ptx.reg<b32>) -> () // error: the format takes ['f64'], the arguments are ['b32']
  ptx.print %a {format = "%s"} : (!ptx.reg<b32>) -> () // error: no conversion %s
  %g = ptx.add %a, %a : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>) // error: add needs a type
}

// -----

builtin.module {
  %a = ptx.imm {value = 1 : i64} : () -> (!ptx.reg<b33>) // error: no register class b33
}

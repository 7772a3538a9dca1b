// Formatted output: a call of vprintf with the arguments in local memory as C lays them out; equal formats are kept once.
// RUN: tkc-opt %s | tkc-opt | filecheck %s --check-prefix=IR
// RUN: tkc-opt %s -p 'name-registers,check-target' -t ptx | filecheck %s

// IR: ptx.print %{{.*}}, %{{.*}} {format = "%d, %g{{.*}}"} : (!ptx.reg<b32>, !ptx.reg<f64>)

// CHECK: .extern .func (.param .b32 vprintf_r0) vprintf (.param .b64 vprintf_p0, .param .b64 vprintf_p1);
// CHECK-NEXT: .global .align 1 .b8 $format0[8] = {37, 100, 44, 32, 37, 103, 10, 0};
// CHECK-NOT: .global

builtin.module attributes {tkc.target = "sm_90a"} {
  ptx.kernel {sym_name = "k", params = [], reqntid = 32} do {
    %half = ptx.imm {value = 4602678819172646912} : () -> (!ptx.reg<f64>)
    %t = ptx.special {register = "%tid.x"} : () -> (!ptx.reg<b32>)
    // CHECK: .local .align 8 .b8 $arguments[16];
    // CHECK: st.local.b32 [$arguments+0], %r0;
    // CHECK-NEXT: st.local.b64 [$arguments+8], 0d3FE0000000000000;
    // CHECK-NEXT: mov.b64 %address, $format0;
    // CHECK: call ($printed), vprintf, ($format, $list);
    ptx.print %t, %half {format = "%d, %g\n"} : (!ptx.reg<b32>, !ptx.reg<f64>) -> ()
    // CHECK: st.local.b32 [$arguments+0], 7;
    // CHECK: mov.b64 %address, $format0;
    %seven = ptx.imm {value = 7} : () -> (!ptx.reg<b32>)
    ptx.print %seven, %half {format = "%d, %g\n"} : (!ptx.reg<b32>, !ptx.reg<f64>) -> ()
  }
}

// What the target has passes unchanged; what it lacks is refused by name.
// RUN: tkc-opt %s -p 'set-target{arch=sm_100a},check-target' | filecheck %s
// RUN: not tkc-opt %s -p 'set-target{arch=sm_90a},check-target' 2>&1 | filecheck %s --check-prefix=HOPPER

// CHECK: ptx.tcgen05.wait_ld
// HOPPER: error: 
// HOPPER-SAME: tcgen05
// HOPPER-SAME: sm_90a

builtin.module {
  ptx.kernel {sym_name = "k", params = [], reqntid = 32 : i64, contract = {}} do {
    ptx.tcgen05.wait_ld
  }
}

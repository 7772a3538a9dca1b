// With a limit, a wait looks at the clock after each attempt, says what it waits for, and traps.
// RUN: tkc-opt %s -p 'elect-single-thread,assign-shared,assign-tensor-memory,assign-registers,lower-stage-to-ptx{trap-hangs=5},name-registers' -t ptx | filecheck %s

// CHECK: .extern .func {{.*}} vprintf
// CHECK: mov.u64 %[[BEGAN:rd[0-9]+]], %globaltimer;
// CHECK: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %[[PASSED:p[0-9]+]], [%r{{[0-9]+}}+8], 0;
// CHECK-NEXT: @%[[PASSED]] bra
// CHECK-NEXT: mov.u64 %[[NOW:rd[0-9]+]], %globaltimer;
// CHECK-NEXT: sub.u64 %[[WAITED:rd[0-9]+]], %[[NOW]], %[[BEGAN]];
// CHECK-NEXT: setp.ge.u64 %{{p[0-9]+}}, %[[WAITED]], 5;
// CHECK: call ($printed), vprintf, ($format, $list);
// CHECK: trap;
// CHECK: @!%[[PASSED]] bra

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {requires = []}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %b = stage.barriers {sym_name = "never", depth = 2 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "work", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.mbarrier_wait %b, %one, %zero {by = "all", id = "w"} : (!stage.mbarriers, i32, i32)
    }
  }
}

// An elected thread prints; an assertion is a branch round a message and a trap. f32 is widened, as C does.
// RUN: tkc-opt %s -p 'elect-single-thread,assign-shared,assign-tensor-memory,assign-registers,lower-stage-to-ptx,name-registers' -t ptx | filecheck %s

// CHECK: .extern .func {{.*}} vprintf
// CHECK: elect.sync _|%[[ELECTED:p[0-9]+]], -1;
// CHECK: @!%{{p[0-9]+}} bra
// CHECK: .local .align 8 .b8 $arguments[8];
// CHECK: st.local.b32 [$arguments+0], 7;
// CHECK: call ($printed), vprintf, ($format, $list);
// CHECK-NOT: trap;
// CHECK: setp.lt.s32 %[[HOLDS:p[0-9]+]],
// CHECK: @%[[HOLDS]] bra
// CHECK: call ($printed), vprintf, ($format, $list);
// CHECK: trap;

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {requires = []}} do {
    %seven = stage.const {constant = 7 : i32} : () -> (i32)
    stage.role {sym_name = "work", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %lane = stage.identity {which = "lane"} : () -> (i32)
      stage.print %seven {format = "%d\n"} : (i32) -> ()
      %few = stage.arith %lane, %seven {kind = "lt"} : (i32, i32) -> (i1)
      stage.assert %few {told = "few", by = "all"} : (i1) -> ()
    }
  }
}

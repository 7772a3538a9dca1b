// Structured control prints as labels and branches; one instruction under a guard is predicated.
// RUN: tkc-opt %s | tkc-opt | filecheck %s --check-prefix=IR
// RUN: tkc-opt %s -p 'name-registers,check-target' -t ptx | filecheck %s

// IR: ptx.while %{{.*}} : (!ptx.reg<b32>) -> (!ptx.reg<b32>) do {
// IR: ptx.proceed %{{.*}} : (!ptx.reg<pred>)
// IR-NEXT: }, {

builtin.module attributes {tkc.target = "sm_90a"} {
  ptx.kernel {sym_name = "k", params = [{name = "n", kind = "u32"}], reqntid = 32} do {
    %zero = ptx.imm {value = 0} : () -> (!ptx.reg<b32>)
    %one = ptx.imm {value = 1} : () -> (!ptx.reg<b32>)
    // CHECK: ld.param.u32 [[N:%r[0-9]+]], [n];
    %n = ptx.param {param = "n"} : () -> (!ptx.reg<b32>)
    // CHECK: mov.u32 [[BAR:%r[0-9]+]], sm;
    %bar = ptx.shared_base : () -> (!ptx.reg<b32>)

    // CHECK: [[SPIN:\$L[0-9]+]]:
    // CHECK: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 [[DONE:%p[0-9]+]], [[[BAR]]+8], 0;
    // CHECK: @![[DONE]] bra [[SPIN]];
    ptx.repeat () do {
      %done = ptx.mbarrier.try_wait.parity %bar, %zero {sem = ".acquire", scope = ".cta", space = ".shared::cta", bar_offset = 8} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<pred>)
      ptx.until %done : (!ptx.reg<pred>)
    }

    // CHECK: setp.lt.u32 [[P:%p[0-9]+]], [[N]], 1;
    // CHECK: @[[P]] mbarrier.arrive.shared::cta.b64 _, [[[BAR]]];
    %p = ptx.setp %n, %one {compare = ".lt", type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<pred>)
    ptx.if %p : (!ptx.reg<pred>) do {
      ptx.mbarrier.arrive %bar {space = ".shared::cta"} : (!ptx.reg<b32>)
    }

    // CHECK: @![[P]] bra [[ELSE:\$L[0-9]+]];
    // CHECK: add.u32 [[R:%r[0-9]+]], [[N]], 1;
    // CHECK: bra [[END:\$L[0-9]+]];
    // CHECK: [[ELSE]]:
    // CHECK: sub.u32 [[R]], [[N]], 1;
    // CHECK: [[END]]:
    %r = ptx.if %p : (!ptx.reg<pred>) -> (!ptx.reg<b32>) do {
      %a = ptx.add %n, %one {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
      ptx.yield %a : (!ptx.reg<b32>)
    }, {
      %b = ptx.sub %n, %one {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
      ptx.yield %b : (!ptx.reg<b32>)
    }

    // CHECK: [[TOP:\$L[0-9]+]]:
    // CHECK: setp.lt.u32 [[GO:%p[0-9]+]], [[R]], [[N]];
    // CHECK: @![[GO]] bra [[OUT:\$L[0-9]+]];
    // CHECK: add.u32 [[R]], [[R]], 1;
    // CHECK: bra [[TOP]];
    // CHECK: [[OUT]]:
    %w = ptx.while %r : (!ptx.reg<b32>) -> (!ptx.reg<b32>) do {
    ^bb0(%x : !ptx.reg<b32>):
      %go = ptx.setp %x, %n {compare = ".lt", type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<pred>)
      ptx.proceed %go : (!ptx.reg<pred>)
    }, {
    ^bb0(%y : !ptx.reg<b32>):
      %z = ptx.add %y, %one {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
      ptx.yield %z : (!ptx.reg<b32>)
    }
    // CHECK: st.shared.b32 [[[BAR]]+16], [[R]];
    ptx.st %bar, %w {space = ".shared", type = ".b32", offset = 16} : (!ptx.reg<b32>, !ptx.reg<b32>)
    // CHECK: ret;
  }
}

// Values that trade places each turn are moved through a temporary; a counter is added to in place.
// RUN: tkc-opt %s -p 'name-registers' | filecheck %s
// RUN: tkc-opt %s -p 'name-registers' | tkc-opt | filecheck %s
// RUN: tkc-opt %s -p 'name-registers,name-registers' | filecheck %s

builtin.module attributes {tkc.target = "sm_90a"} {
  ptx.kernel {sym_name = "k", params = [], reqntid = 32} do {
    %zero = ptx.imm {value = 0} : () -> (!ptx.reg<b32>)
    %one = ptx.imm {value = 1} : () -> (!ptx.reg<b32>)
    %eight = ptx.imm {value = 8} : () -> (!ptx.reg<b32>)
    // CHECK: ptx.mov %{{.*}} -> (!ptx.reg<b32, 0>)
    // CHECK-NEXT: %[[A0:.*]] = ptx.mov %{{.*}} : (!ptx.reg<b32>) -> (!ptx.reg<b32, [[A:[0-9]+]]>)
    // CHECK-NEXT: %[[B0:.*]] = ptx.mov %{{.*}} : (!ptx.reg<b32>) -> (!ptx.reg<b32, [[B:[0-9]+]]>)
    // CHECK-NEXT: %[[C0:.*]] = ptx.mov %{{.*}} : (!ptx.reg<b32>) -> (!ptx.reg<b32, [[C:[0-9]+]]>)
    %a, %b, %c = ptx.for %zero, %eight, %one, %zero, %one, %eight {type = ".s32", nonempty} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>) do {
    ^bb0(%i : !ptx.reg<b32>, %x : !ptx.reg<b32>, %y : !ptx.reg<b32>, %count : !ptx.reg<b32>):
      // CHECK: %[[NEXT:.*]] = ptx.add %{{.*}} : (!ptx.reg<b32, [[C]]>, !ptx.reg<b32>) -> (!ptx.reg<b32, [[C]]>)
      // CHECK-NEXT: %[[T:.*]] = ptx.mov %{{.*}} : (!ptx.reg<b32, [[B]]>) -> (!ptx.reg<b32, [[TEMPORARY:[0-9]+]]>)
      // CHECK-NEXT: %[[Y:.*]] = ptx.mov %{{.*}} : (!ptx.reg<b32, [[A]]>) -> (!ptx.reg<b32, [[B]]>)
      // CHECK-NEXT: %[[X:.*]] = ptx.mov %[[T]] {{.*}} : (!ptx.reg<b32, [[TEMPORARY]]>) -> (!ptx.reg<b32, [[A]]>)
      // CHECK-NEXT: ptx.yield %[[X]], %[[Y]], %[[NEXT]]
      %next = ptx.add %count, %one {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
      ptx.yield %y, %x, %next : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>)
    }
  }
}

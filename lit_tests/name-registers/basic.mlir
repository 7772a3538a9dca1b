// Every register has a number in its class; what a loop carries shares one number from start to end; constants have none.
// RUN: tkc-opt %s -p 'name-registers' | filecheck %s

// CHECK: ptx.imm {value = 5 : i64} : () -> (!ptx.reg<b32>)
// CHECK: ptx.special {register = "%tid.x"} : () -> (!ptx.reg<b32, 0>)
// CHECK: ptx.for {{.*}} : (!ptx.reg<b32, [[COUNT:[0-9]+]]>, !ptx.reg<b32, {{[0-9]+}}>, !ptx.reg<b32, {{[0-9]+}}>, !ptx.reg<b32, [[CARRIED:[0-9]+]]>
// CHECK-NEXT: ^bb0(%{{[0-9]+}}: !ptx.reg<b32, [[COUNT]]>, %{{[0-9]+}}: !ptx.reg<b32, [[CARRIED]]>

builtin.module attributes {tkc.target = "sm_100a"} {
  ptx.kernel {sym_name = "tma_copy", params = [{name = "M", kind = "s32"}, {name = "N", kind = "s32"}, {name = "X_map", kind = "tensormap"}, {name = "Y_map", kind = "tensormap"}], reqntid = 64 : i64, shared_bytes = 65608 : i64, contract = {}} do {
    %0 = ptx.imm {value = 5 : i64} : () -> (!ptx.reg<b32>)
    %1 = ptx.imm {value = 0 : i64} : () -> (!ptx.reg<b32>)
    %2 = ptx.imm {value = 1 : i64} : () -> (!ptx.reg<b32>)
    %3 = ptx.imm {value = -1 : i64} : () -> (!ptx.reg<b32>)
    %4 = ptx.imm {value = 127 : i64} : () -> (!ptx.reg<b32>)
    %5 = ptx.imm {value = 7 : i64} : () -> (!ptx.reg<b32>)
    %6 = ptx.imm {value = 63 : i64} : () -> (!ptx.reg<b32>)
    %7 = ptx.imm {value = 6 : i64} : () -> (!ptx.reg<b32>)
    %8 = ptx.imm {value = 3 : i64} : () -> (!ptx.reg<b32>)
    %9 = ptx.imm {value = 16384 : i64} : () -> (!ptx.reg<b32>)
    %10 = ptx.imm {value = 4 : i64} : () -> (!ptx.reg<b32>)
    %11 = ptx.imm {value = 14 : i64} : () -> (!ptx.reg<b32>)
    %12 = ptx.special {register = "%tid.x"} : () -> (!ptx.reg<b32>)
    %13 = ptx.special {register = "%laneid"} : () -> (!ptx.reg<b32>)
    %14 = ptx.shr %12, %0 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
    %15 = ptx.shared_base : () -> (!ptx.reg<b32>)
    %16 = ptx.param {param = "M"} : () -> (!ptx.reg<b32>)
    %17 = ptx.param {param = "N"} : () -> (!ptx.reg<b32>)
    %18 = ptx.setp %12, %1 {compare = ".eq", type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<pred>)
    ptx.if %18 : (!ptx.reg<pred>) do {
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65536 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65544 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65552 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65560 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65568 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65576 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65584 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>)
      ptx.mbarrier.init %15, %2 {space = ".shared::cta", bar_offset = 65592 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>)
      ptx.fence.mbarrier_init
    }
    ptx.barrier.cta.sync %1 : (!ptx.reg<b32>)
    %19 = ptx.setp %14, %1 {compare = ".eq", type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<pred>)
    %20 = ptx.param_address {param = "X_map"} : () -> (!ptx.reg<b64>)
    %21 = ptx.param_address {param = "Y_map"} : () -> (!ptx.reg<b64>)
    ptx.if %19 : (!ptx.reg<pred>) do {
      %22 = ptx.elect.sync %3 : (!ptx.reg<b32>) -> (!ptx.reg<pred>)
      ptx.if %22 : (!ptx.reg<pred>) do {
        %23 = ptx.add %16, %4 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %24 = ptx.shr %23, %5 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %25 = ptx.add %17, %6 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %26 = ptx.shr %25, %7 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %27 = ptx.mul.lo %24, %26 {type = ".s32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %28 = ptx.special {register = "%ctaid.x"} : () -> (!ptx.reg<b32>)
        %29 = ptx.special {register = "%nctaid.x"} : () -> (!ptx.reg<b32>)
        %30, %31 = ptx.for %28, %27, %29, %1, %1 {type = ".s32"} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>, !ptx.reg<b32>) do {
        ^bb0(%32: !ptx.reg<b32>, %33: !ptx.reg<b32>, %34: !ptx.reg<b32>):
          %35 = ptx.rem %32, %26 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %36 = ptx.div %32, %26 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %37 = ptx.xor %34, %2 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %38 = ptx.shl %33, %8 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %39 = ptx.add %15, %38 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          ptx.repeat () do {
            %40 = ptx.mbarrier.try_wait.parity %39, %37 {sem = ".acquire", scope = ".cta", space = ".shared::cta", bar_offset = 65568 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<pred>)
            ptx.until %40 : (!ptx.reg<pred>)
          }
          %41 = ptx.shl %33, %8 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %42 = ptx.add %15, %41 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          ptx.mbarrier.arrive.expect_tx %42, %9 {sem = ".release", scope = ".cta", space = ".shared::cta", bar_offset = 65536 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>)
          %43 = ptx.add %33, %2 {type = ".s32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %44 = ptx.setp %43, %10 {compare = ".eq", type = ".s32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<pred>)
          %45 = ptx.selp %1, %43, %44 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<pred>) -> (!ptx.reg<b32>)
          %46 = ptx.selp %2, %1, %44 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<pred>) -> (!ptx.reg<b32>)
          %47 = ptx.xor %34, %46 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %48 = ptx.shl %36, %5 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %49 = ptx.shl %35, %7 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %50 = ptx.shl %33, %11 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %51 = ptx.add %15, %50 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %52 = ptx.shl %33, %8 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %53 = ptx.add %15, %52 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          ptx.cp.async.bulk.tensor.load %51, %20, %49, %48, %53 {dim = ".2d", space = ".shared::cluster", bar_offset = 65536 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 1, 0, 0>} : (!ptx.reg<b32>, !ptx.reg<b64>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>)
          ptx.yield %45, %47 : (!ptx.reg<b32>, !ptx.reg<b32>)
        }
      }
    }, {
      %54 = ptx.elect.sync %3 : (!ptx.reg<b32>) -> (!ptx.reg<pred>)
      ptx.if %54 : (!ptx.reg<pred>) do {
        %55 = ptx.add %16, %4 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %56 = ptx.shr %55, %5 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %57 = ptx.add %17, %6 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %58 = ptx.shr %57, %7 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %59 = ptx.mul.lo %56, %58 {type = ".s32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
        %60 = ptx.special {register = "%ctaid.x"} : () -> (!ptx.reg<b32>)
        %61 = ptx.special {register = "%nctaid.x"} : () -> (!ptx.reg<b32>)
        %62, %63 = ptx.for %60, %59, %61, %1, %1 {type = ".s32"} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>, !ptx.reg<b32>) do {
        ^bb0(%64: !ptx.reg<b32>, %65: !ptx.reg<b32>, %66: !ptx.reg<b32>):
          %67 = ptx.rem %64, %58 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %68 = ptx.div %64, %58 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %69 = ptx.shl %65, %8 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %70 = ptx.add %15, %69 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          ptx.repeat () do {
            %71 = ptx.mbarrier.try_wait.parity %70, %66 {sem = ".acquire", scope = ".cta", space = ".shared::cta", bar_offset = 65536 : i64} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<pred>)
            ptx.until %71 : (!ptx.reg<pred>)
          }
          %72 = ptx.add %65, %2 {type = ".s32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %73 = ptx.setp %72, %10 {compare = ".eq", type = ".s32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<pred>)
          %74 = ptx.selp %1, %72, %73 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<pred>) -> (!ptx.reg<b32>)
          %75 = ptx.selp %2, %1, %73 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<pred>) -> (!ptx.reg<b32>)
          %76 = ptx.xor %66, %75 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %77 = ptx.shl %68, %5 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %78 = ptx.shl %67, %7 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %79 = ptx.shl %65, %11 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %80 = ptx.add %15, %79 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          ptx.cp.async.bulk.tensor.store %21, %78, %77, %80 {dim = ".2d", operandSegmentSizes = array<i32: 1, 2, 1, 0>} : (!ptx.reg<b64>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>)
          ptx.cp.async.bulk.commit_group
          ptx.cp.async.bulk.wait_group.read {count = 0 : i64}
          %81 = ptx.shl %65, %8 {type = ".b32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          %82 = ptx.add %15, %81 {type = ".u32"} : (!ptx.reg<b32>, !ptx.reg<b32>) -> (!ptx.reg<b32>)
          ptx.mbarrier.arrive %82 {sem = ".release", scope = ".cta", space = ".shared::cta", bar_offset = 65568 : i64} : (!ptx.reg<b32>)
          ptx.yield %74, %76 : (!ptx.reg<b32>, !ptx.reg<b32>)
        }
        ptx.cp.async.bulk.wait_group {count = 0 : i64}
      }
    }
  }
}

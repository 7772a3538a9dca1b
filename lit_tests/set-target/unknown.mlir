// A name that no target has is answered with the nearest.
// RUN: not tkc-opt %s -p 'set-target{arch=sm_100x}' 2>&1 | filecheck %s

// CHECK: no target 'sm_100x' [TK201]
// CHECK-NEXT: help: --target sm_100

builtin.module {
}

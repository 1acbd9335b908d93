// Letting go of the GIL and taking it, safely while the interpreter ends.
//
// Up to Python 3.13 a daemon thread that asks for the GIL while the interpreter ends is unwound by
// pthread_exit, which C++ frames answer with std::terminate. So an atexit hook closes the gate first: it
// waits until every thread that is at the gate has passed, and whoever comes later is parked, as
// Python 3.14 does itself. By then only daemon threads are left, and the process is about to end.
#pragma once

#include <nanobind/nanobind.h>

namespace kith::python {

/// Registers the hook; called once, when the module is made.
void watch_the_interpreters_end();

/// Whether the interpreter is ending and this thread may no longer take the GIL.
bool gate_is_closed();

/// Frees the GIL while it lives; this thread holds it.
class FreeGil {
 public:
  FreeGil();
  FreeGil(const FreeGil&) = delete;
  FreeGil& operator=(const FreeGil&) = delete;
  ~FreeGil();

 private:
  PyThreadState* state_;
};

/// Holds the GIL while it lives, whether or not this thread had it. The interpreter does not end meanwhile,
/// or only after some seconds' wait.
class TakeGil {
 public:
  TakeGil();
  TakeGil(const TakeGil&) = delete;
  TakeGil& operator=(const TakeGil&) = delete;
  ~TakeGil();

 private:
  bool had_it_;
  bool had_let_go_ = false;
  PyGILState_STATE state_{};
};

}  // namespace kith::python

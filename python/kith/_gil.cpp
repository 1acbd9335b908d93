#include "_gil.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include <pthread.h>
#include <unistd.h>

namespace nb = nanobind;

namespace kith::python {
namespace {

// A report function that Python code runs while the interpreter ends is waited for, but not for ever.
constexpr std::chrono::seconds longest_wait{5};

std::atomic<bool> closed{false};
std::atomic<int> at_the_gate{0};
thread_local int own_at_the_gate = 0;
// Whether this thread, which called from Python, has let go of the GIL. The stable interface has no
// PyGILState_Check.
thread_local bool let_go = false;
// The thread that ends the interpreter: it holds the GIL until the end and is never parked. Written before
// `closed`, read after it.
std::thread::id ends_the_interpreter;

bool may_not_pass() {
  return closed.load() && std::this_thread::get_id() != ends_the_interpreter;
}

void leave_the_gate() {
  --own_at_the_gate;
  at_the_gate.fetch_sub(1);
}

void come_to_the_gate() {
  ++own_at_the_gate;
  at_the_gate.fetch_add(1);
  if (!may_not_pass()) return;
  leave_the_gate();
  while (true) ::pause();
}

// Of the threads at the gate a forked process has only the one that forked; it would wait for the others when
// it ends.
void count_again() {
  at_the_gate = own_at_the_gate;
}

void close_the_gate() {
  ends_the_interpreter = std::this_thread::get_id();
  closed.store(true);
  PyThreadState* const state = PyEval_SaveThread();
  const auto end = std::chrono::steady_clock::now() + longest_wait;
  while (at_the_gate.load() != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PyEval_RestoreThread(state);
}

}  // namespace

void watch_the_interpreters_end() {
  (void)::pthread_atfork(nullptr, nullptr, &count_again);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&close_the_gate));
}

bool gate_is_closed() {
  return may_not_pass();
}

FreeGil::FreeGil() : state_(PyEval_SaveThread()) {
  let_go = true;
}

FreeGil::~FreeGil() {
  come_to_the_gate();
  PyEval_RestoreThread(state_);
  let_go = false;
  leave_the_gate();
}

TakeGil::TakeGil() : had_it_(!let_go && PyGILState_GetThisThreadState() != nullptr) {
  if (had_it_) return;
  come_to_the_gate();
  state_ = PyGILState_Ensure();
  had_let_go_ = std::exchange(let_go, false);
}

TakeGil::~TakeGil() {
  if (had_it_) return;
  let_go = had_let_go_;
  PyGILState_Release(state_);
  leave_the_gate();
}

}  // namespace kith::python

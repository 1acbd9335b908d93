// What a process that was forked must know of itself.
#pragma once

#include <functional>

namespace kith {

/// Whether this process was forked from one that Kith was loaded in. oneTBB's scheduler then still counts on
/// threads that only the parent has, and cannot be made anew: loops run on threads of our own
/// (own_threads.hpp).
bool forked() noexcept;

/// While it lives, before() is called before every fork, and after(in_child) behind it in both processes. So
/// what threads share can hold its locks meanwhile: none is left to a thread that the child lacks.
class ForkHook {
 public:
  ForkHook(std::function<void()> before, std::function<void(bool in_child)> after);
  ~ForkHook();
  ForkHook(const ForkHook&) = delete;
  ForkHook& operator=(const ForkHook&) = delete;

 private:
  friend struct ForkHooks;
  std::function<void()> before_;
  std::function<void(bool)> after_;
  ForkHook* next_ = nullptr;
};

}  // namespace kith

// A function that somebody calls before the call it was passed to returns: refers to it, and copies nothing.
#pragma once

#include <memory>
#include <utility>

namespace kith {

template <class Signature>
class FunctionRef;

template <class... Arguments>
class FunctionRef<void(Arguments...)> {
 public:
  template <class Function>
  FunctionRef(const Function& function)  // NOLINT(google-explicit-constructor): it stands for any function
      : function_(std::addressof(function)), call_([](const void* its, Arguments... arguments) {
          (*static_cast<const Function*>(its))(std::forward<Arguments>(arguments)...);
        }) {}

  void operator()(Arguments... arguments) const { call_(function_, std::forward<Arguments>(arguments)...); }

 private:
  const void* function_;
  void (*call_)(const void*, Arguments...);
};

}  // namespace kith

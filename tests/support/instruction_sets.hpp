// Forces an instruction set while it lives.
#pragma once

#include <optional>

#include "core/instruction_set.hpp"

namespace kith::test {

struct Forced {
  explicit Forced(InstructionSet set) { force_instruction_set(set); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;
  ~Forced() { force_instruction_set(std::nullopt); }
};

}  // namespace kith::test

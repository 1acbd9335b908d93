// The instruction sets kernels are compiled for, and which of them this CPU can run.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kith {

/// Best first.
enum class InstructionSet : std::uint8_t {
  avx512_vnni,
  avx_vnni,
  avx2,
  neon_i8mm,  ///< ARM, with dot products of unsigned and signed bytes (ARMv8.6)
  neon,       ///< ARM, with dot products of bytes (ARMv8.2)
  portable
};

std::string_view name(InstructionSet set) noexcept;

/// Those this CPU can run and this build has kernels for, best first; `portable` is always last.
const std::vector<InstructionSet>& usable_instruction_sets();

/// The set searches run with: the best usable one, unless the environment variable
/// KITH_INSTRUCTION_SET names another or force_instruction_set did.
/// @throws InvalidArgument when the variable names an unknown or unusable set
InstructionSet active_instruction_set();

/// For tests: forces a set (nullopt: back to the best). @throws InvalidArgument when not usable
void force_instruction_set(std::optional<InstructionSet> set);

}  // namespace kith

// Run-time choice of the kernel path.
#include "core/instruction_set.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#include <fmt/format.h>

#include "kith/error.hpp"

namespace kith {

std::string_view name(InstructionSet set) noexcept {
  switch (set) {
    case InstructionSet::avx512_vnni: return "avx512_vnni";
    case InstructionSet::avx_vnni: return "avx_vnni";
    case InstructionSet::avx2: return "avx2";
    case InstructionSet::neon_i8mm: return "neon_i8mm";
    case InstructionSet::neon: return "neon";
    case InstructionSet::portable: return "portable";
  }
  return "?";
}

namespace {

#if defined(__x86_64__)
// Features that __builtin_cpu_supports does not know by name in every compiler.
bool cpuid_bit(unsigned leaf, unsigned subleaf, int output, unsigned bit) {
  unsigned registers[4] = {};  // eax, ebx, ecx, edx
  return __get_cpuid_count(leaf, subleaf, &registers[0], &registers[1], &registers[2], &registers[3]) != 0 &&
         (registers[output] >> bit & 1U) != 0;
}
#endif

std::vector<InstructionSet> detect() {
  std::vector<InstructionSet> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // That the system saves the wide registers is part of what the builtin checks for avx2 and avx512f.
  const bool f16c = cpuid_bit(1, 0, 2, 29);
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && f16c &&
                    __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
  if (avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512vnni") != 0) {
    found.push_back(InstructionSet::avx512_vnni);
  }
#if defined(KITH_HAVE_AVX_VNNI)
  if (avx2 && cpuid_bit(7, 1, 0, 4)) found.push_back(InstructionSet::avx_vnni);
#endif
  if (avx2) found.push_back(InstructionSet::avx2);
#elif defined(__aarch64__) && defined(__linux__)
  if ((::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) {
    if ((::getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) found.push_back(InstructionSet::neon_i8mm);
    found.push_back(InstructionSet::neon);
  }
#endif
  found.push_back(InstructionSet::portable);
  return found;
}

constexpr int not_forced = -1;
std::atomic<int> forced{not_forced};

InstructionSet from_environment() {
  const auto& usable = usable_instruction_sets();
  const char* wanted = std::getenv("KITH_INSTRUCTION_SET");
  if (wanted == nullptr || *wanted == '\0') return usable.front();
  std::string list;
  for (InstructionSet set : usable) {
    if (name(set) == wanted) return set;
    list += list.empty() ? "" : ", ";
    list += name(set);
  }
  throw InvalidArgument(
      fmt::format("KITH_INSTRUCTION_SET={} is not usable here; this CPU and build have {}", wanted, list));
}

}  // namespace

const std::vector<InstructionSet>& usable_instruction_sets() {
  static const std::vector<InstructionSet> sets = detect();
  return sets;
}

InstructionSet active_instruction_set() {
  const int set = forced.load(std::memory_order_relaxed);
  return set == not_forced ? from_environment() : static_cast<InstructionSet>(set);
}

void force_instruction_set(std::optional<InstructionSet> set) {
  if (!set) {
    forced = not_forced;
    return;
  }
  const auto& usable = usable_instruction_sets();
  if (std::find(usable.begin(), usable.end(), *set) == usable.end()) {
    throw InvalidArgument(fmt::format("instruction set {} is not usable on this CPU", name(*set)));
  }
  forced = static_cast<int>(*set);
}

}  // namespace kith

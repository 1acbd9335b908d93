// Threads and instruction sets of a call.
#include "kith/execution.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include <sched.h>

#include "core/instruction_set.hpp"
#include "kith/error.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

TEST(Threads, ResolveToTheCoresOrTheNumberAsked) {
  Execution execution;
  EXPECT_GE(resolve_threads(execution), 1);
  for (const int threads : {1, 2, 5, 4096}) {
    execution.threads = threads;
    EXPECT_EQ(resolve_threads(execution), threads);
  }
}

TEST(Threads, FollowTheAffinityOfTheProcess) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(resolve_threads(Execution{}), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(resolve_threads(Execution{}), CPU_COUNT(&all));
}

TEST(Threads, RefusesNumbersOutOfRange) {
  Execution execution;
  for (const int threads : {-1, 4097, 1 << 30}) {
    execution.threads = threads;
    const std::string message = message_of<InvalidArgument>([&] { resolve_threads(execution); });
    EXPECT_TRUE(contains(message, std::to_string(threads)));
    EXPECT_TRUE(contains(message, "4096"));
  }
}

TEST(InstructionSets, PortableIsAlwaysThereAndLast) {
  const auto& sets = usable_instruction_sets();
  ASSERT_FALSE(sets.empty());
  EXPECT_EQ(sets.back(), InstructionSet::portable);
  EXPECT_TRUE(std::is_sorted(sets.begin(), sets.end()));
}

TEST(InstructionSets, EachCanBeForced) {
  for (const InstructionSet set : usable_instruction_sets()) {
    force_instruction_set(set);
    EXPECT_EQ(active_instruction_set(), set);
  }
  force_instruction_set(std::nullopt);
  for (const InstructionSet set : {InstructionSet::avx512_vnni, InstructionSet::avx_vnni,
                                   InstructionSet::avx2, InstructionSet::neon_i8mm, InstructionSet::neon}) {
    const auto& sets = usable_instruction_sets();
    if (std::find(sets.begin(), sets.end(), set) == sets.end()) {
      EXPECT_THROW(force_instruction_set(set), InvalidArgument);
    }
  }
}

TEST(InstructionSets, TheEnvironmentChooses) {
  const test::Environment set("KITH_INSTRUCTION_SET", "portable");
  EXPECT_EQ(active_instruction_set(), InstructionSet::portable);
  set.set("sse9");
  const std::string message = message_of<InvalidArgument>([] { active_instruction_set(); });
  EXPECT_TRUE(contains(message, "sse9"));
  EXPECT_TRUE(contains(message, "portable"));
  set.set(std::nullopt);
  EXPECT_EQ(active_instruction_set(), usable_instruction_sets().front());
}

}  // namespace
}  // namespace kith

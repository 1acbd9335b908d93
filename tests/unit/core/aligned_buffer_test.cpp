// Memory of codes and trees: aligned, whole, and the system's again when it is freed.
#include "core/aligned_buffer.hpp"

#include <cstdint>
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "support/sanitizers.hpp"

namespace kith {
namespace {

std::int64_t mapped_bytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  std::int64_t kib = 0;
  while (file >> word) {
    if (word == "VmSize:") file >> kib;
  }
  return kib << 10U;
}

TEST(AlignedBuffer, IsAlignedAndWhole) {
  constexpr std::int64_t huge = std::int64_t{2} << 20U;
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{63}, huge / 8 - 1, huge / 8, huge / 8 + 1, huge}) {
    AlignedBuffer<double> buffer(count);
    EXPECT_EQ(buffer.size(), count);
    EXPECT_EQ(buffer.bytes(), static_cast<std::uint64_t>(count) * 8);
    const auto at = reinterpret_cast<std::uintptr_t>(buffer.data());
    EXPECT_EQ(at % (count * 8 >= huge ? static_cast<std::uintptr_t>(huge) : 64), 0U) << count;
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = static_cast<double>(i);
    const AlignedBuffer<double> moved = std::move(buffer);
    EXPECT_EQ(moved[count - 1], static_cast<double>(count - 1));
  }
  EXPECT_TRUE(AlignedBuffer<double>().empty());
  EXPECT_TRUE(AlignedBuffer<double>(0).empty());
}

TEST(AlignedBuffer, ThrowsForWhatNoMachineHas) {
  EXPECT_THROW(AlignedBuffer<double>(std::numeric_limits<std::int64_t>::max()), std::bad_alloc);
  EXPECT_THROW(AlignedBuffer<double>(std::int64_t{1} << 59U), std::bad_alloc);
  EXPECT_THROW(AlignedBuffer<double>(-1), std::bad_alloc);
}

TEST(AlignedBuffer, GivesItsMemoryBack) {
  if (test::reduced()) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  constexpr std::int64_t count = std::int64_t{24} << 20U;  // a size that heaps keep once they have had it
  { const AlignedBuffer<char> first(count); }
  const std::int64_t before = mapped_bytes();
  for (int i = 0; i < 20; ++i) {
    AlignedBuffer<char> buffer(count);
    buffer[0] = buffer[count - 1] = 1;
    EXPECT_GE(mapped_bytes(), before + count);
  }
  EXPECT_LT(mapped_bytes(), before + count / 2);
}

}  // namespace
}  // namespace kith

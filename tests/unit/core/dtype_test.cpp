// Conversions of the half-precision types: every bit pattern, and rounding against the hardware.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/visit_dtype.hpp"
#include "kith/support.hpp"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kith {
namespace {

// From the definition of binary16: sign, 5 bits of exponent, 10 of mantissa.
double half_by_definition(std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = (bits >> 10U) & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Float16, EveryPatternWidensByTheDefinition) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(float16{static_cast<std::uint16_t>(bits)});
    const double expected = half_by_definition(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(static_cast<double>(value)),
                std::bit_cast<std::uint64_t>(expected))
          << bits;
    }
  }
}

TEST(Float16, EveryPatternSurvivesTheRoundTrip) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(to_float16(value)))) << bits;
    } else {
      ASSERT_EQ(to_float16(value).bits, bits);
    }
  }
}

TEST(Float16, HalfwayCasesGoToEvenAndNeighboursToTheNearest) {
  for (unsigned bits = 0; bits < 0x7BFF; ++bits) {  // all finite, not negative, but the largest
    const float low = to_float(float16{static_cast<std::uint16_t>(bits)});
    const float high = to_float(float16{static_cast<std::uint16_t>(bits + 1)});
    const float middle = (low + high) / 2;  // exact in float32
    const unsigned even = (bits & 1U) == 0 ? bits : bits + 1;
    ASSERT_EQ(to_float16(middle).bits, even) << bits;
    ASSERT_EQ(to_float16(std::nextafter(middle, low)).bits, bits);
    ASSERT_EQ(to_float16(std::nextafter(middle, high)).bits, bits + 1);
    ASSERT_EQ(to_float16(-middle).bits, even | 0x8000U);
  }
}

TEST(Float16, OverflowsToInfinityAtTheRightPlace) {
  EXPECT_EQ(to_float16(65504.0F).bits, 0x7BFF);
  EXPECT_EQ(to_float16(std::nextafter(65520.0F, 0.0F)).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7C00);
  EXPECT_EQ(to_float16(1e30F).bits, 0x7C00);
  EXPECT_EQ(to_float16(-1e30F).bits, 0xFC00);
  EXPECT_EQ(to_float16(std::numeric_limits<float>::infinity()).bits, 0x7C00);
  EXPECT_EQ(to_float16(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(to_float16(-0.0F).bits, 0x8000);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) std::uint16_t hardware_half(float value) {
  return static_cast<std::uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
}

TEST(Float16, RoundsAsTheHardwareDoes) {
  if (__builtin_cpu_supports("f16c") == 0) GTEST_SKIP() << "this CPU has no F16C";
  // A stride coprime to the mantissa visits every exponent and many mantissas.
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 4099) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(to_float16(value).bits, hardware_half(value)) << bits;
  }
}
#endif

TEST(Bfloat16, EveryPatternIsTheUpperHalfOfAFloat) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const bfloat16 value{static_cast<std::uint16_t>(bits)};
    ASSERT_EQ(std::bit_cast<std::uint32_t>(to_float(value)), bits << 16U);
    if (std::isnan(to_float(value))) {
      ASSERT_TRUE(std::isnan(to_float(to_bfloat16(to_float(value)))));
    } else {
      ASSERT_EQ(to_bfloat16(to_float(value)).bits, bits);
    }
  }
}

TEST(Bfloat16, HalfwayCasesGoToEven) {
  for (std::uint32_t bits = 0; bits < 0x7F7F; ++bits) {
    const std::uint32_t even = (bits & 1U) == 0 ? bits : bits + 1;
    const auto round = [](std::uint32_t pattern) { return to_bfloat16(std::bit_cast<float>(pattern)).bits; };
    ASSERT_EQ(round(bits << 16U | 0x8000U), even);
    ASSERT_EQ(round(bits << 16U | 0x7FFFU), bits);
    ASSERT_EQ(round(bits << 16U | 0x8001U), bits + 1);
    ASSERT_EQ(round(0x80000000U | bits << 16U | 0x8000U), even | 0x8000U);
  }
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7F80);
  // A NaN whose payload lies in the lower half only must not become an infinity.
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7F800001U)))));
}

TEST(Dtype, VisitGivesTheTypeOfTheName) {
  for (Dtype dtype : all_dtypes) {
    visit_dtype(dtype, [&]<class T>(T /*tag*/) {
      EXPECT_EQ(dtype_of<T>, dtype);
      EXPECT_EQ(sizeof(T), size_of(dtype));
    });
  }
}

TEST(Dtype, DistanceTypeIsSingleButForDoubles) {
  for (Dtype dtype : all_dtypes) {
    EXPECT_EQ(distance_dtype(dtype), dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32);
  }
}

}  // namespace
}  // namespace kith

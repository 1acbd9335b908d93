// Codes of a byte or half a byte a value: the same distances on every instruction set, and as near to the
// rows as their bits allow.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "codes/scalar.hpp"
#include "conformance/problem.hpp"
#include "core/aligned_buffer.hpp"
#include "core/instruction_set.hpp"
#include "kith/generate.hpp"
#include "support/instruction_sets.hpp"

namespace kith::codes {
namespace {

using test::Forced;

std::int64_t naive(const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < bytes; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

TEST(Estimates, AreTheSameOnEveryInstructionSet) {
  conformance::Random random(1);
  for (const std::int64_t bytes : {32, 64, 96, 128, 160, 768, 32768 + 32}) {
    const std::int64_t rows = bytes > 1000 ? 5 : 300;
    AlignedBuffer<std::uint8_t> codes(rows * bytes);
    for (std::int64_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<std::uint8_t>(random.below(4) == 0 ? 255 * random.below(2) : random.below(256));
    }
    // The largest sum there is.
    std::fill(codes.data(), codes.data() + bytes, std::uint8_t{0});
    std::fill(codes.data() + bytes, codes.data() + 2 * bytes, std::uint8_t{255});
    std::vector<std::uint32_t> ids;
    for (std::int64_t i = 0; i < 2 * rows; ++i) ids.push_back(static_cast<std::uint32_t>(random.below(rows)));
    ids[0] = 1;
    for (const InstructionSet set : usable_instruction_sets()) {
      const Forced forced(set);
      for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, 2 * rows}) {
        std::vector<std::int32_t> out(ids.size(), -1);
        estimate_kernels().gathered(codes.data(), bytes, codes.data(), ids.data(), count, out.data());
        for (std::int64_t i = 0; i < count; ++i) {
          if (bytes > largest_scalar_dim && ids[static_cast<std::size_t>(i)] == 1)
            continue;  // 33,025 at most
          EXPECT_EQ(out[static_cast<std::size_t>(i)],
                    naive(codes.data(), codes.data() + ids[static_cast<std::size_t>(i)] * bytes, bytes))
              << name(set) << " " << bytes;
        }
      }
    }
  }
}

std::int64_t naive_halves(const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < bytes; ++i) {
    const int low = (a[i] & 15) - (b[i] & 15);
    const int high = (a[i] >> 4) - (b[i] >> 4);
    sum += low * low + high * high;
  }
  return sum;
}

TEST(Estimates, OfHalfBytesAreTheSameOnEveryInstructionSet) {
  conformance::Random random(2);
  for (const std::int64_t bytes : {32, 64, 96, 160, 384, 16384 + 32}) {
    const std::int64_t rows = bytes > 1000 ? 5 : 200;
    AlignedBuffer<std::uint8_t> codes(rows * bytes);
    for (std::int64_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(random.below(256));
    std::fill(codes.data(), codes.data() + bytes, std::uint8_t{0});
    std::fill(codes.data() + bytes, codes.data() + 2 * bytes, std::uint8_t{255});  // the largest sum
    std::vector<std::uint32_t> ids = {1};
    for (std::int64_t i = 0; i < rows; ++i) ids.push_back(static_cast<std::uint32_t>(random.below(rows)));
    for (const InstructionSet set : usable_instruction_sets()) {
      const Forced forced(set);
      std::vector<std::int32_t> out(ids.size(), -1);
      estimate_kernels().gathered_4(codes.data(), bytes, codes.data(), ids.data(),
                                    static_cast<std::int64_t>(ids.size()), out.data());
      for (std::size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(out[i], naive_halves(codes.data(), codes.data() + ids[i] * bytes, bytes))
            << name(set) << " " << bytes;
      }
    }
  }
}

TEST(ScalarCodes, FourBitsArePackedTwoAByte) {
  ScalarSpace space{.metric = Metric::sqeuclidean, .dim = 5, .mean = {1, 0, 0, 0, 0}, .step = 0.5, .bits = 4};
  EXPECT_EQ(space.code_bytes(), 32);
  const float values[] = {1, 0.5F, -0.7F, 100, -100};
  std::uint8_t code[32];
  ScalarCodec codec(space);
  ASSERT_TRUE(codec.encode_row(values, code));
  // 8 + round((value - mean) / step), within 1 to 15; the low half first.
  EXPECT_EQ(code[0], 8 | 9 << 4);
  EXPECT_EQ(code[1], 7 | 15 << 4);
  EXPECT_EQ(code[2], 1);
  for (int i = 3; i < 32; ++i) EXPECT_EQ(code[i], 0);
  double decoded[5];
  codec.decode(code, decoded);
  const double expected[] = {1, 0.5, -0.5, 3.5, -3.5};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(decoded[i], expected[i]);
}

TEST(ScalarCodes, IntegersAreTheirOwnCodes) {
  const std::vector<std::uint8_t> bytes = {0, 1, 127, 128, 254, 255};
  const std::vector<std::int8_t> signed_bytes = {-128, -127, -1, 0, 1, 127};
  std::uint8_t code[32];
  ScalarSpace space{.dtype = Dtype::u8, .metric = Metric::euclidean, .dim = 6, .mean = {}};
  ASSERT_TRUE(space.raw_integers());
  EXPECT_TRUE(ScalarCodec(space).encode_row(bytes.data(), code));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), code));
  EXPECT_EQ(code[6], 0);
  space.dtype = Dtype::i8;
  EXPECT_TRUE(ScalarCodec(space).encode_query(signed_bytes.data(), code));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(code[i], signed_bytes[i] + 128);
}

// Order and scale of true distances, by every metric that has them.
TEST(ScalarCodes, EstimatesFollowDistances) {
  const Dataset data = generate({.generator = Generator::gaussian, .rows = 400, .dim = 100, .seed = 3});
  const auto* values = static_cast<const float*>(data.view().data);
  for (const auto& [metric, bits, least] :
       {std::tuple{Metric::sqeuclidean, 8, 0.999}, std::tuple{Metric::cosine, 8, 0.999},
        std::tuple{Metric::inner_product, 8, 0.999}, std::tuple{Metric::sqeuclidean, 4, 0.95},
        std::tuple{Metric::cosine, 4, 0.95}, std::tuple{Metric::inner_product, 4, 0.9}}) {
    const ScalarSpace space = make_scalar_space(data, metric, {}, {.bits = bits});
    ScalarCodec codec(space);
    std::vector<std::uint8_t> query(static_cast<std::size_t>(space.code_bytes()));
    std::vector<std::uint8_t> row(query.size());
    ASSERT_TRUE(codec.encode_query(data.view().row(0), query.data()));
    // Correlation of estimates and distances.
    double sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
    constexpr int n = 399;
    for (int i = 1; i <= n; ++i) {
      ASSERT_TRUE(codec.encode_row(data.view().row(i), row.data()));
      double difference = 0, product = 0, norm = 0, own = 0;
      for (int j = 0; j < 100; ++j) {
        const double q = values[j], x = values[i * 100 + j];
        difference += (q - x) * (q - x);
        product += q * x;
        norm += x * x;
        own += q * q;
      }
      const double y = metric == Metric::sqeuclidean     ? difference
                       : metric == Metric::inner_product ? -product
                                                         : 1 - product / std::sqrt(norm * own);
      const auto sum = bits == 4 ? naive_halves : naive;
      const auto x = static_cast<double>(sum(query.data(), row.data(), space.code_bytes()));
      sx += x, sy += y, sxx += x * x, syy += y * y, sxy += x * y;
    }
    const double correlation = (n * sxy - sx * sy) / std::sqrt((n * sxx - sx * sx) * (n * syy - sy * sy));
    EXPECT_GT(correlation, least) << name(metric) << " " << bits;
  }
}

TEST(ScalarCodes, NothingIsUndefinedAboutSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {inf, -inf, 1, 1e38F, -1e38F, 2, 0, 0, 0, nan, 1, 2, 1e-40F, 1, 1};
  const DatasetView data(values.data(), 5, 3);
  for (const Metric metric : {Metric::euclidean, Metric::cosine, Metric::inner_product}) {
    const ScalarSpace space = make_scalar_space(data, metric, {});
    EXPECT_TRUE(space.step > 0 && std::isfinite(space.step));
    ScalarCodec codec(space);
    std::uint8_t code[32];
    for (std::int64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(codec.encode_row(data.row(i), code), i != 3);
      EXPECT_EQ(codec.encode_query(data.row(i), code), i != 3);
      if (i == 3) continue;
      for (std::int64_t j = 0; j < space.code_dim(); ++j) EXPECT_GT(code[j], 0);
      for (std::int64_t j = space.code_dim(); j < 32; ++j) EXPECT_EQ(code[j], 0);
    }
  }
}

}  // namespace
}  // namespace kith::codes

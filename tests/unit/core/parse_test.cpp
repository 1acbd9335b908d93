// Names and parsing of the small public types.
#include <gtest/gtest.h>

#include <string>

#include "kith/kith.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

using test::message_of;

template <class Call>
std::string refusal(Call call) {
  return message_of<InvalidArgument>(call);
}

TEST(Parse, DtypeNamesRoundTrip) {
  for (Dtype dtype : all_dtypes) EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  EXPECT_EQ(parse_dtype("float32"), Dtype::f32);
  EXPECT_EQ(parse_dtype("float16"), Dtype::f16);
  EXPECT_EQ(parse_dtype("bfloat16"), Dtype::bf16);
  EXPECT_EQ(parse_dtype("int8"), Dtype::i8);
  EXPECT_EQ(parse_dtype("uint8"), Dtype::u8);
  EXPECT_EQ(parse_dtype("float64"), Dtype::f64);
}

TEST(Parse, UnknownDtypeNamesValueAndRemedy) {
  for (const char* text : {"", "f31", "F32", "int16", "f32 "}) {
    const std::string message = refusal([&] { parse_dtype(text); });
    EXPECT_NE(message.find("'" + std::string(text) + "'"), std::string::npos) << message;
    EXPECT_NE(message.find("bf16"), std::string::npos) << message;
  }
}

TEST(Parse, MetricNamesRoundTrip) {
  for (Metric metric : all_metrics) EXPECT_EQ(parse_metric(name(metric)), metric);
}

TEST(Parse, BareL2IsRefusedWithBothMeanings) {
  for (const char* text : {"l2", "L2"}) {
    const std::string message = refusal([&] { parse_metric(text); });
    EXPECT_NE(message.find("sqeuclidean"), std::string::npos) << message;
    EXPECT_NE(message.find("'euclidean'"), std::string::npos) << message;
  }
  EXPECT_NE(refusal([] { parse_metric("Cosine"); }).find("cosine"), std::string::npos);
}

TEST(Parse, FilterNamesRoundTrip) {
  for (Filter filter : {Filter::automatic, Filter::int8, Filter::fp16, Filter::fp32, Filter::none}) {
    EXPECT_EQ(parse_filter(name(filter)), filter);
  }
  EXPECT_NE(refusal([] { parse_filter("int4"); }).find("int8"), std::string::npos);
}

TEST(Parse, DtypeSizes) {
  EXPECT_EQ(size_of(Dtype::f32), sizeof(float));
  EXPECT_EQ(size_of(Dtype::f64), sizeof(double));
  EXPECT_EQ(size_of(Dtype::f16), 2U);
  EXPECT_EQ(size_of(Dtype::bf16), 2U);
  EXPECT_EQ(size_of(Dtype::i8), 1U);
  EXPECT_EQ(size_of(Dtype::u8), 1U);
}

TEST(Version, HeaderAndLibraryAgree) {
  EXPECT_STREQ(version(), KITH_VERSION_STRING);
  EXPECT_EQ(std::string(KITH_VERSION_STRING), std::to_string(KITH_VERSION_MAJOR) + "." +
                                                  std::to_string(KITH_VERSION_MINOR) + "." +
                                                  std::to_string(KITH_VERSION_PATCH));
}

}  // namespace
}  // namespace kith

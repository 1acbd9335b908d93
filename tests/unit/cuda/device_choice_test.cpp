// Devices of both kinds: listed, parsed, refused.
#include "cuda/device_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kith/error.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

TEST(Devices, TheCpuComesFirst) {
  const auto list = devices();
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].device, (Device{Device::Kind::cpu, 0}));
  EXPECT_TRUE(list[0].usable);
  EXPECT_GT(list[0].memory_bytes, 0U);
  EXPECT_GE(list[0].cores, 1);
  EXPECT_FALSE(list[0].description.empty());
  EXPECT_TRUE(contains(list[0].instruction_sets, "portable"));
}

TEST(Devices, ParseAndName) {
  EXPECT_EQ(parse_devices("cpu"), (std::vector<Device>{Device{}}));
  EXPECT_EQ(name(Device{}), "cpu");
  EXPECT_EQ(name(Device{Device::Kind::cuda, 3}), "cuda:3");
  EXPECT_EQ(parse_devices("auto").size(), 1U);
  for (const char* text : {"", "gpu", "CPU", "cuda0", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:0,",
                           "cuda:0,,1", "cuda:0;1", "cuda:0,0", "cuda:99999999999"}) {
    EXPECT_TRUE(
        contains(message_of<InvalidArgument>([&] { parse_devices(text); }), "'" + std::string(text) + "'"));
  }
}

TEST(Devices, AnAbsentOneIsNamedWithTheRemedy) {
  EXPECT_TRUE(contains(message_of<DeviceError>([] { parse_devices("cuda:4000"); }), "cuda:4000"));
  const auto list = devices();
  if (std::none_of(list.begin(), list.end(), [](const DeviceInfo& info) {
        return info.usable && info.device.kind == Device::Kind::cuda;
      })) {
    for (const char* text : {"cuda", "all", "cuda:0", "cuda:0,1"}) {
      EXPECT_TRUE(contains(message_of<DeviceError>([&] { parse_devices(text); }), "use the device cpu"));
    }
    EXPECT_EQ(parse_devices("auto"), (std::vector<Device>{Device{}}));
  }
}

TEST(Devices, ALimitOnTheirMemoryNeedsAGpu) {
  Execution execution;
  EXPECT_EQ(cuda::kind_of_devices(execution), Device::Kind::cpu);
  execution.device_memory_limit = 123456;
  for (const char* words : {"123456", "name a CUDA device"}) {
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { cuda::kind_of_devices(execution); }), words));
  }
}

}  // namespace
}  // namespace kith

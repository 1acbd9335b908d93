// Calibrations in files, and which of them choices go by.
#include "core/calibration.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "kith/error.hpp"
#include "support/calibration.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"

namespace kith {
namespace {

using test::contains;
using test::Environment;
using test::expect_error;

WorkTimes some_times() {
  WorkTimes times = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  times.int8 = 0.0123456789;
  times.scan = 1e6;
  return times;
}

class CalibrationFile : public testing::Test {
 protected:
  std::string text() const { return test::read_file(path_); }
  void put(const std::string& text) const { test::write_file(path_, text); }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "some/folder/c.json";
};

TEST_F(CalibrationFile, ComesBackAsItWas) {
  Calibration c = test::calibration_of_this_cpu(some_times());
  c.cache_bytes = std::int64_t{1} << 40U;
  c.bandwidth = 1.5e10;
  c.threads = 3;
  keep_calibration(c, path_);  // makes the folders
  const auto list = read_calibrations(path_);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].model, c.model);
  EXPECT_EQ(list[0].instruction_set, c.instruction_set);
  EXPECT_EQ(list[0].cores, c.cores);
  EXPECT_EQ(list[0].threads, 3);
  EXPECT_EQ(list[0].cache_bytes, c.cache_bytes);
  EXPECT_EQ(list[0].bandwidth, c.bandwidth);
  EXPECT_EQ(list[0].date, c.date);
  EXPECT_EQ(named(list[0].times), named(c.times));
  EXPECT_EQ(named(c.times).size(), 15U);
  EXPECT_EQ(folder_.entries(), 1);
  EXPECT_TRUE(contains(text(), "\"threads\": 3"));
  EXPECT_TRUE(contains(to_json(list[0]), "\"threads\":3"));
}

TEST_F(CalibrationFile, OneOfTheSameMachineIsReplacedOthersStay) {
  Calibration c = test::calibration_of_this_cpu(some_times());
  keep_calibration(c, path_);
  Calibration other = c;
  other.instruction_set = "another";
  keep_calibration(other, path_);
  Calibration more = c;
  more.threads += 1;
  keep_calibration(more, path_);
  c.times.int8 = 7;
  keep_calibration(c, path_);
  const auto list = read_calibrations(path_);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].instruction_set, "another");
  EXPECT_EQ(list[0].times.int8, some_times().int8);
  EXPECT_EQ(list[1].threads, c.threads + 1);
  EXPECT_EQ(list[2].times.int8, 7);
}

// A GPU has other times, and no threads or bandwidth. Programs that know no GPUs are told by the version.
TEST_F(CalibrationFile, HoldsGpusBesideProcessors) {
  Calibration gpu;
  gpu.device = Device::Kind::cuda;
  gpu.model = "Some GPU";
  gpu.instruction_set = "sm_90";
  gpu.cores = 132;
  gpu.date = "2026-01-01T00:00:00Z";
  gpu.times = some_times();
  gpu.times.launch = 5e4;
  const Calibration cpu = test::calibration_of_this_cpu(some_times());
  keep_calibration(cpu, path_);
  EXPECT_TRUE(contains(text(), "\"kith_calibrations\": 1"));
  keep_calibration(gpu, path_);
  EXPECT_TRUE(contains(text(), "\"kith_calibrations\": 2"));
  keep_calibration(gpu, path_);  // in its own place
  const auto list = read_calibrations(path_);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].device, Device::Kind::cpu);
  EXPECT_EQ(list[1].device, Device::Kind::cuda);
  EXPECT_EQ(list[1].model, "Some GPU");
  EXPECT_EQ(list[1].cores, 132);
  EXPECT_EQ(named(list[1].times, Device::Kind::cuda), named(gpu.times, Device::Kind::cuda));
  EXPECT_EQ(named(gpu.times, Device::Kind::cuda).size(), 11U);
  EXPECT_EQ(list[1].times.exact_row, 0);  // not one of a GPU's
  EXPECT_TRUE(contains(to_json(list[1]), "\"device\":\"cuda\""));
  // Neither goes by the other's.
  gpu.model = cpu.model;
  gpu.instruction_set = cpu.instruction_set;
  gpu.cores = cpu.cores;
  std::filesystem::remove(path_);
  keep_calibration(gpu, path_);
  const Environment file("KITH_CALIBRATION", path_.string());
  EXPECT_EQ(cpu_calibration(cpu.threads), nullptr);
  DeviceInfo info;
  info.device = {Device::Kind::cuda, 0};
  info.description = gpu.model;
  info.cores = gpu.cores;
  const auto found = gpu_calibration([&] { return info; });
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->times.launch, gpu.times.launch);
  info.cores += 1;
  EXPECT_EQ(gpu_calibration([&] { return info; }), nullptr);
  {
    const CalibrationsAside aside;
    info.cores -= 1;
    EXPECT_EQ(gpu_calibration([&] { return info; }), nullptr);
  }
  std::filesystem::remove(path_);
  keep_calibration(cpu, path_);  // the driver is not asked for nothing
  EXPECT_EQ(gpu_calibration([]() -> DeviceInfo { throw Cancelled("asked"); }), nullptr);
  for (int what = 0; what < 3; ++what) {
    Calibration wrong = gpu;
    if (what == 0) wrong.times.launch = 0;
    if (what == 1) wrong.threads = 2;
    if (what == 2) wrong.bandwidth = 1e12;
    EXPECT_THROW(keep_calibration(wrong, path_), InvalidArgument) << what;
  }
}

// Several processes and threads may have measured at once.
TEST_F(CalibrationFile, NoneIsLostWhereSeveralAreKeptAtOnce) {
  std::vector<std::thread> writers;
  for (int i = 1; i <= 4; ++i) {
    writers.emplace_back([&, i] {
      Calibration c = test::calibration_of_this_cpu(some_times());
      c.threads = i;
      for (int again = 0; again < 3; ++again) keep_calibration(c, path_);
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(read_calibrations(path_).size(), 4U);
}

TEST_F(CalibrationFile, DamageIsNamed) {
  EXPECT_TRUE(read_calibrations(path_).empty());  // missing
  keep_calibration(test::calibration_of_this_cpu(some_times()), path_);
  const std::string whole = text();
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
    put(whole.substr(0, size));
    expect_error<IoError>([&] { read_calibrations(path_); }, {"c.json", "corrupt"});
  }
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string damaged = whole;
    const auto at = damaged.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    put(damaged.replace(at, what.size(), by));
  };
  const auto refused = [&](const std::vector<std::string>& parts) {
    expect_error<IoError>([&] { read_calibrations(path_); }, parts);
  };
  for (const char* version : {"0", "3"}) {
    replaced("\"kith_calibrations\": 1", std::string("\"kith_calibrations\": ") + version);
    refused({"c.json", std::string("version ") + version, "reads up to 2"});
  }
  replaced("\"cpu\"", "\"tpu\"");
  refused({"c.json", "'tpu'"});
  for (const char* time : {"-1", "0", "1e300", "1e-300"}) {
    replaced("0.0123456789", time);
    refused({"c.json", "int8 is"});
  }
  replaced("20000000000.0", "0");
  refused({"c.json", "bandwidth is 0"});
  for (const char* count : {"-", "4294967296", "1.5e0 ,\"x\":", "true ,\"x\":"}) {
    replaced("\"threads\": ", std::string("\"threads\": ") + count);
    refused({"c.json", "threads is"});
  }
  replaced("\"cache_bytes\": ", "\"cache_bytes\": -1");
  refused({"c.json", "cache_bytes is -1"});
  replaced("0.0123456789", "\"fast\"");
  refused({"c.json", "corrupt"});
  replaced("\"fp16\"", "\"fp17\"");
  refused({"c.json", "corrupt", "fp16"});
  put("[1, 2]");
  refused({"c.json", "no file of calibrations"});
  // Nothing is added to what is not understood.
  expect_error<IoError>([&] { keep_calibration(test::calibration_of_this_cpu(some_times()), path_); },
                        {"c.json"});
  EXPECT_EQ(text(), "[1, 2]");
  expect_error<IoError>([&] { read_calibrations(folder_.path()); }, {"a folder"});
}

TEST_F(CalibrationFile, WhatNoFileCanHoldIsRefusedBefore) {
  for (int what = 0; what < 4; ++what) {
    Calibration c = test::calibration_of_this_cpu(some_times());
    if (what == 0) c.times.scan = 0;
    if (what == 1) c.times.scan = std::numeric_limits<double>::quiet_NaN();
    if (what == 2) c.cores = 0;
    if (what == 3) c.bandwidth = std::numeric_limits<double>::infinity();
    EXPECT_THROW(keep_calibration(c, path_), InvalidArgument) << what;
    EXPECT_FALSE(std::filesystem::exists(path_)) << what;
  }
  Calibration odd = test::calibration_of_this_cpu(some_times());
  odd.model = "Odd \xae CPU";
  keep_calibration(odd, path_);
  EXPECT_EQ(read_calibrations(path_).size(), 1U);
}

TEST_F(CalibrationFile, AFileThatCannotBeReachedIsNotAMissingOne) {
  std::filesystem::create_directories(path_.parent_path());
  std::filesystem::create_symlink("loop.json", folder_ / "loop.json");
  const std::filesystem::path long_name = folder_ / std::string(300, 'a');
  for (const std::filesystem::path& path : {folder_ / "loop.json", long_name}) {
    const Environment file("KITH_CALIBRATION", path.string());
    expect_error<IoError>([&] { read_calibrations(path); }, {"cannot read"});
    expect_error<IoError>([&] { known_calibrations(); }, {"cannot read"});
    expect_error<IoError>([&] { try_calibration_file(path); }, {"cannot read"});
  }
  expect_error<IoError>([&] { try_calibration_file("/proc/none/c.json"); }, {"/proc/none"});
  try_calibration_file(path_);
  EXPECT_TRUE(std::filesystem::is_empty(path_.parent_path()));
}

TEST_F(CalibrationFile, WhereItIs) {
  const Environment named("KITH_CALIBRATION", "/some/file.json");
  const Environment cache("XDG_CACHE_HOME", "/cache");
  const Environment home("HOME", "/home/me");
  EXPECT_EQ(calibration_file(), "/some/file.json");
  named.set("off");
  EXPECT_TRUE(calibration_file().empty());
  named.set("");
  EXPECT_EQ(calibration_file(), "/cache/kith/calibration.json");
  named.set(std::nullopt);
  EXPECT_EQ(calibration_file(), "/cache/kith/calibration.json");
  cache.set("relative");
  EXPECT_EQ(calibration_file(), "/home/me/.cache/kith/calibration.json");
  cache.set(std::nullopt);
  home.set(std::nullopt);
  EXPECT_TRUE(calibration_file().empty());
}

TEST_F(CalibrationFile, ChoicesGoByThatOfThisMachine) {
  const Environment file("KITH_CALIBRATION", path_.string());
  EXPECT_EQ(cpu_calibration(2), nullptr);
  const Calibration mine = test::calibration_of_this_cpu(some_times());
  for (int what = 0; what < 3; ++what) {
    Calibration other = mine;
    if (what == 0) other.model += " II";
    if (what == 1) other.cores += 1;
    if (what == 2) other.instruction_set = "another";
    keep_calibration(other, path_);
    EXPECT_EQ(cpu_calibration(mine.threads), nullptr) << what;
  }
  keep_calibration(mine, path_);
  ASSERT_NE(cpu_calibration(mine.threads), nullptr);
  EXPECT_EQ(cpu_calibration(mine.threads)->times.scan, 1e6);
  // Another file in its place is seen without a new process.
  Calibration later = mine;
  later.times.scan = 2e6;
  keep_calibration(later, path_);
  EXPECT_EQ(cpu_calibration(mine.threads)->times.scan, 2e6);
  // So many threads, else the most.
  Calibration more = mine;
  more.threads = 1000;
  keep_calibration(more, path_);
  EXPECT_EQ(cpu_calibration(mine.threads)->threads, mine.threads);
  EXPECT_EQ(cpu_calibration(1000)->threads, 1000);
  EXPECT_EQ(cpu_calibration(999)->threads, 1000);
  EXPECT_EQ(known_calibrations().size(), 5U);
  {
    const CalibrationsAside aside;
    EXPECT_EQ(cpu_calibration(mine.threads), nullptr);
  }
  EXPECT_NE(cpu_calibration(mine.threads), nullptr);
  std::filesystem::remove(path_);
  EXPECT_EQ(cpu_calibration(mine.threads), nullptr);
}

TEST_F(CalibrationFile, WhoNamesAFileMeansIt) {
  const Environment cache("XDG_CACHE_HOME", folder_.path().string());
  const Environment file("KITH_CALIBRATION", std::nullopt);
  std::filesystem::create_directories(folder_ / "kith");
  test::write_file(folder_ / "kith/calibration.json", "damaged");
  std::string problem;
  EXPECT_TRUE(known_calibrations(&problem).empty());
  EXPECT_TRUE(contains(problem, "calibration.json"));
  EXPECT_EQ(cpu_calibration(1), nullptr);
  file.set((folder_ / "kith/calibration.json").string());
  expect_error<IoError>([&] { known_calibrations(); }, {"calibration.json"});
  expect_error<IoError>([&] { cpu_calibration(1); }, {"calibration.json"});
}

}  // namespace
}  // namespace kith

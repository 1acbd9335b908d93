// What the tests of the formats share: a folder of their own and bytes by hand.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

#include "io/format.hpp"
#include "kith/io.hpp"
#include "support/expect_error.hpp"

namespace kith::test {

/// Little-endian bytes of a number.
template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

class IoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("kith_io_" + std::to_string(::getpid()) + "_" + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  static std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::filesystem::path operator()(const std::string& name) const { return folder_ / name; }

  std::filesystem::path folder_;
};

/// All values as doubles, row after row.
inline std::vector<double> values(const DatasetView& data) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < data.rows; ++i) {
    for (std::int64_t j = 0; j < data.dim; ++j) {
      const auto at = static_cast<std::size_t>(j);
      switch (data.dtype) {
        case Dtype::f32: all.push_back(static_cast<const float*>(data.row(i))[at]); break;
        case Dtype::f64: all.push_back(static_cast<const double*>(data.row(i))[at]); break;
        case Dtype::i8: all.push_back(static_cast<const std::int8_t*>(data.row(i))[at]); break;
        case Dtype::u8: all.push_back(static_cast<const std::uint8_t*>(data.row(i))[at]); break;
        case Dtype::f16: all.push_back(to_float(static_cast<const float16*>(data.row(i))[at])); break;
        case Dtype::bf16: all.push_back(to_float(static_cast<const bfloat16*>(data.row(i))[at])); break;
      }
    }
  }
  return all;
}

}  // namespace kith::test

// After the last test: how many searches were compared, by instruction set, filter, metric and dtype.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "conformance/check.hpp"

namespace kith::conformance {
namespace {

class Report : public testing::Environment {
 public:
  void TearDown() override {
    const Counts& count = counts();
    for (const auto& [title, rows] : count.searches) {
      std::string line;
      for (const auto& [what, searches] : rows) line += fmt::format("  {} {}", what, searches);
      fmt::print("conformance searches by {}:{}\n", title, line);
    }
    fmt::print("conformance answers compared bit by bit: {}, wrong searches: {}\n", count.answers,
               count.wrong);
    // For tools/count_tests.py, which adds up the parts the suite runs in.
    if (const char* path = std::getenv("KITH_CONFORMANCE_COUNTS"); path != nullptr) {
      const nlohmann::json json = {
          {"searches", count.searches}, {"answers", count.answers}, {"wrong", count.wrong}};
      std::ofstream(path) << json.dump() << '\n';
    }
  }
};

const auto* const report = testing::AddGlobalTestEnvironment(new Report);

}  // namespace
}  // namespace kith::conformance

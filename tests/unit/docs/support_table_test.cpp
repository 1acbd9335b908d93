// The tables of supported combinations in docs/which-index.md are what kith::supported says.
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "kith/support.hpp"

namespace kith {
namespace {

// A row an element type, a column a metric; an entry lists the backends.
std::string table(std::string_view index) {
  std::string text = "| |";
  std::string rule = "|---|";
  for (const Metric metric : all_metrics) {
    text += " `" + std::string(name(metric)) + "` |";
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  for (const Dtype dtype : all_dtypes) {
    text += "| `" + std::string(name(dtype)) + "` |";
    for (const Metric metric : all_metrics) {
      std::string backends;
      for (const Device::Kind kind : {Device::Kind::cpu, Device::Kind::cuda}) {
        if (!is_supported(index, dtype, metric, kind)) continue;
        backends += backends.empty() ? "" : ", ";
        backends += kind == Device::Kind::cpu ? "CPU" : "CUDA";
      }
      text += " " + (backends.empty() ? "-" : backends) + " |";
    }
    text += "\n";
  }
  return text;
}

TEST(Docs, TheTableOfSupportIsWhatTheLibrarySays) {
  std::ifstream file(KITH_SOURCE_DIR "/docs/which-index.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(page.empty());
  EXPECT_EQ(table("kd_tree"), table("octree")) << "the page has one table for both";
  for (const char* index : {"brute_force", "kd_tree"}) {
    EXPECT_NE(page.find(table(index)), std::string::npos) << "put this table into docs/which-index.md:\n"
                                                          << table(index);
  }
}

}  // namespace
}  // namespace kith

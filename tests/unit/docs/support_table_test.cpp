// The tables of supported combinations in docs/which-index.md are what kith::supported says.
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

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

std::string read_page(const std::string& name) {
  std::ifstream file(KITH_SOURCE_DIR "/docs/" + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Whether a heading of the page names a word.
bool has_section(const std::string& page, std::string_view word) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#') && line.find(word) != std::string::npos) return true;
  }
  return false;
}

TEST(Docs, EveryIndexTypeHasItsSections) {
  for (const IndexType& type : Indexes::types) {
    EXPECT_TRUE(has_section(read_page("cpp.md"), type.class_name)) << type.class_name << " in docs/cpp.md";
    EXPECT_TRUE(has_section(read_page("python.md"), type.class_name))
        << type.class_name << " in docs/python.md";
    EXPECT_TRUE(has_section(read_page("which-index.md"), type.name))
        << type.name << " in docs/which-index.md";
  }
}

TEST(Docs, TheTableOfSupportIsWhatTheLibrarySays) {
  const std::string page = read_page("which-index.md");
  ASSERT_FALSE(page.empty());
  EXPECT_EQ(table("kd_tree"), table("octree")) << "the page has one table for both";
  for (const char* index : {"brute_force", "kd_tree", "vamana"}) {
    EXPECT_NE(page.find(table(index)), std::string::npos) << "put this table into docs/which-index.md:\n"
                                                          << table(index);
  }
}

}  // namespace
}  // namespace kith

// Index files with a wrong header or section whose checksums are right.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/index_file.hpp"
#include "support/files.hpp"

namespace kith::test {

/// The bytes of the index file at `path` after `change` to its header and `damage` to one of its sections.
/// Writes `changed.kith` beside it.
inline std::string rewritten(const std::filesystem::path& path,
                             const std::function<void(nlohmann::json&)>& change,
                             const std::string& section = "",
                             const std::function<void(std::string&)>& damage = {}) {
  const IndexFile file = IndexFile::open(path);
  nlohmann::json header = file.header();
  std::vector<std::string> held;
  std::vector<std::string> names;
  for (const auto& entry : header.at("sections")) {
    names.push_back(entry.at("name").get<std::string>());
    const auto bytes = file.section(names.back());
    held.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (names.back() == section) damage(held.back());
  }
  header.erase("sections");
  change(header);
  std::vector<IndexSection> sections;
  for (std::size_t i = 0; i < names.size(); ++i) {
    sections.push_back(
        {names[i], held[i].size(), [&held, i](const auto& sink) { sink(held[i].data(), held[i].size()); }});
  }
  const std::filesystem::path changed = path.parent_path() / "changed.kith";
  write_index_file(changed, header, sections);
  return read_file(changed);
}

}  // namespace kith::test

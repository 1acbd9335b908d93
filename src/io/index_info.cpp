// What `inspect` says about a saved index.
#include <utility>

#include <nlohmann/json.hpp>

#include "io/format.hpp"
#include "io/index_file.hpp"

namespace kith::io {

bool is_index(const Source& source) {
  return source.starts_with("KITHIDX\n");
}

FileInfo inspect_index(const Source& source) {
  const IndexFile file = IndexFile::open(source.path, false);
  FileInfo info;
  try {
    const nlohmann::json& header = file.header();
    info.element_type = header.at("dtype").get<std::string>();
    info.rows = header.at("rows").get<std::int64_t>();
    info.dim = header.at("dim").get<std::int64_t>();
    info.details.emplace_back("index", header.at("index").get<std::string>());
    info.details.emplace_back("version", std::to_string(file.version()));
    info.details.emplace_back("metric", header.at("metric").get<std::string>());
    for (const char* key : {"kind", "codes"}) {
      if (header.contains(key)) info.details.emplace_back(key, header.at(key).get<std::string>());
    }
    // What trees, graphs and quantizers have besides; other indexes lack these keys.
    for (const auto& [key, label] : {std::pair{"bits", "bits"},
                                     {"subspaces", "subspaces"},
                                     {"points", "points"},
                                     {"nan_rows", "NaN rows"},
                                     {"leaf_size", "leaf size"},
                                     {"nodes", "nodes"},
                                     {"levels", "levels"},
                                     {"max_degree", "max degree"},
                                     {"build_list_size", "build list size"},
                                     {"code_bits", "bits a value of its codes"},
                                     {"code_values", "values a code"},
                                     {"code_bytes", "bytes a code"}}) {
      if (header.contains(key)) {
        info.details.emplace_back(label, std::to_string(header.at(key).get<std::int64_t>()));
      }
    }
    // Of a graph whose walks compare such codes; 0: as usual.
    for (const auto& [key, label] :
         {std::pair{"rabitq_bits", "bits a value of RaBitQ"}, {"pq_subspaces", "subspaces of PQ"}}) {
      if (const auto value = header.value(key, std::int64_t{0}); value > 0) {
        info.details.emplace_back(label, std::to_string(value));
      }
    }
    if (header.contains("alpha")) {
      info.details.emplace_back("alpha", fmt::format("{}", header.at("alpha").get<double>()));
    }
    if (header.contains("recall_curve")) {
      for (const auto& point : header.at("recall_curve").at("points")) {
        info.details.emplace_back(fmt::format("recall@{} with list size {}", point.at(0).get<std::int64_t>(),
                                              point.at(1).get<std::int64_t>()),
                                  fmt::format("{:.4f} ({:.4f} to {:.4f})", point.at(2).get<double>(),
                                              point.at(3).get<double>(), point.at(4).get<double>()));
      }
    }
    for (const auto& entry : header.at("sections")) {
      const auto section = entry.at("name").get<std::string>();
      info.details.emplace_back(fmt::format("section {}", section),
                                fmt::format("{} bytes", file.section(section).size()));
    }
  } catch (const nlohmann::json::exception& error) {
    throw bad_file(source, "is corrupt: its header lacks what every index has ({})", error.what());
  }
  if (info.rows < 0 || info.dim < 1) {
    throw bad_file(source, "is corrupt: its header claims {} rows of dimension {}", info.rows, info.dim);
  }
  return info;
}

}  // namespace kith::io

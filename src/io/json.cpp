// Results as JSON: {"format": "kith neighbors", "version": 1, "queries", "k", "distance_type", "indices",
// "distances"}; JSON has no infinity or NaN, so they are the string "inf" and null.
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "io/format.hpp"
#include "io/text.hpp"

namespace kith::io {
namespace {

constexpr std::string_view format_name = "kith neighbors";

struct Header {
  std::int64_t queries = 0;
  std::int64_t k = 0;
  bool doubles = false;
};

nlohmann::json parse(const Source& source) {
  if (source.size() == 0) throw bad_file(source, "is empty");
  try {
    if (!source.cancelled) return nlohmann::json::parse(source.text());
    std::uint32_t seen = 0;
    return nlohmann::json::parse(source.text(), [&](int, nlohmann::json::parse_event_t, nlohmann::json&) {
      if ((++seen & 0xFFFFU) == 0 && source.cancelled()) {
        throw Cancelled(fmt::format("reading '{}' was cancelled", source.name));
      }
      return true;
    });
  } catch (const nlohmann::json::exception& error) {
    throw bad_file(source, "is not JSON or truncated: {}", error.what());
  }
}

// Rows of both matrices are checked against the claimed shape while they are read.
Header parse_header(const nlohmann::json& root) {
  if (root.at("format").get<std::string>() != format_name || root.at("version").get<int>() != 1) {
    throw std::invalid_argument("format and version are not 'kith neighbors' and 1");
  }
  Header header;
  header.queries = root.at("queries").get<std::int64_t>();
  header.k = root.at("k").get<std::int64_t>();
  const auto type = root.at("distance_type").get<std::string>();
  if (type != "f32" && type != "f64") throw std::invalid_argument("distance_type is neither f32 nor f64");
  header.doubles = type == "f64";
  const auto& indices = root.at("indices");
  const auto& distances = root.at("distances");
  if (!indices.is_array() || !distances.is_array() || header.k < 1 || header.queries < 0 ||
      indices.size() != static_cast<std::size_t>(header.queries) || distances.size() != indices.size()) {
    throw std::invalid_argument("indices and distances are not arrays of as many rows as there are queries");
  }
  for (const auto* matrix : {&indices, &distances}) {
    for (const auto& row : *matrix) {
      if (!row.is_array() || row.size() != static_cast<std::size_t>(header.k)) {
        throw std::invalid_argument("a row of indices or distances does not have k elements");
      }
    }
  }
  return header;
}

double distance_of(const nlohmann::json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    throw std::invalid_argument("a distance is a string other than inf and -inf");
  }
  return value.get<double>();
}

template <class Function>
auto with_errors(const Source& source, Function&& function) {
  try {
    return function();
  } catch (const nlohmann::json::exception& error) {
    throw bad_file(source, "is not a result of Kith or corrupt: {}", error.what());
  } catch (const std::invalid_argument& error) {
    throw bad_file(source, "is not a result of Kith or corrupt: {}", error.what());
  }
}

template <class Value>
std::string number(Value value) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (std::isnan(value)) return "null";
    if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  }
  std::string text = fmt::format("{}", value);
  if constexpr (std::is_same_v<Value, float>) {
    // Readers of JSON go through float64; where rounding twice would miss the value, it is written out in
    // full.
    if (static_cast<float>(parse_number<double>(text).value_or(0)) != value) {
      text = fmt::format("{}", static_cast<double>(value));
    }
  }
  return text;
}

template <class Values>
void write_matrix(AtomicFile& out, std::string_view key, const Values& values, std::int64_t queries,
                  std::int64_t k) {
  out.write(fmt::format(",\n \"{}\": [", key));
  std::size_t at = 0;
  for (std::int64_t q = 0; q < queries; ++q) {
    out.write(q == 0 ? "\n  [" : ",\n  [");
    for (std::int64_t j = 0; j < k; ++j) {
      if (j > 0) out.write(", ");
      out.write(number(values[at++]));
    }
    out.write("]");
  }
  out.write("]");
}

}  // namespace

bool is_json(const Source& source) {
  return source.starts_with("{");
}

FileInfo inspect_json(const Source& source) {
  const nlohmann::json root = parse(source);
  return with_errors(source, [&] {
    const Header header = parse_header(root);
    FileInfo info;
    info.element_type = "i64";
    info.rows = header.queries;
    info.dim = header.k;
    info.details.emplace_back("distances", header.doubles ? "f64" : "f32");
    return info;
  });
}

Neighbors read_neighbors_json(const Source& source) {
  const nlohmann::json root = parse(source);
  return with_errors(source, [&] {
    const Header header = parse_header(root);
    Neighbors result = empty_neighbors(header.queries, header.k);
    std::vector<double> distances(result.indices.size());
    std::size_t at = 0;
    for (std::size_t q = 0; q < root["indices"].size(); ++q) {
      const auto& indices = root["indices"][q];
      const auto& row = root["distances"][q];
      for (std::size_t j = 0; j < indices.size(); ++j, ++at) {
        if (!indices[j].is_number_integer()) throw std::invalid_argument("an index is not an integer");
        result.indices[at] = indices[j].get<std::int64_t>();
        distances[at] = distance_of(row[j]);
      }
    }
    if (header.doubles) {
      result.distances = std::move(distances);
    } else {
      auto& floats = std::get<std::vector<float>>(result.distances);
      for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(distances[i]);
    }
    return result;
  });
}

void write_neighbors_json(AtomicFile& out, const Neighbors& neighbors) {
  out.write(
      fmt::format("{{\"format\": \"{}\", \"version\": 1, \"queries\": {}, \"k\": {}, \"distance_type\": "
                  "\"{}\"",
                  format_name, neighbors.queries, neighbors.k, name(neighbors.distance_dtype())));
  write_matrix(out, "indices", neighbors.indices, neighbors.queries, neighbors.k);
  std::visit([&](const auto& held) { write_matrix(out, "distances", held, neighbors.queries, neighbors.k); },
             neighbors.distances);
  out.write("}\n");
}

}  // namespace kith::io

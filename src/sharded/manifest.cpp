#include "sharded/manifest.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kith::sharded {
namespace {

constexpr std::string_view file_start = "shard-";
constexpr std::string_view file_end = ".kith";
constexpr std::string_view numbers_end = ".rows";

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// A name in the folder itself: no way out of it, nothing hidden.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' && std::ranges::none_of(name, [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == '\x7f';
  });
}

// JSON has more that converts to an integer than integers: fractions, truth values.
std::int64_t integer(const nlohmann::json& value) {
  require(value.is_number_integer(), "a number is no integer");
  require(!value.is_number_unsigned() || value.get<std::uint64_t>() < (std::uint64_t{1} << 63U),
          "a number is too large");
  return value.get<std::int64_t>();
}

std::uint64_t bytes_of(const nlohmann::json& object) {
  const std::int64_t bytes = integer(object.at("bytes"));
  require(bytes > 0 && bytes < (std::int64_t{1} << 56), "the bytes of a shard are none");
  return static_cast<std::uint64_t>(bytes);
}

void parse_box(const nlohmann::json& object, std::int64_t dim, Shard& shard) {
  if (!object.contains("lower")) return;
  shard.lower = object.at("lower").get<std::vector<double>>();
  shard.upper = object.at("upper").get<std::vector<double>>();
  require(std::cmp_equal(shard.lower.size(), dim) && std::cmp_equal(shard.upper.size(), dim),
          "the box of a shard is not of the rows' dimension");
  for (std::size_t j = 0; j < shard.lower.size(); ++j) {
    require(
        std::isfinite(shard.lower[j]) && std::isfinite(shard.upper[j]) && shard.lower[j] <= shard.upper[j],
        "the box of a shard is none");
  }
}

void parse_numbers(const nlohmann::json& object, Shard& shard) {
  if (!object.contains("row_numbers")) return;
  const nlohmann::json& its = object.at("row_numbers");
  shard.numbers.file = its.at("file").get<std::string>();
  shard.numbers.bytes = bytes_of(its);
  shard.numbers.hash = io::parse_hash(its.at("xxh3").get<std::string>());
  const auto rows = static_cast<std::uint64_t>(shard.rows);
  require(rows > 0 && shard.numbers.bytes % rows == 0 &&
              (shard.numbers.bytes / rows == sizeof(std::uint32_t) ||
               shard.numbers.bytes / rows == sizeof(std::uint64_t)),
          "the row numbers of a shard are not as many as its rows");
}

Shard parse_shard(const nlohmann::json& object, const Manifest& manifest, int version) {
  Shard shard;
  shard.file = object.at("file").get<std::string>();
  shard.base = integer(object.at("base"));
  shard.rows = integer(object.at("rows"));
  shard.nan_rows = integer(object.at("nan_rows"));
  shard.bytes = bytes_of(object);
  shard.hash = io::parse_hash(object.at("xxh3").get<std::string>());
  require(shard.rows >= 0 && shard.rows <= manifest.rows, "the shards do not add up to all rows");
  require(shard.nan_rows >= 0 && shard.nan_rows <= shard.rows, "the rows of a shard with a NaN are none");
  parse_box(object, manifest.dim, shard);
  if (version > 1) parse_numbers(object, shard);
  return shard;
}

// Files are plain names, and no two have one.
void check_files(const Manifest& manifest) {
  std::set<std::string> files;
  const auto check = [&](const std::string& file) {
    require(is_plain_name(file) && file != io::manifest_name, "the file of a shard is no plain name");
    require(files.insert(file).second, "two shards have one file");
  };
  for (const Shard& shard : manifest.shards) {
    check(shard.file);
    if (shard.numbers.bytes > 0) check(shard.numbers.file);
  }
}

// Shards follow each other, and those of one group share a base. Tells each how far its row numbers go.
void check_bases(Manifest& manifest) {
  std::int64_t rows = 0;
  for (std::size_t first = 0; first < manifest.shards.size();) {
    const std::int64_t base = manifest.shards[first].base;
    require(base == rows, "a shard does not begin where the one before ends");
    std::size_t last = first;
    do {
      require(manifest.shards[last].rows <= manifest.rows - rows, "the shards do not add up to all rows");
      rows += manifest.shards[last].rows;
      ++last;
    } while (last < manifest.shards.size() && manifest.shards[last - 1].numbers.bytes > 0 &&
             manifest.shards[last].numbers.bytes > 0 && manifest.shards[last].base == base);
    for (; first < last; ++first) manifest.shards[first].span = rows - base;
  }
  require(rows == manifest.rows, "the shards do not add up to all rows");
}

Manifest parse_content(const nlohmann::json& content, int version) {
  Manifest manifest;
  manifest.index = content.at("index").get<std::string>();
  manifest.dtype = parse_dtype(content.at("dtype").get<std::string>());
  manifest.metric = parse_metric(content.at("metric").get<std::string>());
  manifest.dim = integer(content.at("dim"));
  manifest.rows = integer(content.at("rows"));
  require(manifest.dim > 0 && manifest.dim < (std::int64_t{1} << 32), "the dimension is none");
  require(manifest.rows >= 0, "the rows are none");
  const auto& list = content.at("shards");
  require(list.is_array() && !list.empty() && list.size() <= std::size_t{most_shards},
          "the number of shards is none");
  for (const auto& object : list) manifest.shards.push_back(parse_shard(object, manifest, version));
  check_files(manifest);
  check_bases(manifest);
  return manifest;
}

}  // namespace

const io::ManifestKind manifest_kind = {.format = "kith shards",
                                        .what = "shards",
                                        .remedy = "build the shards again",
                                        .command = "kith shard",
                                        .newest = 2};

std::string to_text(const Manifest& manifest) {
  nlohmann::json content = {{"index", manifest.index},         {"dtype", name(manifest.dtype)},
                            {"metric", name(manifest.metric)}, {"dim", manifest.dim},
                            {"rows", manifest.rows},           {"shards", nlohmann::json::array()}};
  int version = 1;
  for (const Shard& shard : manifest.shards) {
    content["shards"].push_back({{"file", shard.file},
                                 {"base", shard.base},
                                 {"rows", shard.rows},
                                 {"nan_rows", shard.nan_rows},
                                 {"bytes", shard.bytes},
                                 {"xxh3", io::hash_text(shard.hash)}});
    nlohmann::json& object = content["shards"].back();
    if (!shard.lower.empty()) {
      object["lower"] = shard.lower;
      object["upper"] = shard.upper;
    }
    if (shard.numbers.bytes == 0) continue;
    version = 2;
    object["row_numbers"] = {{"file", shard.numbers.file},
                             {"bytes", shard.numbers.bytes},
                             {"xxh3", io::hash_text(shard.numbers.hash)}};
  }
  return io::manifest_text(manifest_kind, version, content.dump());
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  Manifest manifest;
  io::parse_manifest_text(manifest_kind, text, file, [&](int version, const nlohmann::json& content) {
    manifest = parse_content(content, version);
  });
  return manifest;
}

std::string shard_file(std::int64_t number) {
  return fmt::format("{}{}{}", file_start, number, file_end);
}

std::string numbers_file(std::int64_t number) {
  return fmt::format("{}{}{}", file_start, number, numbers_end);
}

bool is_shard_file(std::string_view name) {
  if (!name.starts_with(file_start)) return false;
  name.remove_prefix(file_start.size());
  for (const std::string_view end : {file_end, numbers_end}) {
    if (name.size() <= end.size() || !name.ends_with(end)) continue;
    return std::ranges::all_of(name.substr(0, name.size() - end.size()),
                               [](char c) { return c >= '0' && c <= '9'; });
  }
  return false;
}

}  // namespace kith::sharded

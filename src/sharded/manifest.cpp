#include "sharded/manifest.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kith::sharded {
namespace {

constexpr std::string_view file_start = "shard-";
constexpr std::string_view file_end = ".kith";

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

Manifest parse_content(const nlohmann::json& content) {
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
  std::set<std::string> files;
  std::int64_t base = 0;
  for (const auto& object : list) {
    Shard shard;
    shard.file = object.at("file").get<std::string>();
    shard.base = integer(object.at("base"));
    shard.rows = integer(object.at("rows"));
    shard.nan_rows = integer(object.at("nan_rows"));
    const std::int64_t bytes = integer(object.at("bytes"));
    shard.hash = io::parse_hash(object.at("xxh3").get<std::string>());
    require(is_plain_name(shard.file) && shard.file != io::manifest_name,
            "the file of a shard is no plain name");
    require(files.insert(shard.file).second, "two shards have one file");
    require(shard.base == base, "a shard does not begin where the one before ends");
    require(shard.rows >= 0 && shard.rows <= manifest.rows - base, "the shards do not add up to all rows");
    require(shard.nan_rows >= 0 && shard.nan_rows <= shard.rows, "the rows of a shard with a NaN are none");
    require(bytes > 0 && bytes < (std::int64_t{1} << 56), "the bytes of a shard are none");
    shard.bytes = static_cast<std::uint64_t>(bytes);
    if (object.contains("lower")) {
      shard.lower = object.at("lower").get<std::vector<double>>();
      shard.upper = object.at("upper").get<std::vector<double>>();
      const auto dim = static_cast<std::size_t>(manifest.dim);
      require(shard.lower.size() == dim && shard.upper.size() == dim,
              "the box of a shard is not of the rows' dimension");
      for (std::size_t j = 0; j < dim; ++j) {
        require(std::isfinite(shard.lower[j]) && std::isfinite(shard.upper[j]) &&
                    shard.lower[j] <= shard.upper[j],
                "the box of a shard is none");
      }
    }
    base += shard.rows;
    manifest.shards.push_back(std::move(shard));
  }
  require(base == manifest.rows, "the shards do not add up to all rows");
  return manifest;
}

}  // namespace

const io::ManifestKind manifest_kind = {.format = "kith shards",
                                        .what = "shards",
                                        .remedy = "build the shards again",
                                        .command = "kith shard",
                                        .newest = 1};

std::string to_text(const Manifest& manifest) {
  nlohmann::json content = {{"index", manifest.index},         {"dtype", name(manifest.dtype)},
                            {"metric", name(manifest.metric)}, {"dim", manifest.dim},
                            {"rows", manifest.rows},           {"shards", nlohmann::json::array()}};
  for (const Shard& shard : manifest.shards) {
    content["shards"].push_back({{"file", shard.file},
                                 {"base", shard.base},
                                 {"rows", shard.rows},
                                 {"nan_rows", shard.nan_rows},
                                 {"bytes", shard.bytes},
                                 {"xxh3", io::hash_text(shard.hash)}});
    if (shard.lower.empty()) continue;
    content["shards"].back()["lower"] = shard.lower;
    content["shards"].back()["upper"] = shard.upper;
  }
  return io::manifest_text(manifest_kind, manifest_kind.newest, content.dump());
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  Manifest manifest;
  io::parse_manifest_text(manifest_kind, text, file, [&](int /*version*/, const nlohmann::json& content) {
    manifest = parse_content(content);
  });
  return manifest;
}

std::string shard_file(std::int64_t number) {
  return fmt::format("{}{}{}", file_start, number, file_end);
}

bool is_shard_file(std::string_view name) {
  return name.starts_with(file_start) && name.ends_with(file_end);
}

}  // namespace kith::sharded

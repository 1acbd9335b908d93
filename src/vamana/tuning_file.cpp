// Tunings in files, and recall curves in these and in saved indexes.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "core/atomic_file.hpp"
#include "core/mapped_file.hpp"
#include "kith/error.hpp"
#include "kith/tuning.hpp"
#include "vamana/curve_json.hpp"

namespace kith {
namespace vamana {

nlohmann::json to_json(const RecallCurve& curve) {
  nlohmann::json points = nlohmann::json::array();
  for (const RecallPoint& p : curve.points) {
    points.push_back(
        {p.k, p.list_size, p.recall.recall, p.recall.lower, p.recall.upper, p.hops, p.distances});
  }
  return {{"queries", curve.queries}, {"points", std::move(points)}};
}

RecallCurve curve_from(const nlohmann::json& json) {
  RecallCurve curve;
  curve.queries = json.at("queries").get<std::int64_t>();
  for (const auto& p : json.at("points")) {
    RecallPoint point;
    point.k = p.at(0).get<std::int64_t>();
    point.list_size = p.at(1).get<std::int64_t>();
    point.recall = {p.at(2).get<double>(), p.at(3).get<double>(), p.at(4).get<double>()};
    point.hops = p.at(5).get<double>();
    point.distances = p.at(6).get<double>();
    if (point.k < 1 || point.list_size < 1)
      throw InvalidArgument("a point of its recall curve is out of range");
    curve.points.push_back(point);
  }
  return curve;
}

}  // namespace vamana

namespace {

constexpr int version = 1;
constexpr const char* key = "kith_tuning";

std::string hex(std::uint64_t number) {
  return fmt::format("{:016x}", number);
}

std::string checksum(const nlohmann::json& json) {
  const std::string text = json.dump();
  return hex(XXH3_64bits(text.data(), text.size()));
}

Tuning tuning_from(nlohmann::json json) {
  if (const int has = json.at(key).get<int>(); has != version) {
    throw InvalidArgument(
        fmt::format("it has version {}; this Kith reads {}, use a newer one", has, version));
  }
  const auto said = json.at("checksum").get<std::string>();
  json.erase("checksum");
  if (checksum(json) != said) throw InvalidArgument("its checksum does not match; run kith tune again");
  Tuning tuning;
  tuning.graph_hash = std::stoull(json.at("graph_hash").get<std::string>(), nullptr, 16);
  tuning.curve = vamana::curve_from(json.at("recall_curve"));
  tuning.queries_per_second = json.at("queries_per_second").get<std::vector<double>>();
  if (tuning.queries_per_second.size() != tuning.curve.points.size()) {
    throw InvalidArgument("it has other rates than points");
  }
  const auto& its = json.at("distribution");
  const auto number = [&](const char* name) {
    const auto& value = its.at(name);
    return value.is_null() ? std::nan("") : value.get<double>();
  };
  tuning.distribution = {its.at("rows").get<std::int64_t>(), number("difference"), number("p_value"),
                         number("queries_median"), number("rows_median")};
  return tuning;
}

}  // namespace

void write_tuning(const std::filesystem::path& path, const Tuning& tuning,
                  const std::function<bool()>& cancelled) {
  const QueryDistribution& its = tuning.distribution;
  nlohmann::json json = {{key, version},
                         {"graph_hash", hex(tuning.graph_hash)},
                         {"recall_curve", vamana::to_json(tuning.curve)},
                         {"queries_per_second", tuning.queries_per_second},
                         {"distribution",
                          {{"rows", its.rows},
                           {"difference", its.difference},
                           {"p_value", its.p_value},
                           {"queries_median", its.queries_median},
                           {"rows_median", its.rows_median}}}};
  json["checksum"] = checksum(json);
  AtomicFile out(path, cancelled);
  out.write(json.dump(1) + "\n");
  out.commit();
}

Tuning read_tuning(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const char* text = reinterpret_cast<const char*>(file->bytes().data());
  nlohmann::json json = nlohmann::json::parse(text, text + file->size(), nullptr, false);
  if (!json.is_object() || !json.contains(key)) {
    throw IoError(fmt::format("'{}' is no tuning; kith tune makes one with -o", path.string()));
  }
  try {
    return tuning_from(std::move(json));
  } catch (const nlohmann::json::exception& error) {
    throw IoError(
        fmt::format("'{}' is corrupt: it lacks what a tuning has ({})", path.string(), error.what()));
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("'{}' cannot be used: {}", path.string(), error.what()));
  } catch (const std::logic_error&) {  // of std::stoull
    throw IoError(fmt::format("'{}' is corrupt: its graph_hash is no number", path.string()));
  }
}

}  // namespace kith

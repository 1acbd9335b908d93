// kith info: what files hold, from their headers; with --stats from their values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "failure.hpp"
#include "input.hpp"
#include "shards.hpp"
#include "stream.hpp"
#include "tiles.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string member;
  std::string input_format;
  bool statistics = false;
};

struct Statistics {
  double minimum = std::numeric_limits<double>::infinity();
  double maximum = -std::numeric_limits<double>::infinity();
  double sum = 0;
  std::int64_t finite = 0;
  std::int64_t nan_rows = 0;
  std::int64_t infinite_rows = 0;
  std::int64_t zero_rows = 0;
  std::int64_t duplicate_rows = 0;
};

double value_at(const DatasetView& data, const void* row, std::int64_t j) {
  switch (data.dtype) {
    case Dtype::f32: return static_cast<const float*>(row)[j];
    case Dtype::f16: return to_float(static_cast<const float16*>(row)[j]);
    case Dtype::bf16: return to_float(static_cast<const bfloat16*>(row)[j]);
    case Dtype::i8: return static_cast<const std::int8_t*>(row)[j];
    case Dtype::u8: return static_cast<const std::uint8_t*>(row)[j];
    case Dtype::f64: return static_cast<const double*>(row)[j];
  }
  return 0;
}

// Rows whose bytes equal an earlier row's: sorted by hash, then compared; O(n log n).
std::int64_t count_duplicates(const DatasetView& data) {
  const auto bytes = static_cast<std::size_t>(data.dim) * size_of(data.dtype);
  const auto text = [&](std::int64_t i) {
    return std::string_view(static_cast<const char*>(data.row(i)), bytes);
  };
  std::vector<std::pair<std::size_t, std::int64_t>> order;
  order.reserve(static_cast<std::size_t>(data.rows));
  for (std::int64_t i = 0; i < data.rows; ++i) order.emplace_back(std::hash<std::string_view>{}(text(i)), i);
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : text(a.second) < text(b.second);
  });
  std::int64_t duplicates = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    duplicates +=
        order[i].first == order[i - 1].first && text(order[i].second) == text(order[i - 1].second) ? 1 : 0;
  }
  return duplicates;
}

Statistics measure(const DatasetView& data) {
  Statistics out;
  for (std::int64_t i = 0; i < data.rows; ++i) {
    const void* row = data.row(i);
    bool has_nan = false;
    bool has_infinity = false;
    bool all_zero = true;
    for (std::int64_t j = 0; j < data.dim; ++j) {
      const double value = value_at(data, row, j);
      all_zero = all_zero && value == 0;
      if (std::isfinite(value)) {
        out.minimum = std::min(out.minimum, value);
        out.maximum = std::max(out.maximum, value);
        out.sum += value;
        ++out.finite;
      } else {
        (std::isnan(value) ? has_nan : has_infinity) = true;
      }
    }
    out.nan_rows += has_nan ? 1 : 0;
    out.infinite_rows += has_infinity ? 1 : 0;
    out.zero_rows += all_zero ? 1 : 0;
  }
  out.duplicate_rows = count_duplicates(data);
  return out;
}

bool holds_vectors(FileFormat format) {
  switch (format) {
    case FileFormat::ivecs:
    case FileFormat::ibin:
    case FileFormat::json:
    case FileFormat::table:
    case FileFormat::index: return false;
    default: return true;
  }
}

nlohmann::ordered_json describe_file(const std::string& given, Source& source, const Options& options) {
  const FileInfo info = inspect(source.path, source.format);
  nlohmann::ordered_json object = {
      {"file", given},   {"format", name(info.format)}, {"dtype", info.element_type}, {"rows", info.rows},
      {"dim", info.dim}, {"bytes", info.bytes}};
  nlohmann::ordered_json details = nlohmann::ordered_json::object();
  for (const auto& [key, value] : info.details) details[key] = value;
  object["details"] = std::move(details);
  if (!options.statistics) return object;
  if (!holds_vectors(info.format)) {
    throw InvalidArgument(fmt::format("'{}' is {}, which holds no vectors to measure; leave out --stats",
                                      given, name(info.format)));
  }
  source.member = options.member;
  source.default_member = "train";
  const Dataset data = load(source);
  const Statistics s = measure(data);
  object["stats"] = {{"rows", data.rows()},
                     {"dim", data.dim()},
                     {"minimum", s.minimum},
                     {"maximum", s.maximum},
                     {"mean", s.finite > 0 ? s.sum / static_cast<double>(s.finite)
                                           : std::numeric_limits<double>::quiet_NaN()},
                     {"nan_rows", s.nan_rows},
                     {"infinite_rows", s.infinite_rows},
                     {"zero_rows", s.zero_rows},
                     {"duplicate_rows", s.duplicate_rows}};
  return object;
}

void show(const nlohmann::ordered_json& object) {
  std::size_t width = 16;
  for (const auto& [key, value] : object.at("details").items()) width = std::max(width, key.size() + 2);
  const auto line = [width](const std::string& what, const std::string& value) {
    print(fmt::format("  {:<{}}{}\n", what, width, value));
  };
  const auto text = [](const nlohmann::ordered_json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_float())
      return std::isfinite(value.get<double>()) ? format_number(value.get<double>()) : "-";
    return value.is_number_integer() ? format_count(value.get<std::int64_t>()) : value.dump();
  };
  print(object.at("file").get<std::string>() + "\n");
  for (const char* key : {"format", "dtype", "rows", "dim"}) line(key, text(object.at(key)));
  line("size", format_bytes(object.at("bytes").get<double>()));
  for (const auto& [key, value] : object.at("details").items()) line(key, text(value));
  if (!object.contains("stats")) return;
  const auto& stats = object.at("stats");
  line("values", fmt::format("{} to {}, mean {}", text(stats.at("minimum")), text(stats.at("maximum")),
                             text(stats.at("mean"))));
  for (const auto& [key, label] : {std::pair{"nan_rows", "NaN rows"},
                                   {"infinite_rows", "infinite rows"},
                                   {"zero_rows", "zero rows"},
                                   {"duplicate_rows", "duplicate rows"}}) {
    line(label, text(stats.at(key)));
  }
}

void run(const Common& common, const Options& options) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::exception_ptr first_failure;
  // One by one, so that a file that is missing does not hide the others. The format is for those whose names
  // tell none, or for all if every name tells one.
  const bool all_tell = std::ranges::all_of(
      options.files, [](const std::string& path) { return format_of_extension(path).has_value(); });
  for (const std::string& path : options.files) {
    try {
      if (is_tiles(path)) {
        if (options.statistics) {
          throw InvalidArgument(fmt::format("'{}' is a folder; --stats is for files", path));
        }
        list.push_back(is_shards(path) ? describe_shards(path) : describe_tiles(path));
        if (!common.json) show(list.back());
        continue;
      }
      Source source;
      source.path = path;
      const bool named = all_tell || !format_of_extension(path);
      open_inputs(common, {&source}, named ? options.input_format : "");
      nlohmann::ordered_json object = describe_file(path, source, options);
      if (!common.json) show(object);
      list.push_back(std::move(object));
    } catch (const Error& error) {
      // The other files are still described; the first failure decides the exit status.
      if (first_failure != nullptr) {
        fmt::print(stderr, "kith info: error: {}\n", error.what());
      } else {
        first_failure = std::current_exception();
      }
    }
  }
  if (common.json && (first_failure == nullptr || !list.empty()))
    print_ordered_json(nlohmann::ordered_json{{"files", list}});
  flush_stdout();
  if (first_failure != nullptr) std::rethrow_exception(first_failure);
}

}  // namespace

void add_info(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  CLI::App& command = add_command(app, common, "info", "Show what files hold: format, rows, dimension, index",
                                  [options, &common] { run(common, *options); });
  common.file(
      command
          .add_option("FILE", options->files,
                      "Vectors, point clouds, results or saved indexes, folders of point tiles or shards")
          ->type_name("FILE")
          ->required());
  command
      .add_flag("--stats", options->statistics,
                "Read the values too: smallest, largest, mean, rows with NaN or infinity, zero rows, rows "
                "equal to an earlier one")
      ->group("Contents");
  command.add_option("--member", options->member, "HDF5 files: the dataset --stats reads [default: train]")
      ->type_name("NAME")
      ->needs("--stats")
      ->group("Contents");
  auto formats = vector_and_result_formats();
  formats.emplace_back("index", "");
  add_input_format_option(command, common, options->input_format, {"FILE"}, formats);
  common.about(command).examples = {{"kith info base.fvecs", "Format, rows, dimension and element type."},
                                    {"kith info scan.las --stats", "Also what the values are like."},
                                    {"kith info *.npy --json", "Many files, for a program."}};
}

}  // namespace kith::cli

// Saves and loads what a quantizer has learnt, as an index file whose sections hold no rows.
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codes/coding.hpp"
#include "core/int128.hpp"
#include "core/search_checks.hpp"
#include "kith/error.hpp"

namespace kith::codes {
namespace {

constexpr const char* type_name = "quantizer";
// Of what is in the header and the sections; the file around them has a version of its own.
constexpr int layout = 1;

template <class T>
std::vector<T> finite_section(const Kept& kept, std::string_view its_name, std::int64_t count) {
  const std::string name = kept.prefix + std::string(its_name);
  const auto bytes = kept.file.section(name);
  if (static_cast<int128>(bytes.size()) != static_cast<int128>(count) * static_cast<int128>(sizeof(T))) {
    throw InvalidArgument(
        fmt::format("its section '{}' has {} bytes, which are not {} values", name, bytes.size(), count));
  }
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  for (const T value : values) {
    if (!std::isfinite(value)) {
      throw InvalidArgument(fmt::format("its section '{}' has a value that is not finite", name));
    }
  }
  return values;
}

CodesParameters parameters_from(const nlohmann::json& header) {
  const Metric metric = parse_metric(header.at("metric").get<std::string>());
  const CodeKind kind = parse_code_kind(header.at("kind").get<std::string>());
  if (kind == CodeKind::scalar) return ScalarCodesParameters{metric, header.at("bits").get<std::int64_t>()};
  if (kind == CodeKind::rabitq) {
    return RabitqParameters{metric, header.at("bits").get<std::int64_t>(),
                            header.at("seed").get<std::uint64_t>()};
  }
  return PqParameters{metric,
                      header.at("subspaces").get<std::int64_t>(),
                      header.at("rotate").get<bool>(),
                      header.at("iterations").get<std::int64_t>(),
                      header.at("training_rows").get<std::int64_t>(),
                      header.at("seed").get<std::uint64_t>()};
}

void write(nlohmann::json& header, const ScalarCodesParameters& parameters) {
  header["bits"] = parameters.bits;
}
void write(nlohmann::json& header, const RabitqParameters& parameters) {
  header["bits"] = parameters.bits;
  header["seed"] = parameters.seed;
}
void write(nlohmann::json& header, const PqParameters& parameters) {
  header["subspaces"] = parameters.subspaces;
  header["rotate"] = parameters.rotate;
  header["iterations"] = parameters.iterations;
  header["training_rows"] = parameters.training_rows;
  header["seed"] = parameters.seed;
}

std::shared_ptr<const Quantizer::State> read(const IndexFile& file) {
  const auto& header = file.header();
  if (header.at("layout").get<int>() != layout) {
    throw InvalidArgument(fmt::format("it has layout {}; this Kith reads {}, use a newer one",
                                      header.at("layout").get<int>(), layout));
  }
  auto state = std::make_shared<Quantizer::State>();
  state->rows.dtype = parse_dtype(header.at("dtype").get<std::string>());
  state->rows.dim = header.at("dim").get<std::int64_t>();
  if (state->rows.dim < 1) throw InvalidArgument(fmt::format("its dimension is {}", state->rows.dim));
  state->parameters = parameters_from(header);
  check_parameters(state->parameters, state->rows.dim);
  state->coding = std::visit(
      [&](const auto& its) -> std::unique_ptr<const Coding> {
        using Parameters = std::decay_t<decltype(its)>;
        if constexpr (std::is_same_v<Parameters, ScalarCodesParameters>) {
          return load_scalar({file, header}, state->rows, its);
        } else if constexpr (std::is_same_v<Parameters, RabitqParameters>) {
          return load_rabitq({file, header}, state->rows, its);
        } else {
          return load_pq({file, header}, state->rows, its);
        }
      },
      state->parameters);
  return state;
}

}  // namespace

std::vector<double> finite_doubles(const Kept& kept, std::string_view name, std::int64_t count) {
  return finite_section<double>(kept, name, count);
}

std::vector<float> finite_floats(const Kept& kept, std::string_view name, std::int64_t count) {
  return finite_section<float>(kept, name, count);
}

void save(const Quantizer::State& state, const std::filesystem::path& path, const Execution& execution) {
  const auto metric = std::visit([](const auto& its) { return its.metric; }, state.parameters);
  nlohmann::json header = {{"index", type_name},
                           {"layout", layout},
                           {"kind", name(static_cast<CodeKind>(state.parameters.index()))},
                           {"rows", 0},
                           {"dim", state.rows.dim},
                           {"dtype", name(state.rows.dtype)},
                           {"metric", name(metric)}};
  std::visit([&](const auto& its) { write(header, its); }, state.parameters);
  std::vector<IndexSection> sections;
  state.coding->save(header, sections);
  write_index_file(path, std::move(header), sections, execution.cancelled);
}

std::shared_ptr<const Quantizer::State> load(const std::filesystem::path& path, const Execution& execution) {
  const IndexFile file = IndexFile::open(path, true, execution.cancelled);
  try {
    const auto type = file.header().at("index").get<std::string>();
    if (type != type_name) {
      throw IoError(fmt::format("'{}' holds an index of type {}, not a quantizer", path.string(), type));
    }
    return or_out_of_memory([&] { return fmt::format("the quantizer '{}'", path.string()); },
                            [&] { return read(file); });
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("'{}' is corrupt: its header lacks what a quantizer has ({})", path.string(),
                              error.what()));
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("'{}' is corrupt: {}", path.string(), error.what()));
  }
}

}  // namespace kith::codes

// Quantizers for Python: rows and codes in, NumPy arrays over the library's memory out.
#include "_codes.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "_answer.hpp"
#include "_io.hpp"
#include "_rows.hpp"
#include "_run.hpp"
#include "kith/codes.hpp"
#include "kith/error.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

using Number = std::optional<std::int64_t>;

// What the kind does not know is refused by name.
CodesParameters parameters_from(const std::string& kind_name, const std::string& metric_name, Number bits,
                                Number subspaces, std::optional<bool> rotate, Number iterations,
                                Number training_rows, std::optional<std::uint64_t> seed) {
  const CodeKind kind = parse_code_kind(kind_name);
  const Metric metric = parse_metric(metric_name);
  const auto refuse = [&](bool given, const char* what, const char* whose) {
    if (!given) return;
    throw InvalidArgument(
        fmt::format("{} is for {} codes, not for {}; leave it out", what, whose, kind_name));
  };
  if (kind == CodeKind::pq) {
    refuse(bits.has_value(), "bits", "scalar and rabitq");
    PqParameters pq{.metric = metric};
    pq.subspaces = subspaces.value_or(pq.subspaces);
    pq.rotate = rotate.value_or(pq.rotate);
    pq.iterations = iterations.value_or(pq.iterations);
    pq.training_rows = training_rows.value_or(pq.training_rows);
    pq.seed = seed.value_or(pq.seed);
    return pq;
  }
  refuse(subspaces.has_value(), "subspaces", "pq");
  refuse(rotate.has_value(), "rotate", "pq");
  refuse(iterations.has_value(), "iterations", "pq");
  refuse(training_rows.has_value(), "training_rows", "pq");
  if (kind == CodeKind::scalar) {
    refuse(seed.has_value(), "seed", "rabitq and pq");
    ScalarCodesParameters scalar{.metric = metric};
    scalar.bits = bits.value_or(scalar.bits);
    return scalar;
  }
  RabitqParameters rabitq{.metric = metric};
  rabitq.bits = bits.value_or(rabitq.bits);
  rabitq.seed = seed.value_or(rabitq.seed);
  return rabitq;
}

Quantizer train(const Rows& rows, const std::string& kind, const std::string& metric, Number bits,
                Number subspaces, std::optional<bool> rotate, Number iterations, Number training_rows,
                std::optional<std::uint64_t> seed, std::int64_t threads, std::int64_t memory_limit,
                const nb::object& report) {
  const CodesParameters parameters =
      parameters_from(kind, metric, bits, subspaces, rotate, iterations, training_rows, seed);
  std::optional<Quantizer> quantizer;
  run(make_execution({threads, memory_limit, 0, "cpu"}), report, false,
      [&](const Execution& execution) { quantizer = Quantizer::train(rows.dataset, parameters, execution); });
  return *std::move(quantizer);
}

nb::object encode(const Quantizer& self, const Rows& rows, std::int64_t threads, std::int64_t memory_limit,
                  const nb::object& report) {
  Dataset codes;
  run(make_execution({threads, memory_limit, 0, "cpu"}), report, false,
      [&](const Execution& execution) { codes = self.encode(rows.dataset, execution); });
  return to_numpy(std::move(codes));
}

nb::object decode(const Quantizer& self, const Rows& codes, std::int64_t threads, std::int64_t memory_limit,
                  const nb::object& report) {
  Dataset rows;
  run(make_execution({threads, memory_limit, 0, "cpu"}), report, false,
      [&](const Execution& execution) { rows = self.decode(codes.dataset, execution); });
  return to_numpy(std::move(rows));
}

nb::tuple estimate(const Quantizer& self, const Rows& queries, const Rows& codes, double confidence,
                   std::int64_t threads, std::int64_t memory_limit, const nb::object& report) {
  Estimates found;
  run(make_execution({threads, memory_limit, 0, "cpu"}), report, false, [&](const Execution& execution) {
    found = self.estimate(queries.dataset, codes.dataset, execution, confidence);
  });
  const auto q = static_cast<std::size_t>(found.queries);
  const auto n = static_cast<std::size_t>(found.rows);
  const bool bounded = self.kind() == CodeKind::rabitq;
  nb::object distances = own(std::move(found.distances), {q, n});
  return nb::make_tuple(distances, bounded ? own(std::move(found.bounds), {q, n}) : nb::none());
}

nb::tuple search(const Quantizer& self, const Rows& queries, const Rows& codes, std::int64_t k,
                 std::int64_t threads, std::int64_t memory_limit, const nb::object& report) {
  Neighbors found;
  run(make_execution({threads, memory_limit, 0, "cpu"}), report, false,
      [&](const Execution& execution) { found = self.search(queries.dataset, codes.dataset, k, execution); });
  return to_python(std::move(found));
}

double reconstruction_error(const Quantizer& self, const Rows& rows, const Rows& codes, std::int64_t threads,
                            const nb::object& report) {
  double error = 0;
  run(make_execution({threads, 0, 0, "cpu"}), report, false, [&](const Execution& execution) {
    error = self.reconstruction_error(rows.dataset, codes.dataset, execution);
  });
  return error;
}

void save(const Quantizer& self, const std::filesystem::path& path) {
  run(make_execution({0, 0, 0, "cpu"}), nb::none(), false,
      [&](const Execution& execution) { self.save(path, execution); });
}

Quantizer load(const std::filesystem::path& path) {
  std::optional<Quantizer> quantizer;
  run(make_execution({0, 0, 0, "cpu"}), nb::none(), false,
      [&](const Execution& execution) { quantizer = Quantizer::load(path, execution); });
  return *std::move(quantizer);
}

nb::dict parameters(const Quantizer& self) {
  nb::dict out;
  if (const auto* scalar = std::get_if<ScalarCodesParameters>(&self.parameters())) out["bits"] = scalar->bits;
  if (const auto* rabitq = std::get_if<RabitqParameters>(&self.parameters())) {
    out["bits"] = rabitq->bits;
    out["seed"] = rabitq->seed;
  }
  if (const auto* pq = std::get_if<PqParameters>(&self.parameters())) {
    out["subspaces"] = pq->subspaces;
    out["rotate"] = pq->rotate;
    out["iterations"] = pq->iterations;
    out["training_rows"] = pq->training_rows;
    out["seed"] = pq->seed;
  }
  return out;
}

}  // namespace

void bind_codes(nb::module_& module) {
  nb::class_<Quantizer>(module, "Quantizer", "A trained way of encoding rows; copies share it.")
      .def("encode", &encode, nb::arg("rows"), nb::arg("threads"), nb::arg("memory_limit"),
           nb::arg("report").none(), "Codes [n, code_bytes] of rows.")
      .def("decode", &decode, nb::arg("codes"), nb::arg("threads"), nb::arg("memory_limit"),
           nb::arg("report").none(), "What codes stand for, [n, dim].")
      .def("estimate", &estimate, nb::arg("queries"), nb::arg("codes"), nb::arg("confidence"),
           nb::arg("threads"), nb::arg("memory_limit"), nb::arg("report").none(),
           "(distances, bounds or None), both [q, n].")
      .def("search", &search, nb::arg("queries"), nb::arg("codes"), nb::arg("k"), nb::arg("threads"),
           nb::arg("memory_limit"), nb::arg("report").none(),
           "(distances, indices, statistics) of the k smallest estimates of each query.")
      .def("reconstruction_error", &reconstruction_error, nb::arg("rows"), nb::arg("codes"),
           nb::arg("threads"), nb::arg("report").none(), "Share of the variance that the codes lose.")
      .def("save", &save, nb::arg("path"), "Writes one file, whole or not at all.")
      .def_prop_ro(
          "kind", [](const Quantizer& self) { return std::string(name(self.kind())); }, "Name of the kind.")
      .def_prop_ro(
          "metric", [](const Quantizer& self) { return std::string(name(self.metric())); },
          "Name of the metric.")
      .def_prop_ro(
          "dtype", [](const Quantizer& self) { return numpy_name(self.dtype()); },
          "Element type of rows, as NumPy names it.")
      .def_prop_ro("dim", &Quantizer::dim, "Elements a row.")
      .def_prop_ro("code_bytes", &Quantizer::code_bytes, "Bytes a row.")
      .def_prop_ro("memory_bytes", &Quantizer::memory_bytes, "Bytes that the quantizer holds.")
      .def_prop_ro("parameters", &parameters, "What it was trained with.");
  module.def("train_quantizer", &train, nb::arg("rows"), nb::arg("kind"), nb::arg("metric"),
             nb::arg("bits").none(), nb::arg("subspaces").none(), nb::arg("rotate").none(),
             nb::arg("iterations").none(), nb::arg("training_rows").none(), nb::arg("seed").none(),
             nb::arg("threads"), nb::arg("memory_limit"), nb::arg("report").none(),
             "Learns how to code such rows.");
  module.def("load_quantizer", &load, nb::arg("path"), "Opens a saved quantizer.");
}

}  // namespace kith::python

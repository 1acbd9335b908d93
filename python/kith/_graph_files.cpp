// Graphs and product quantizers of other libraries for Python.
#include "_graph_files.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "_answer.hpp"
#include "_rows.hpp"
#include "_run.hpp"
#include "_tuning.hpp"
#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "kith/graph_files.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

using Name = std::optional<std::string>;

nb::tuple import_(const std::filesystem::path& path, const Name& format, const Name& metric,
                  const Name& dtype, const Rows* vectors, bool any_labels, const CallLimits& limits,
                  const nb::object& report) {
  GraphImport options{.any_labels = any_labels};
  if (format) options.format = parse_graph_format(*format);
  if (metric) options.metric = parse_metric(*metric);
  if (dtype) options.dtype = parse_dtype(*dtype);
  if (vectors != nullptr) options.vectors = vectors->dataset;
  std::optional<ImportedGraph> imported;
  run(make_execution(limits), report, false,
      [&](const Execution& execution) { imported = import_graph(path, options, execution); });
  const std::size_t count = imported->labels.size();
  nb::object labels = nb::none();
  if (count > 0) labels = own(std::move(imported->labels), {count});
  return nb::make_tuple(AnyIndex(imported->index), std::string(name(imported->format)), labels);
}

std::vector<std::filesystem::path> export_(const AnyIndex& index, const std::filesystem::path& path,
                                           const std::string& format, const CallLimits& limits,
                                           const nb::object& report) {
  const Vamana& graph = vamana_of(index);
  const GraphFormat wanted = parse_graph_format(format);
  std::vector<std::filesystem::path> files;
  run(make_execution(limits), report, false,
      [&](const Execution& execution) { files = export_graph(graph, path, wanted, execution); });
  return files;
}

Quantizer import_quantizer(const std::filesystem::path& path, const std::string& metric,
                           const std::string& dtype) {
  const Metric its_metric = parse_metric(metric);
  const Dtype its_dtype = parse_dtype(dtype);
  std::optional<Quantizer> quantizer;
  run(make_execution({0, 0, 0, "cpu"}), nb::none(), false,
      [&](const Execution& execution) { quantizer = import_pq(path, its_metric, its_dtype, execution); });
  return *std::move(quantizer);
}

std::vector<std::filesystem::path> export_quantizer(const Quantizer& quantizer,
                                                    const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  run(make_execution({0, 0, 0, "cpu"}), nb::none(), false,
      [&](const Execution& execution) { files = export_pq(quantizer, path, execution); });
  return files;
}

}  // namespace

void bind_graph_files(nb::module_& module) {
  module.def("import_graph", &import_, nb::arg("path"), nb::arg("format").none(), nb::arg("metric").none(),
             nb::arg("dtype").none(), nb::arg("vectors").none(), nb::arg("any_labels"), nb::arg("limits"),
             nb::arg("report").none(), "(index, format, labels or None) of another library's graph.");
  module.def("export_graph", &export_, nb::arg("index"), nb::arg("path"), nb::arg("format"),
             nb::arg("limits"), nb::arg("report").none(),
             "Writes a graph as another library's; the files written.");
  module.def("import_pq", &import_quantizer, nb::arg("path"), nb::arg("metric"), nb::arg("dtype"),
             "The product quantizer of DiskANN's P_pq_pivots.bin.");
  module.def("export_pq", &export_quantizer, nb::arg("quantizer"), nb::arg("path"),
             "Writes such a file; the files written.");
}

}  // namespace kith::python

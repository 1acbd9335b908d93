// The module kith._kith: what the Python files beside it stand on. Everything here takes plain
// arguments; defaults, promotion of element types and documentation for people are in Python.
#include <filesystem>
#include <functional>
#include <new>
#include <optional>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "_answer.hpp"
#include "_gil.hpp"
#include "_gpu.hpp"
#include "_io.hpp"
#include "_rows.hpp"
#include "_run.hpp"
#include "kith/any_index.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/version.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

// The library's exceptions become those of kith/_errors.py, which also derive from Python's own.
void translate(const std::exception_ptr& error, void* /*payload*/) {
  const auto raise = [](const char* type, const char* message) {
    const nb::object cls = nb::module_::import_("kith._errors").attr(type);
    PyErr_SetString(cls.ptr(), message);
  };
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& e) {
    raise("InvalidArgument", e.what());
  } catch (const OutOfMemory& e) {
    raise("OutOfMemory", e.what());
  } catch (const DeviceError& e) {
    raise("DeviceError", e.what());
  } catch (const IoError& e) {
    raise("IoError", e.what());
  } catch (const Cancelled& e) {
    raise("Cancelled", e.what());
  } catch (const Error& e) {
    raise("Error", e.what());
  } catch (const std::bad_alloc&) {
    raise("OutOfMemory",
          "the machine has no memory left for this call; use fewer rows, fewer queries or a smaller k");
  }
}

// Below this many element comparisons a call ends before anybody could press Ctrl-C, and a thread of
// its own would cost more than the search. A GPU does more in that time.
constexpr double quick_work = 4e6;
constexpr double quick_gpu_work = 4e8;

bool is_quick(const Execution& execution, std::int64_t rows, std::int64_t queries, std::int64_t dim) {
  const bool gpu = !execution.devices.empty() && execution.devices.front().kind == Device::Kind::cuda;
  return static_cast<double>(rows) * static_cast<double>(queries) * static_cast<double>(dim) <=
         (gpu ? quick_gpu_work : quick_work);
}

BruteForceParameters parameters_from(const std::string& metric, const std::string& filter) {
  return {parse_metric(metric), parse_filter(filter)};
}

// The two ways to leave an answer.
struct Search {
  std::function<Neighbors(const Execution&)> to_host;
  std::function<SearchStatistics(const NeighborsView&, const Execution&)> into;
};

// Queries on a GPU are answered there, others on the host.
nb::tuple search_for(const Execution& asked, const nb::object& report, bool quick, const DatasetView& queries,
                     std::int64_t k, const Search& search) {
  if (queries.space == MemorySpace::host) {
    Neighbors answer;
    run(asked, report, quick, [&](const Execution& execution) { answer = search.to_host(execution); });
    return to_python(std::move(answer));
  }
  std::optional<GpuAnswer> answer;
  SearchStatistics statistics;
  run(asked, report, quick, [&](const Execution& execution) {
    Execution following = execution;
    follow_queries(following, queries);
    answer.emplace(queries.rows, k, distance_dtype(queries.dtype), queries.device);
    statistics = search.into(answer->view(), following);
  });
  return answer->to_python(statistics);
}

nb::tuple knn_call(const Rows& dataset, const Rows& queries, std::int64_t k, const std::string& metric,
                   const std::string& filter, std::int64_t threads, std::int64_t memory_limit,
                   const std::string& device, const nb::object& report) {
  const auto parameters = parameters_from(metric, filter);
  const DatasetView& x = dataset.dataset;
  const DatasetView& q = queries.dataset;
  const Execution asked = make_execution(threads, memory_limit, device);
  return search_for(asked, report, is_quick(asked, x.rows, q.rows, x.dim), q, k,
                    {[&](const Execution& execution) {
                       follow_rows(x);
                       return knn(x, q, k, parameters, execution);
                     },
                     [&](const NeighborsView& out, const Execution& execution) {
                       follow_rows(x);
                       return knn_into(x, q, out, parameters, execution);
                     }});
}

AnyIndex build_index(const std::string& type, const Rows& dataset, const std::string& metric,
                     const std::string& filter, std::int64_t threads, std::int64_t memory_limit,
                     const std::string& device, const nb::object& report) {
  const auto parameters = parameters_from(metric, filter);
  std::optional<AnyIndex> index;
  const Execution asked = make_execution(threads, memory_limit, device);
  run(asked, report, is_quick(asked, dataset.dataset.rows(), 1, dataset.dataset.dim()),
      [&](const Execution& execution) {
        follow_rows(dataset.dataset);
        index = AnyIndex::build(type, dataset.dataset, parameters, execution);
      });
  return *std::move(index);
}

AnyIndex load_index(const std::filesystem::path& path, std::int64_t threads, std::int64_t memory_limit,
                    const std::string& device, const nb::object& report) {
  std::optional<AnyIndex> index;
  run(make_execution(threads, memory_limit, device), report, false,
      [&](const Execution& execution) { index = AnyIndex::load(path, execution); });
  return *std::move(index);
}

nb::tuple search_index(const AnyIndex& index, const Rows& queries, std::int64_t k, std::int64_t threads,
                       std::int64_t memory_limit, const std::string& device, const nb::object& report) {
  const DatasetView& q = queries.dataset;
  const Execution asked = make_execution(threads, memory_limit, device);
  return search_for(asked, report, is_quick(asked, index.rows(), q.rows, index.dim()), q, k,
                    {[&](const Execution& execution) { return index.search(q, k, execution); },
                     [&](const NeighborsView& out, const Execution& execution) {
                       return index.search_into(q, out, execution);
                     }});
}

void save_index(const AnyIndex& index, const std::filesystem::path& path, const nb::object& report) {
  run(make_execution(0, 0, "cpu"), report, false,
      [&](const Execution& execution) { index.save(path, execution); });
}

nb::list device_list() {
  nb::list out;
  for (const DeviceInfo& info : devices()) {
    nb::dict entry;
    entry["name"] = name(info.device);
    entry["description"] = info.description;
    entry["memory_bytes"] = info.memory_bytes;
    entry["cores"] = info.cores;
    entry["instruction_sets"] = info.instruction_sets;
    entry["usable"] = info.usable;
    entry["note"] = info.note;
    out.append(entry);
  }
  return out;
}

void bind_index(nb::module_& module) {
  nb::class_<AnyIndex>(module, "Index", "A built index of any type; copies share it.")
      .def("search", &search_index, nb::arg("queries"), nb::arg("k"), nb::arg("threads"),
           nb::arg("memory_limit"), nb::arg("device"), nb::arg("report").none(),
           "(distances, indices, statistics) of the k nearest rows of each query.")
      .def("save", &save_index, nb::arg("path"), nb::arg("report").none(),
           "Writes one file, whole or not at all.")
      .def_prop_ro("type", &AnyIndex::type, "Name of the index type.")
      .def_prop_ro("rows", &AnyIndex::rows, "Rows of the dataset.")
      .def_prop_ro("dim", &AnyIndex::dim, "Elements a row.")
      .def_prop_ro(
          "dtype", [](const AnyIndex& self) { return numpy_name(self.dtype()); },
          "Element type, as NumPy names it.")
      .def_prop_ro(
          "metric", [](const AnyIndex& self) { return std::string(name(self.metric())); },
          "Name of the metric.")
      .def_prop_ro(
          "filter",
          [](const AnyIndex& self) {
            const auto* brute_force = self.get_if<BruteForce>();
            return brute_force == nullptr ? std::string() : std::string(name(brute_force->filter()));
          },
          "Name of the filter in use; empty where the type has none.")
      .def_prop_ro("memory_bytes", &AnyIndex::memory_bytes, "Bytes held beyond the dataset.");
  module.def("build", &build_index, nb::arg("type"), nb::arg("dataset"), nb::arg("metric"), nb::arg("filter"),
             nb::arg("threads"), nb::arg("memory_limit"), nb::arg("device"), nb::arg("report").none(),
             "Builds an index of a named type over rows it keeps alive.");
  module.def("load", &load_index, nb::arg("path"), nb::arg("threads"), nb::arg("memory_limit"),
             nb::arg("device"), nb::arg("report").none(), "Opens a saved index.");
}

}  // namespace
}  // namespace kith::python

NB_MODULE(_kith, module) {
  using namespace kith::python;
  // An index that a thread still searches at the interpreter's end is no fault: nothing is printed.
  nb::set_leak_warnings(false);
  watch_the_interpreters_end();
  module.doc() = "The compiled part of kith. Use the package kith.";
  nb::register_exception_translator(&translate);
  module.def(
      "version", [] { return std::string(kith::version()); }, "Version of the library.");
  module.def("devices", &device_list, "What devices() of the package makes its list from.");
  module.def("index_types", &kith::index_types, "Names that build() takes.");
  bind_rows(module);
  bind_gpu(module);
  bind_answer(module);
  bind_index(module);
  module.def("knn", &knn_call, nb::arg("dataset"), nb::arg("queries"), nb::arg("k"), nb::arg("metric"),
             nb::arg("filter"), nb::arg("threads"), nb::arg("memory_limit"), nb::arg("device"),
             nb::arg("report").none(), "(distances, indices, statistics) without keeping an index.");
  bind_io(module);
}

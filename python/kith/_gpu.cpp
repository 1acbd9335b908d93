// Arrays in GPU memory, for Python. Other libraries put what they still have to do to an array before a
// stream of ours (cuda::meeting_stream), as DLPack and __cuda_array_interface__ say; a search follows it. So
// does what the default streams still do, whatever the producer says: some say too little.
#include "_gpu.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "_answer.hpp"
#include "_gil.hpp"
#include "_run.hpp"
#include "core/int128.hpp"
#include "cuda/device_memory.hpp"
#include "cuda/devices.hpp"
#include "kith/error.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

std::int64_t bytes_of(const GpuArray& a) {
  return a.rows * a.columns * (a.type.bits / 8);
}

std::string type_name(const GpuArray& a) {
  return fmt::format("{}{}",
                     a.type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int) ? "int" : "float",
                     a.type.bits);
}

std::size_t dimensions(const GpuArray& a) {
  return a.vector ? 1 : 2;
}

nb::tuple shape_of(const GpuArray& a) {
  return a.vector ? nb::make_tuple(a.rows) : nb::make_tuple(a.rows, a.columns);
}

// The object that speaks DLPack for the array; it keeps the memory.
nb::object exporter(const GpuArray& a) {
  auto* held = new std::shared_ptr<void>(a.owner);
  const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::shared_ptr<void>*>(p); });
  const std::size_t shape[2] = {static_cast<std::size_t>(a.rows), static_cast<std::size_t>(a.columns)};
  return nb::cast(nb::ndarray<nb::array_api>(a.data, dimensions(a), shape, owner, nullptr, a.type,
                                             nb::device::cuda::value, a.device));
}

nb::dict interface_of(const GpuArray& a) {
  nb::dict out;
  out["shape"] = shape_of(a);
  const bool integer = a.type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
  out["typestr"] = nb::str(fmt::format("<{}{}", integer ? "i" : "f", a.type.bits / 8).c_str());
  out["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(a.data), false);
  out["version"] = 3;
  out["strides"] = nb::none();
  out["stream"] = nb::none();  // complete: there is nothing to wait for
  return out;
}

template <class T>
nb::object copy_as(const GpuArray& a) {
  auto* values = new T[static_cast<std::size_t>(std::max<std::int64_t>(1, a.rows * a.columns))];
  const nb::capsule owner(values, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  {
    const FreeGil free_gil;
    cuda::copy_to_host(a.data, a.device, values, static_cast<std::uint64_t>(bytes_of(a)));
  }
  const std::size_t shape[2] = {static_cast<std::size_t>(a.rows), static_cast<std::size_t>(a.columns)};
  return nb::cast(nb::ndarray<nb::numpy, T>(values, dimensions(a), shape, owner));
}

nb::object copy_to_numpy(const GpuArray& a) {
  if (a.type == nb::dtype<std::int64_t>()) return copy_as<std::int64_t>(a);
  return a.type == nb::dtype<float>() ? copy_as<float>(a) : copy_as<double>(a);
}

std::uintptr_t meeting(int device, const std::string& what) {
  require_gpu(device, what);
  cuda::meet_default(device);
  return reinterpret_cast<std::uintptr_t>(cuda::meeting_stream(device));
}

// Rows described by __cuda_array_interface__; what is below the strides was checked in Python.
Rows rows_at(std::uintptr_t pointer, const std::string& dtype, std::int64_t rows, std::int64_t dim,
             std::int64_t row_stride, std::uintptr_t stream, const nb::object& owner,
             const std::string& what) {
  if (cuda::devices().empty()) require_gpu(0, what);
  const auto* data = reinterpret_cast<const void*>(pointer);  // NOLINT(performance-no-int-to-ptr)
  DatasetView view(data, parse_dtype(dtype), rows, dim, row_stride);
  view.space = MemorySpace::cuda;
  if (rows > 0) {
    try {
      view.device = cuda::device_of(data);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}: {}", what, error.what()));
    }
    require_gpu(view.device, what);
    cuda::meet_default(view.device);
    if (stream > 2) cuda::meet(view.device, stream);  // 1 and 2 are the default streams
  }
  return {Dataset::adopt(view, keep_object(owner)), false};
}

}  // namespace

GpuAnswer::GpuAnswer(std::int64_t queries, std::int64_t k, Dtype distances, int device)
    : distances_(distances) {
  view_.queries = queries;
  view_.k = k;
  view_.space = MemorySpace::cuda;
  view_.device = device;
  const auto cell = static_cast<std::int64_t>(sizeof(std::int64_t) + size_of(distances));
  const int128 cells = k > 0 ? static_cast<int128>(queries) * k : 0;
  if (cells > std::numeric_limits<std::int64_t>::max() / cell) {
    throw OutOfMemory(fmt::format(
        "{} queries with k = {} need more than 2^63 bytes for the answer; ask for fewer neighbours", queries,
        k));
  }
  // One block: indices, and distances behind them.
  const auto count = static_cast<std::int64_t>(cells);
  memory_ = cuda::allocate(device, static_cast<std::uint64_t>(count * cell));
  view_.indices = static_cast<std::int64_t*>(memory_.get());
  view_.distances = count == 0 ? nullptr : static_cast<void*>(view_.indices + count);
}

nb::tuple GpuAnswer::to_python(const SearchStatistics& statistics) const {
  const nb::dlpack::dtype type = distances_ == Dtype::f64 ? nb::dtype<double>() : nb::dtype<float>();
  return nb::make_tuple(
      GpuArray{memory_, view_.distances, type, view_.queries, view_.k, view_.device},
      GpuArray{memory_, view_.indices, nb::dtype<std::int64_t>(), view_.queries, view_.k, view_.device},
      statistics_dict(statistics));
}

void require_gpu(int device, const std::string& what) {
  const auto known = cuda::devices();
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const DeviceInfo& info) { return info.device.ordinal == device; });
  if (found != known.end() && found->usable) return;
  throw nb::type_error(
      fmt::format("{}: the array lies on a device (cuda:{}) that cannot be used: {}; move it to the host "
                  "first, for example with .cpu()",
                  what, device, found == known.end() ? cuda::absence() : found->note)
          .c_str());
}

void follow_rows(const DatasetView& rows) {
  if (rows.space == MemorySpace::cuda) cuda::wait_for_meeting(rows.device);
}

void follow_queries(Execution& execution, const DatasetView& queries) {
  if (queries.space != MemorySpace::cuda) return;
  const Device there{Device::Kind::cuda, queries.device};
  if (execution.devices.size() == 1 && execution.devices.front() == there) {
    execution.stream = cuda::meeting_stream(queries.device);
    execution.follow_stream = true;
  } else {
    cuda::wait_for_meeting(queries.device);
  }
}

nb::tuple search_for(const Execution& asked, const nb::object& report, bool quick, const DatasetView& queries,
                     std::int64_t k, const Search& search, const AnswerRoom& room) {
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
    NeighborsView view;
    if (room) {
      // NOLINTBEGIN(performance-no-int-to-ptr)
      view = {reinterpret_cast<std::int64_t*>(room->second),
              reinterpret_cast<void*>(room->first),
              queries.rows,
              k,
              MemorySpace::cuda,
              queries.device};
      // NOLINTEND(performance-no-int-to-ptr)
    } else {
      answer.emplace(queries.rows, k, distance_dtype(queries.dtype), queries.device);
      view = answer->view();
    }
    statistics = search.into(view, following);
  });
  if (!answer) return nb::make_tuple(nb::none(), nb::none(), statistics_dict(statistics));
  return answer->to_python(statistics);
}

void bind_gpu(nb::module_& module) {
  nb::class_<GpuArray>(
      module, "GpuArray",
      "An answer in GPU memory, [queries, k] or what its maker says: complete when the call returns, freed "
      "with its last user. Other libraries take it without a copy through DLPack "
      "(torch.from_dlpack, cupy.from_dlpack, jax.dlpack.from_dlpack) or "
      "__cuda_array_interface__ (numba.cuda.as_cuda_array).")
      .def_prop_ro("shape", &shape_of, "(queries, k), or of a vector (rows,).")
      .def_prop_ro("ndim", &dimensions, "How many numbers the shape has.")
      .def_prop_ro("dtype", &type_name, "Element type, as NumPy names it.")
      .def_prop_ro(
          "device", [](const GpuArray& a) { return fmt::format("cuda:{}", a.device); },
          "The GPU it lies on, \"cuda:0\".")
      .def("numpy", &copy_to_numpy, "A copy as a NumPy array.")
      .def(
          "__dlpack__",
          [](const GpuArray& a, const nb::kwargs& arguments) {
            return exporter(a).attr("__dlpack__")(**arguments);
          },
          nb::sig("def __dlpack__(self, **arguments: object) -> object"),
          "DLPack capsule; takes the arguments of the array API standard.")
      .def(
          "__dlpack_device__",
          [](const GpuArray& a) { return nb::make_tuple(nb::device::cuda::value, a.device); },
          "(2, number of the GPU).")
      .def_prop_ro("__cuda_array_interface__", &interface_of, "Version 3.")
      .def(
          "__array__",
          [](const GpuArray& a, const nb::args& /*arguments*/,
             const nb::kwargs& /*arguments*/) -> nb::object {
            throw nb::type_error(
                fmt::format("the array lies on cuda:{}; use .numpy() for a copy on the host", a.device)
                    .c_str());
          },
          nb::sig("def __array__(self, *arguments: object, **options: object) -> object"),
          "Refuses: a copy to the host is made by numpy() alone.")
      .def("__len__", [](const GpuArray& a) { return a.rows; })
      .def("__repr__", [](const GpuArray& a) {
        const std::string shape =
            a.vector ? fmt::format("{}", a.rows) : fmt::format("{}, {}", a.rows, a.columns);
        return fmt::format("GpuArray([{}], {}, cuda:{})", shape, type_name(a), a.device);
      });
  module.def(
      "meeting_stream", &meeting, nb::arg("device"), nb::arg("what"),
      "Stream that other libraries order their arrays before; its cudaStream_t as a number. It comes after "
      "what the default streams have been given.");
  module.def(
      "rows_at", &rows_at, nb::arg("pointer"), nb::arg("dtype"), nb::arg("rows"), nb::arg("dim"),
      nb::arg("row_stride"), nb::arg("stream"), nb::arg("owner"), nb::arg("what"),
      "Rows in GPU memory, after what is on `stream` (0: none) and on the default streams; keeps `owner` "
      "alive.");
}

}  // namespace kith::python

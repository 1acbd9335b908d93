// Arrays in GPU memory: those of other libraries as queries and rows, and answers that stay on the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "_rows.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"

namespace kith::python {

/// A matrix [rows, columns] or a vector [rows] in the memory of a GPU, contiguous, complete.
struct GpuArray {
  std::shared_ptr<void> owner;
  void* data = nullptr;
  nanobind::dlpack::dtype type{};
  std::int64_t rows = 0;
  std::int64_t columns = 0;  ///< 1 of a vector
  int device = 0;
  bool vector = false;
};

/// Memory for an answer on a GPU.
class GpuAnswer {
 public:
  /// @throws OutOfMemory, DeviceError
  GpuAnswer(std::int64_t queries, std::int64_t k, Dtype distances, int device);
  const NeighborsView& view() const noexcept { return view_; }
  /// (distances, indices, statistics) as to_python makes them, of GpuArrays.
  nanobind::tuple to_python(const SearchStatistics& statistics) const;

 private:
  std::shared_ptr<void> memory_;
  NeighborsView view_;
  Dtype distances_;
};

/// Refuses an array on a GPU that cannot be used. @throws TypeError that names the argument
void require_gpu(int device, const std::string& what);

/// Makes a call follow what other libraries still do to the arrays given: by `execution.stream` where one GPU
/// does it all, by waiting otherwise. Views on the host are let pass.
void follow_rows(const DatasetView& rows);
void follow_queries(Execution& execution, const DatasetView& queries);

/// The two ways to leave an answer.
struct Search {
  std::function<Neighbors(const Execution&)> to_host;
  std::function<SearchStatistics(const NeighborsView&, const Execution&)> into;
};

/// Addresses of distances and indices, [queries, k] each, on the GPU of the queries.
using AnswerRoom = std::optional<std::pair<std::uintptr_t, std::uintptr_t>>;

/// Runs a search (_run.hpp): queries on a GPU are answered there, in `room` where there is one (the tuple
/// then has None for the arrays), others on the host.
nanobind::tuple search_for(const Execution& asked, const nanobind::object& report, bool quick,
                           const DatasetView& queries, std::int64_t k, const Search& search,
                           const AnswerRoom& room = std::nullopt);

void bind_gpu(nanobind::module_& module);

}  // namespace kith::python

// What the filter keeps, measured by a search: it depends on how near neighbours lie beside how exact the
// codes are, which no small sample tells of data in clusters. It decides about the stages, and between int8
// and halves.
#include <algorithm>

#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "cuda/upload.hpp"

namespace kith::brute_force {
namespace {

MeasuredSearch measure(CudaPrepared& p, const DatasetView& queries, const Execution& execution) {
  Execution quiet = execution;
  quiet.progress = nullptr;
  Part& part = *p.parts.front();
  const cuda::DeviceGuard guard(part.device);
  std::unique_ptr<Workspace> w = part.take_workspace();
  const cuda::PlacedRows placed =
      cuda::place(queries, part.device, w->queries, w->uploader, w->stream, quiet);
  const std::int64_t k = tuning::measured_k + 1;  // each of them finds itself
  const auto search = queries.dtype == Dtype::f64 ? measure_search<double> : measure_search<float>;
  const MeasuredSearch found = search(part, *w, placed.data, placed.stride, queries.rows, k, quiet, p.budget);
  part.give_workspace(
      std::move(w));  // the search that follows needs its memory, and new memory takes milliseconds
  for (const auto& each : p.parts) each->surplus = found.surplus;
  return found;
}

// Seconds a query of many: the look at all rows, what it keeps, and what is evaluated beyond what stages do
// anyway.
double seconds_a_query(const CudaPrepared& p, const MeasuredSearch& found) {
  const Part& part = *p.parts.front();
  const double look = p.choice.filter == Filter::fp16 ? p.choice.fp16_seconds : p.choice.int8_seconds;
  const double row_bytes =
      static_cast<double>(part.space.dim) * static_cast<double>(size_of(part.space.dtype));
  const double beyond = std::max(0.0, found.evaluated - tuning::usual_evaluations);
  return static_cast<double>(part.rows) * look * 1e-9 +
         expected_seconds(part, tuning::usual_queries, tuning::measured_k) /
             static_cast<double>(tuning::usual_queries) +
         beyond * (tuning::evaluated_seconds + row_bytes * tuning::evaluated_byte_seconds);
}

}  // namespace

void measure_filter(CudaPrepared& p, const DatasetView& sample, bool halves_fit, const Execution& execution) {
  if (p.parts.empty() || p.parts.front()->rows < tuning::least_rows_to_measure ||
      !p.parts.front()->filtered() || !p.parts.front()->space.coded()) {
    return;
  }
  const std::int64_t every = std::max<std::int64_t>(1, sample.rows / tuning::measured_queries);
  const DatasetView queries(sample.data, sample.dtype, sample.rows / every, sample.dim,
                            every * sample.row_stride);
  const double seconds = seconds_a_query(p, measure(p, queries, execution));
  if (!p.choice.may_be_halves() || !halves_fit) return;
  // With nothing kept halves would be no quicker than their look at all rows.
  if (seconds <= static_cast<double>(p.parts.front()->rows) * p.choice.fp16_seconds * 1e-9) return;
  if (!std::all_of(p.devices.begin(), p.devices.end(), cuda::halves_are_summed_well)) return;
  const CudaChoice int8 = p.choice;
  const double surplus = p.parts.front()->surplus;
  p.code_anew(int8.as_halves());
  if (seconds_a_query(p, measure(p, queries, execution)) < seconds) return;
  p.code_anew(int8);
  for (const auto& each : p.parts) each->surplus = surplus;
}

}  // namespace kith::brute_force

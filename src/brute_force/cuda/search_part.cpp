// The GPU engine: stages of filter, exact evaluation and merging, each with a tighter bound than the one
// before.
//
// The first bound comes from a small sample, evaluated exactly. A stage then filters a share of the rows,
// spread over all of them, and what it keeps is evaluated and merged: a stage that sees g times the rows of
// those before it keeps about g k candidates a query, whatever the data. The queries that keep more than
// there is room for are searched again as a batch of their own, from the bounds they have reached and with
// more room, and in the end without a filter, in pieces that always fit. The answer depends on none of this,
// because a filter only ever keeps too many.
#include <algorithm>
#include <numeric>

#include "brute_force/cuda/plan.hpp"
#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/tuning.hpp"

namespace kith::brute_force {

namespace {

using cuda::Batch;
using cuda::Subset;

void stop_if_asked(const Execution& execution) {
  if (execution.cancelled && execution.cancelled()) {
    throw Cancelled("stopped because the caller asked to; nothing was produced");
  }
}

// An odd multiplier near the golden ratio of the tiles, coprime with them: any range of positions is spread.
std::int64_t spreading_multiplier(std::int64_t tiles) {
  auto m = static_cast<std::int64_t>(0.6180339887498949 * static_cast<double>(tiles));
  m = std::max<std::int64_t>(1, m);
  while (std::gcd(m, tiles) != 1) ++m;
  return m;
}

template <class R>
class PartSearch {
 public:
  PartSearch(Part& part, Workspace& w, const Plan& plan, std::int64_t list_k, const Execution& execution)
      : part_(part), w_(w), plan_(plan), list_k_(list_k), execution_(execution), stream_(w.stream) {}

  // The answers, but for queries that kept more than there was room for: so many are left, see left_ids and
  // left_bounds. With `exact_rest` these are evaluated without a filter, and none is left.
  std::int64_t run(const void* queries, std::int64_t stride, std::int64_t count, const R* best,
                   std::int64_t k, std::int64_t* indices, R* distances, bool exact_rest) {
    if (best == nullptr && k == list_k_ && plan_.one_pass &&
        one_pass(queries, stride, count, indices, distances))
      return 0;
    staged_ = true;
    prepare(queries, stride, count);
    k_ = k;
    indices_ = indices;
    distances_ = distances;
    cuda::start_lists(batch_, best, stream_);
    if (plan_.filtered) {
      const bool open = best == nullptr;
      if (open && plan_.look) {
        look_at_sample();
      } else if (open && !part_.space.coded()) {
        first_bound();
      }
      evaluate_special();
      filter_all(open && part_.space.coded() && !plan_.look);
    }
    look();
    if (exact_count() == 0) return 0;
    if (plan_.filtered && overflown() > 0 && !exact_rest) return exact_count();
    exact({w_.exact_ids.data(), exact_count()});
    write(false, nullptr);
    KITH_CUDA(cudaStreamSynchronize(stream_));
    fallbacks_ = plan_.filtered ? exact_count() : 0;
    return 0;
  }

  // What the filter kept, the rows of an open first stage among them; 0 after one look at every pair.
  std::int64_t kept() const { return staged_ ? static_cast<std::int64_t>(w_.seen.data()[4]) : 0; }

  const std::uint32_t* left_ids() const { return w_.exact_ids.data(); }
  const R* left_bounds() const { return batch_.best; }

  std::int64_t candidates() const { return static_cast<std::int64_t>(w_.seen.data()[0]); }
  std::int64_t fallbacks() const { return fallbacks_; }
  std::int64_t nan_queries() const { return static_cast<std::int64_t>(w_.seen.data()[2]); }

 private:
  // False: some query is not answered this way.
  bool one_pass(const void* queries, std::int64_t stride, std::int64_t count, std::int64_t* indices,
                R* distances) {
    const cuda::Space& space = part_.space;
    const bool fresh = w_.totals.empty();
    w_.totals.reserve(4, stream_);
    w_.seen.reserve(5)[3] = 0;  // no ticket
    if (fresh) KITH_CUDA(cudaMemsetAsync(w_.totals.data(), 0, w_.totals.bytes(), stream_));
    const cuda::ListShape shape =
        cuda::scan_shape(space, part_.rows, part_.rows, count,
                         cuda::packed_rows(space, part_.float_rows(), part_.float_stride()), part_.device);

    cuda::QueryCodes codes =
        reserve_queries(count, shape.kind == cuda::ListShape::Kind::quarters ? cuda::scan_query_tile : 16);
    codes.best = w_.best.reserve(count * static_cast<std::int64_t>(sizeof(R)), stream_);
    codes.nan_queries = w_.totals.data() + 2;
    const bool raw = cuda::scan_codes_queries(space, shape);
    if (!raw) cuda::encode_queries(queries, stride, count, space, codes, stream_);
    const cuda::Lists lists{w_.first.reserve(count * shape.lists, stream_),
                            w_.second.reserve(count * shape.lists, stream_), shape};
    cuda::Scan scan = scan_of(part_.rows, 1, count, lists);
    scan.query_tile = codes.tile;
    if (raw) {
      scan.raw = queries;
      scan.raw_stride = stride;
      scan.coded = codes;
    }
    cuda::scan_rows(scan, part_.device, stream_);
    Batch<R> batch{};
    batch.data = part_.data;
    batch.stride = part_.stride;
    batch.part_rows = part_.rows;
    batch.space = space;
    batch.queries = codes.values;
    batch.padded = codes.padded;
    batch.scalars = codes.scalars;
    batch.count = count;
    batch.maxima = part_.row_codes().largest_residual;
    batch.best = reinterpret_cast<R*>(w_.best.data());
    batch.k = list_k_;
    const unsigned long long ticket = ++w_.ticket;
    cuda::settle_lists<R>(batch, lists,
                          {part_.base, indices, distances, w_.totals.data(), w_.seen.data(), ticket},
                          part_.device, stream_);
    const volatile unsigned long long* seen = w_.seen.data() + 3;
    cuda::wait_until([&] { return *seen == ticket; }, stream_);
    w_.seen.data()[3] = 0;  // queries answered without a filter: none
    return w_.seen.data()[1] == 0;
  }

  // Room for coded queries, in tiles of `tile` where the codes are int8.
  cuda::QueryCodes reserve_queries(std::int64_t count, int tile) {
    const cuda::Space& space = part_.space;
    cuda::QueryCodes codes;
    codes.padded = (space.dim + 7) / 8 * 8;
    codes.values = w_.values.reserve(count * codes.padded, stream_);
    codes.scalars = w_.scalars.reserve(count, stream_);
    if (space.coded()) {
      codes.tile = tile;
      const std::int64_t tiles = (count + tile - 1) / tile;
      codes.codes = w_.query_codes.reserve(tiles * tile * space.shape.row_bytes(), stream_);
    } else if (space.form != cuda::Form::none) {
      codes.float_stride = cuda::float_query_stride(space.dim);
      codes.floats = w_.floats.reserve(count * codes.float_stride, stream_);
    }
    return codes;
  }

  // One look at `rows` of the part, every `step`-th, with the coded queries in the workspace.
  cuda::Scan scan_of(std::int64_t rows, std::int64_t step, std::int64_t count,
                     const cuda::Lists& lists) const {
    cuda::Scan scan{};
    scan.space = part_.space;
    scan.rows = rows;
    scan.row_step = step;
    scan.floats = part_.float_rows();
    scan.float_stride = step * part_.float_stride();
    scan.codes = part_.row_codes();
    scan.queries = w_.floats.data();
    scan.query_stride = cuda::float_query_stride(part_.space.dim);
    scan.query_codes = w_.query_codes.data();
    scan.query_tile = query_tile_;
    scan.count = count;
    scan.out = lists;
    return scan;
  }

  // The answers as they are; with `exact` also which queries are not answered yet.
  void write(bool filtered, std::uint32_t* exact) {
    cuda::write_lists(batch_, k_, part_.base, indices_, distances_, filtered, w_.exact_ids.data(), exact,
                      stream_);
  }

  std::int64_t overflown() const { return static_cast<std::int64_t>(w_.seen.data()[1]); }
  std::int64_t exact_count() const { return static_cast<std::int64_t>(w_.seen.data()[3]); }

  void prepare(const void* queries, std::int64_t stride, std::int64_t count) {
    const cuda::Space& space = part_.space;
    if (plan_.filtered && space.coded()) {
      query_tile_ =
          plan_.look ? cuda::scan_query_tile : cuda::choose_query_tile(space.shape, count, part_.device);
    }
    // Without the filter codes of the queries are of no use, but the kernel writes them.
    cuda::QueryCodes codes = reserve_queries(count, query_tile_);
    w_.counters.reserve(5, stream_);
    w_.counts.reserve(count, stream_);
    w_.overflow.reserve(count, stream_);
    w_.bounds.reserve(count, stream_);
    w_.exact_ids.reserve(count + 1, stream_);
    w_.candidates.reserve(count * plan_.room, stream_);
    w_.arrived.reserve(count, stream_);
    w_.lists.reserve(count * list_k_ * cuda::key_bytes<R>, stream_);
    w_.best.reserve(count * static_cast<std::int64_t>(sizeof(R)), stream_);
    w_.seen.reserve(5);
    if (list_k_ > tuning::largest_block_k) {
      w_.distances.reserve(count * plan_.room * static_cast<std::int64_t>(sizeof(R)), stream_);
      w_.scratch.reserve(count * (list_k_ + plan_.room) * cuda::key_bytes<R>, stream_);
    } else {
      w_.partial.reserve(cuda::most_shared_lists * list_k_ * cuda::key_bytes<R>, stream_);
    }
    KITH_CUDA(cudaMemsetAsync(w_.counters.data(), 0, w_.counters.bytes(), stream_));
    codes.nan_queries = w_.counters.data() + 2;
    cuda::encode_queries(queries, stride, count, space, codes, stream_);
    batch_ = Batch<R>{part_.data,
                      part_.stride,
                      part_.rows,
                      space,
                      codes.values,
                      codes.padded,
                      codes.scalars,
                      count,
                      part_.row_codes().largest_residual,
                      {w_.candidates.data(), w_.counts.data(), static_cast<std::uint32_t>(plan_.room)},
                      reinterpret_cast<R*>(w_.distances.data()),
                      reinterpret_cast<cuda::Key<R>*>(w_.lists.data()),
                      reinterpret_cast<R*>(w_.best.data()),
                      list_k_,
                      reinterpret_cast<cuda::Key<R>*>(w_.scratch.data()),
                      reinterpret_cast<cuda::Key<R>*>(w_.partial.data()),
                      w_.arrived.data(),
                      w_.bounds.data(),
                      w_.overflow.data(),
                      w_.counters.data()};
  }

  Subset everyone() const { return {nullptr, batch_.count}; }

  // `fresh`: how many of the k nearest so far are expected among the candidates; all of them, by default.
  void settle(const Subset& subset, std::int64_t expected, bool bound_only, bool more = false,
              std::int64_t fresh = -1) {
    if (list_k_ > tuning::largest_block_k) {
      cuda::settle_long(batch_, subset, expected, bound_only, part_.device, stream_);
    } else {
      cuda::settle_candidates(batch_, subset, expected, fresh < 0 ? list_k_ : fresh, bound_only, more,
                              part_.device, stream_);
    }
  }

  // The nearest of a sample spread over all rows, from one look at its pairs.
  void look_at_sample() {
    const std::int64_t step = std::max<std::int64_t>(1, part_.rows / plan_.sample);
    const std::int64_t looked = std::min(plan_.sample, part_.rows);
    const cuda::ListShape shape =
        cuda::scan_shape(part_.space, part_.rows, looked, batch_.count, false, part_.device);
    const cuda::Lists lists{w_.first.reserve(batch_.count * shape.lists, stream_),
                            w_.second.reserve(batch_.count * shape.lists, stream_), shape};
    cuda::scan_rows(scan_of(looked, step, batch_.count, lists), part_.device, stream_);
    cuda::bound_by_lists(batch_, lists, part_.device, stream_);
  }

  void first_bound() {
    const double step = static_cast<double>(part_.rows) / static_cast<double>(plan_.sample);
    cuda::fill_candidates(batch_.candidates, everyone(), nullptr, 0, step, plan_.sample, stream_);
    settle(everyone(), plan_.sample, true);
  }

  // Rows that no filter speaks for.
  void evaluate_special() {
    for (std::int64_t at = 0; at < part_.special_rows; at += plan_.room) {
      const std::int64_t count = std::min(plan_.room, part_.special_rows - at);
      cuda::fill_candidates(batch_.candidates, everyone(), part_.special.data(), at, 1, count, stream_);
      settle(everyone(), count, false);
      stop_if_asked(execution_);
    }
  }

  // `open`: nothing is known yet, the first stage keeps all its rows.
  void filter_all(bool open) {
    std::int64_t done = 0;
    const std::int64_t tiles = part_.tiles();
    for (const std::int64_t end : plan_.stage_ends) {
      stop_if_asked(execution_);
      const cuda::Stage stage{tiles, spreading_multiplier(tiles), done, end - done};
      if (part_.space.coded()) {
        cuda::run_code_filter(
            {part_.row_codes(), part_.rows, w_.query_codes.data(), batch_.bounds, batch_.count, query_tile_,
             part_.space.shape, part_.space.test(), open && done == 0, stage, batch_.candidates},
            part_.device, stream_);
      } else {
        cuda::run_float_filter(
            {part_.float_rows(), part_.float_stride(), part_.rows, w_.floats.data(),
             cuda::float_query_stride(part_.space.dim), batch_.bounds, batch_.count, part_.space.dim,
             part_.space.form == cuda::Form::squared, stage, batch_.candidates},
            part_.device, stream_);
      }
      settle(everyone(), open && done == 0 ? plan_.sample : 2 * plan_.expected, false,
             end != plan_.stage_ends.back(), (list_k_ * (end - done) + end - 1) / end);
      done = end;
    }
  }

  // Which queries are not answered yet, and the counters.
  void look() {
    auto* exact = reinterpret_cast<std::uint32_t*>(w_.counters.data() + 3);
    write(plan_.filtered, exact);  // most searches are done by now
    KITH_CUDA(cudaMemcpyAsync(w_.seen.data(), w_.counters.data(), 5 * sizeof(unsigned long long),
                              cudaMemcpyDeviceToHost, stream_));
    KITH_CUDA(cudaStreamSynchronize(stream_));
  }

  // Every row for some queries, in pieces that always fit: of equal distances the lower rows came first.
  void exact(const Subset& subset) {
    cuda::clear_lists(batch_, subset, stream_);
    for (std::int64_t at = 0; at < part_.rows; at += plan_.room) {
      stop_if_asked(execution_);
      const std::int64_t count = std::min(plan_.room, part_.rows - at);
      cuda::fill_candidates(batch_.candidates, subset, nullptr, at, 1, count, stream_);
      settle(subset, count, false);
    }
    KITH_CUDA(cudaMemcpyAsync(w_.seen.data(), w_.counters.data(), sizeof(unsigned long long),
                              cudaMemcpyDeviceToHost, stream_));
    KITH_CUDA(cudaStreamSynchronize(stream_));
  }

  Part& part_;
  Workspace& w_;
  const Plan& plan_;
  std::int64_t list_k_;
  const Execution& execution_;
  cudaStream_t stream_;
  int query_tile_ = 16;
  std::int64_t fallbacks_ = 0;
  bool staged_ = false;
  std::int64_t k_ = 0;
  std::int64_t* indices_ = nullptr;
  R* distances_ = nullptr;
  Batch<R> batch_{};
};

// Queries on the part's device and where their answers go.
template <class R>
struct Asked {
  const void* queries;
  std::int64_t stride;
  std::int64_t count;
  std::int64_t k;
  const R* best;
  std::int64_t* indices;
  R* distances;
};

// `room`: as in make_plan; 0 at first.
template <class R>
void search_with_room(Part& part, Workspace& w, const Asked<R>& asked, const Execution& execution,
                      std::uint64_t budget, std::int64_t room, SearchStatistics& statistics) {
  const std::int64_t list_k = std::clamp<std::int64_t>(asked.k, 1, std::max<std::int64_t>(1, part.rows));
  const Plan plan =
      make_plan(part, asked.count, list_k, sizeof(R), budget, execution.device_memory_limit, room);
  const bool last =
      plan.room >= std::min(part.rows, tuning::most_room) || plan.room <= room / tuning::room_growth;
  const auto row_bytes = static_cast<std::int64_t>(size_of(part.space.dtype)) * part.space.dim;
  for (std::int64_t first = 0; first < asked.count; first += plan.batch) {
    const std::int64_t n = std::min(plan.batch, asked.count - first);
    PartSearch<R> search(part, w, plan, list_k, execution);
    const auto* queries = static_cast<const char*>(asked.queries) +
                          first * asked.stride * static_cast<std::int64_t>(size_of(part.space.dtype));
    std::int64_t* indices = asked.indices + first * asked.k;
    R* distances = asked.distances + first * asked.k;
    const std::int64_t left =
        search.run(queries, asked.stride, n, asked.best == nullptr ? nullptr : asked.best + first, asked.k,
                   indices, distances, last);
    statistics.candidates += search.candidates();
    statistics.fallbacks += search.fallbacks();
    statistics.nan_queries += search.nan_queries();
    if (left == 0) continue;

    // What is left of the batch in memory of its own: the workspace serves the search for it.
    cuda::Buffer<std::uint32_t> ids(left, w.stream);
    cuda::Buffer<unsigned char> rows(left * row_bytes, w.stream);
    cuda::Buffer<R> bounds(left, w.stream);
    const cuda::Buffer<std::int64_t> left_indices(left * asked.k, w.stream);
    const cuda::Buffer<R> left_distances(left * asked.k, w.stream);
    KITH_CUDA(
        cudaMemcpyAsync(ids.data(), search.left_ids(), ids.bytes(), cudaMemcpyDeviceToDevice, w.stream));
    cuda::gather_rows(queries, asked.stride * static_cast<std::int64_t>(size_of(part.space.dtype)), row_bytes,
                      ids.data(), left, rows.data(), w.stream);
    cuda::gather_rows(search.left_bounds(), sizeof(R), sizeof(R), ids.data(), left, bounds.data(), w.stream);
    search_with_room<R>(part, w,
                        {rows.data(), part.space.dim, left, asked.k, bounds.data(), left_indices.data(),
                         left_distances.data()},
                        execution, budget, std::min(part.rows, plan.room * tuning::room_growth), statistics);
    cuda::scatter_rows(left_indices.data(), asked.k * 8, ids.data(), left, indices, w.stream);
    cuda::scatter_rows(left_distances.data(), asked.k * static_cast<std::int64_t>(sizeof(R)), ids.data(),
                       left, distances, w.stream);
    w.stream.synchronize();
  }
}

}  // namespace

template <class R>
MeasuredSearch measure_search(Part& part, Workspace& w, const void* queries, std::int64_t stride,
                              std::int64_t count, std::int64_t k, const Execution& execution,
                              std::uint64_t budget) {
  const std::int64_t list_k = std::clamp<std::int64_t>(k, 1, std::max<std::int64_t>(1, part.rows));
  Plan plan = make_plan(part, count, list_k, sizeof(R), budget, execution.device_memory_limit, 0);
  plan.one_pass = false;
  const cuda::Buffer<std::int64_t> indices(count * k, w.stream);
  const cuda::Buffer<R> distances(count * k, w.stream);
  PartSearch<R> search(part, w, plan, list_k, execution);
  (void)search.run(queries, stride, count, nullptr, k, indices.data(), distances.data(), false);
  w.stream.synchronize();
  // A stage that sees g times the rows of those before it keeps k (g - 1) by a filter without error.
  double expected = 0;
  if (plan.look) {
    expected +=
        static_cast<double>(list_k) *
        (static_cast<double>(plan.stage_ends[0] * cuda::code_tile_rows) / static_cast<double>(plan.sample) -
         1);
  }
  for (std::size_t i = 1; i < plan.stage_ends.size(); ++i) {
    expected += static_cast<double>(list_k) *
                (static_cast<double>(plan.stage_ends[i]) / static_cast<double>(plan.stage_ends[i - 1]) - 1);
  }
  const double kept = static_cast<double>(search.kept()) / static_cast<double>(count);
  const double surplus = expected > 0 ? (kept - static_cast<double>(plan.first_room)) / expected : 1;
  return {static_cast<double>(search.candidates()) / static_cast<double>(count),
          std::clamp(surplus, 1.0, tuning::most_surplus)};
}
template MeasuredSearch measure_search<float>(Part&, Workspace&, const void*, std::int64_t, std::int64_t,
                                              std::int64_t, const Execution&, std::uint64_t);
template MeasuredSearch measure_search<double>(Part&, Workspace&, const void*, std::int64_t, std::int64_t,
                                               std::int64_t, const Execution&, std::uint64_t);

template <class R>
void search_part(Part& part, Workspace& w, const void* queries, std::int64_t query_stride, std::int64_t count,
                 std::int64_t k, const R* best, std::int64_t* indices, R* distances,
                 const Execution& execution, std::uint64_t budget, SearchStatistics& statistics) {
  search_with_room<R>(part, w, {queries, query_stride, count, k, best, indices, distances}, execution, budget,
                      0, statistics);
  statistics.pairs += count * part.rows;
}

template void search_part<float>(Part&, Workspace&, const void*, std::int64_t, std::int64_t, std::int64_t,
                                 const float*, std::int64_t*, float*, const Execution&, std::uint64_t,
                                 SearchStatistics&);
template void search_part<double>(Part&, Workspace&, const void*, std::int64_t, std::int64_t, std::int64_t,
                                  const double*, std::int64_t*, double*, const Execution&, std::uint64_t,
                                  SearchStatistics&);

}  // namespace kith::brute_force

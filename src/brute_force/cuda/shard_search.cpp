// The GPU engine: stages of filter, exact evaluation and merging, each with a tighter bound than the one
// before.
//
// The first bound comes from a small sample, evaluated exactly. A stage then filters a share of the rows,
// spread over all of them (of a query's lists, where rows are in lists), and what it keeps is evaluated and
// merged: a stage that sees g times the rows of those before it keeps about g k candidates a query, whatever
// the data. The queries that keep more than there is room for are searched again as a batch of their own,
// from the bounds they have reached and with more room, and in the end without a filter, in pieces that
// always fit. The answer depends on none of this, because a filter only ever keeps too many.
#include "brute_force/cuda/shard_search.hpp"

#include <algorithm>
#include <numeric>

#include "brute_force/cuda/tuning.hpp"
#include "brute_force/cuda/wide_filter.hpp"
#include "brute_force/directions.hpp"
#include "cuda/upload.hpp"

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

}  // namespace

template <class R>
std::int64_t ShardSearch<R>::run(const void* queries, std::int64_t stride, std::int64_t count, const R* best,
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
    if (plan_.listed) {
      bound_by_own_list();
    } else if (open && plan_.look) {
      look_at_sample();
    } else if (open && plan_.runs) {
      look_at_runs();
    } else if (open && !shard_.space.tiled()) {
      first_bound();
    }
    refuse_if_off();
    evaluate_special();
    filter_all(open && shard_.space.tiled() && !plan_.look && !plan_.runs && !plan_.listed);
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

template <class R>
bool ShardSearch<R>::one_pass(const void* queries, std::int64_t stride, std::int64_t count,
                              std::int64_t* indices, R* distances) {
  const cuda::CodeSpace& space = shard_.space;
  const bool fresh = w_.totals.empty();
  w_.totals.reserve(4, stream_);
  w_.seen.reserve(7)[3] = 0;  // no ticket
  if (fresh) KITH_CUDA(cudaMemsetAsync(w_.totals.data(), 0, w_.totals.bytes(), stream_));
  const cuda::ListShape shape =
      cuda::scan_shape(space, shard_.rows, shard_.rows, count,
                       cuda::packed_rows(space, shard_.float_rows(), shard_.float_stride()), shard_.device);

  cuda::QueryCodes codes =
      reserve_queries(count, shape.kind == cuda::ListShape::Kind::quarters ? cuda::scan_query_tile : 16);
  codes.best = w_.best.reserve(count * static_cast<std::int64_t>(sizeof(R)), stream_);
  codes.nan_queries = w_.totals.data() + 2;
  const bool raw = cuda::scan_codes_queries(space, shape);
  if (!raw) cuda::encode_queries(queries, stride, count, space, codes, stream_);
  cuda::Lists lists{w_.first.reserve(count * shape.lists, stream_),
                    w_.second.reserve(count * shape.lists, stream_), shape};
  if (space.int8() && !raw) {
    lists.codes = shard_.codes.data();
    lists.bias = shard_.bias.data();
    lists.query_codes = w_.query_codes.data();
    lists.query_tile = codes.tile;
  }
  const bool few = shape.kind == cuda::ListShape::Kind::positions;
  if (few) {
    lists.part_first = w_.part_first.reserve(count * shape.lists * shape.group, stream_);
    lists.part_second = w_.part_second.reserve(count * shape.lists * shape.group, stream_);
    lists.special = shard_.special.data();
    lists.special_rows = shard_.special_rows;
  }
  cuda::Scan scan = scan_of(shard_.rows, 1, count, lists);
  scan.query_tile = codes.tile;
  if (raw) {
    scan.raw = queries;
    scan.raw_stride = stride;
    scan.encoded = codes;
  }
  cuda::scan_rows(scan, shard_.device, stream_);
  Batch<R> batch{};
  batch.data = shard_.data;
  batch.stride = shard_.stride;
  batch.shard_rows = shard_.rows;
  batch.space = space;
  batch.queries = codes.values;
  batch.padded = codes.padded;
  batch.scalars = codes.scalars;
  batch.count = count;
  batch.maxima = shard_.row_codes().largest_residual;
  batch.best = reinterpret_cast<R*>(w_.best.data());
  batch.k = list_k_;
  const unsigned long long ticket = ++w_.ticket;
  const cuda::Answer<R> answer{shard_.base, indices, distances, w_.totals.data(), w_.seen.data(), ticket};
  few ? cuda::rerank_few<R>(batch, lists, answer, shard_.device, stream_)
      : cuda::rerank_lists<R>(batch, lists, answer, shard_.device, stream_);
  const volatile unsigned long long* seen = w_.seen.data() + 3;
  cuda::wait_until([&] { return *seen == ticket; }, stream_);
  w_.seen.data()[3] = 0;  // queries answered without a filter: none
  return w_.seen.data()[1] == 0;
}

template <class R>
cuda::QueryCodes ShardSearch<R>::reserve_queries(std::int64_t count, int tile) {
  const cuda::CodeSpace& space = shard_.space;
  cuda::QueryCodes codes;
  codes.padded = (space.dim + 7) / 8 * 8;
  codes.values = w_.values.reserve(count * codes.padded, stream_);
  codes.scalars = w_.scalars.reserve(count, stream_);
  if (space.tiled()) {
    codes.tile = tile;
    const std::int64_t tiles = (count + tile - 1) / tile;
    codes.codes = w_.query_codes.reserve(tiles * tile * space.shape.row_bytes(), stream_);
    if (space.map != nullptr) {
      codes.coordinates = cuda::Coordinates::in(
          w_.coordinates.reserve(cuda::Coordinates::doubles(count, space.map_width), stream_), count,
          space.map_width);
    }
    if (space.fine) codes.fine = w_.fine.reserve(count * space.fine_stride(), stream_);
  } else if (space.form != codes::Form::none) {
    codes.float_stride = cuda::float_query_stride(space.dim);
    codes.floats = w_.floats.reserve(count * codes.float_stride, stream_);
  }
  return codes;
}

template <class R>
cuda::Scan ShardSearch<R>::scan_of(std::int64_t rows, std::int64_t step, std::int64_t count,
                                   const cuda::Lists& lists) const {
  cuda::Scan scan{};
  scan.space = shard_.space;
  scan.rows = rows;
  scan.row_step = step;
  scan.floats = shard_.float_rows();
  scan.float_stride = step * shard_.float_stride();
  scan.codes = shard_.row_codes();
  scan.queries = w_.floats.data();
  scan.query_stride = cuda::float_query_stride(shard_.space.dim);
  scan.query_codes = w_.query_codes.data();
  scan.query_tile = query_tile_;
  scan.count = count;
  scan.out = lists;
  return scan;
}

template <class R>
void ShardSearch<R>::write(bool filtered, std::uint32_t* exact) {
  cuda::write_lists(batch_, k_, shard_.base, indices_, distances_, filtered, w_.exact_ids.data(), exact,
                    stream_);
}

template <class R>
void ShardSearch<R>::prepare(const void* queries, std::int64_t stride, std::int64_t count) {
  const cuda::CodeSpace& space = shard_.space;
  if (plan_.filtered && space.tiled()) {
    query_tile_ =
        plan_.look ? cuda::scan_query_tile : cuda::choose_query_tile(space.shape, count, shard_.device);
  }
  // Without the filter codes of the queries are of no use, but the kernel writes them.
  cuda::QueryCodes codes = reserve_queries(count, query_tile_);
  w_.counters.reserve(7, stream_);
  w_.counts.reserve(count, stream_);
  w_.overflow.reserve(count, stream_);
  w_.bounds.reserve(count, stream_);
  w_.exact_ids.reserve(count + 1, stream_);
  w_.candidates.reserve(count * plan_.room, stream_);
  w_.arrived.reserve(count, stream_);
  w_.heavy.reserve(cuda::most_heavy, stream_);
  w_.lists.reserve(count * list_k_ * cuda::key_bytes<R>, stream_);
  w_.best.reserve(count * static_cast<std::int64_t>(sizeof(R)), stream_);
  w_.seen.reserve(7);
  if (list_k_ > tuning::largest_block_k) {
    w_.distances.reserve(count * plan_.room * static_cast<std::int64_t>(sizeof(R)), stream_);
    w_.scratch.reserve(count * (list_k_ + plan_.room) * cuda::key_bytes<R>, stream_);
  } else {
    w_.partial.reserve(cuda::most_shared_lists * list_k_ * cuda::key_bytes<R>, stream_);
  }
  KITH_CUDA(cudaMemsetAsync(w_.counters.data(), 0, w_.counters.bytes(), stream_));
  codes.nan_queries = w_.counters.data() + 2;
  codes.off = w_.counters.data() + 5;
  cuda::encode_queries(queries, stride, count, space, codes, stream_);
  if (minds_rests()) {
    KITH_CUDA(cudaMemcpyAsync(w_.seen.data(), w_.counters.data() + 5, sizeof(unsigned long long),
                              cudaMemcpyDeviceToHost, stream_));
    KITH_CUDA(cudaEventRecord(w_.counted, stream_));
  }
  batch_ = Batch<R>{shard_.data,
                    shard_.stride,
                    shard_.rows,
                    space,
                    codes.values,
                    codes.padded,
                    codes.scalars,
                    count,
                    shard_.row_codes().largest_residual,
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
                    w_.counters.data(),
                    nullptr,
                    codes.fine};
}

template <class R>
bool ShardSearch<R>::minds_rests() const {
  return plan_.mind_rests && plan_.filtered && shard_.space.map != nullptr;
}

// The first bound is on its way while the host waits to know how many queries lie off the directions.
template <class R>
void ShardSearch<R>::refuse_if_off() {
  if (!minds_rests()) return;
  KITH_CUDA(cudaEventSynchronize(w_.counted));
  if (static_cast<std::int64_t>(w_.seen.data()[0]) * one_off_in <= batch_.count) return;
  KITH_CUDA(cudaStreamSynchronize(stream_));
  throw OffDirections();
}

template <class R>
void ShardSearch<R>::rerank(const Subset& subset, std::int64_t expected, bool bound_only, bool more,
                            std::int64_t fresh) {
  if (list_k_ > tuning::largest_block_k) {
    cuda::rerank_long(batch_, subset, expected, bound_only, shard_.device, stream_);
  } else {
    cuda::rerank_candidates(batch_, subset, expected, fresh < 0 ? list_k_ : fresh, bound_only, more,
                            shard_.device, stream_);
  }
}

template <class R>
void ShardSearch<R>::look_at_sample() {
  const std::int64_t step = std::max<std::int64_t>(1, shard_.rows / plan_.sample);
  const std::int64_t looked = std::min(plan_.sample, shard_.rows);
  const cuda::ListShape shape =
      cuda::scan_shape(shard_.space, shard_.rows, looked, batch_.count, false, shard_.device);
  const cuda::Lists lists{w_.first.reserve(batch_.count * shape.lists, stream_),
                          w_.second.reserve(batch_.count * shape.lists, stream_), shape};
  cuda::scan_rows(scan_of(looked, step, batch_.count, lists), shard_.device, stream_);
  cuda::bound_by_lists(batch_, lists, shard_.device, stream_);
}

template <class R>
void ShardSearch<R>::look_at_runs() {
  const std::int64_t tiles = shard_.tiles();
  const std::int64_t looked = plan_.sample / cuda::code_tile_rows;
  const cuda::CodeFilter look{shard_.row_codes(),
                              shard_.rows,
                              w_.query_codes.data(),
                              batch_.bounds,
                              batch_.count,
                              query_tile_,
                              shard_.space.shape,
                              shard_.space.test(),
                              false,
                              {tiles, spreading_multiplier(tiles), 0, looked, shard_.lists.order.data()},
                              batch_.candidates};
  if (!cuda::run_look(look, shard_.device, stream_)) {
    const double step = static_cast<double>(shard_.rows) / static_cast<double>(plan_.first_room);
    cuda::fill_candidates(batch_.candidates, everyone(), nullptr, 0, step, plan_.first_room, stream_);
  }
  rerank(everyone(), plan_.first_room, true);
}

template <class R>
void ShardSearch<R>::first_bound() {
  const double step = static_cast<double>(shard_.rows) / static_cast<double>(plan_.sample);
  cuda::fill_candidates(batch_.candidates, everyone(), nullptr, 0, step, plan_.sample, stream_);
  rerank(everyone(), plan_.sample, true);
}

template <class R>
void ShardSearch<R>::bound_by_own_list() {
  cuda::fill_from_own_list(batch_.candidates, listed_, batch_.count, shard_.lists.balls(shard_.space.dim),
                           shard_.lists.order.data(), shard_.rows, shard_.tiles(), plan_.sample, stream_);
  rerank(everyone(), plan_.sample, true);
}

template <class R>
std::int64_t ShardSearch<R>::visited() {
  KITH_CUDA(cudaMemsetAsync(w_.counters.data(), 0, sizeof(unsigned long long), stream_));
  cuda::count_visited(batch_, listed_, shard_.lists.balls(shard_.space.dim), w_.counters.data(), stream_);
  unsigned long long rows = 0;
  KITH_CUDA(cudaMemcpyAsync(&rows, w_.counters.data(), sizeof rows, cudaMemcpyDeviceToHost, stream_));
  KITH_CUDA(cudaStreamSynchronize(stream_));
  return static_cast<std::int64_t>(rows);
}

template <class R>
void ShardSearch<R>::evaluate_special() {
  for (std::int64_t at = 0; at < shard_.special_rows; at += plan_.room) {
    const std::int64_t count = std::min(plan_.room, shard_.special_rows - at);
    cuda::fill_candidates(batch_.candidates, everyone(), shard_.special.data(), at, 1, count, stream_);
    rerank(everyone(), count, false);
    stop_if_asked(execution_);
  }
}

template <class R>
void ShardSearch<R>::filter_all(bool open) {
  std::int64_t done = 0;
  const std::int64_t tiles = shard_.tiles();
  const std::int64_t heavy = std::max(tuning::least_heavy, tuning::heavy_factor * plan_.expected);
  const bool uneven = list_k_ <= tuning::largest_heavy_k && heavy < plan_.room &&
                      cuda::rerank_blocks(batch_.count, plan_.room, shard_.device) == 1;
  for (const std::int64_t end : plan_.stage_ends) {
    stop_if_asked(execution_);
    const bool opens = open && done == 0;
    const cuda::Stage stage{tiles, spreading_multiplier(tiles), done, end - done, shard_.lists.order.data()};
    if (shard_.space.tiled()) {
      cuda::CodeFilter filter{
          shard_.row_codes(), shard_.rows,        w_.query_codes.data(), batch_.bounds, batch_.count,
          query_tile_,        shard_.space.shape, shard_.space.test(),   opens,         stage,
          batch_.candidates};
      if (plan_.listed) {
        choose_visits(filter);
      } else if (order_pays(batch_.count, stage.count * cuda::code_tile_rows) &&
                 cuda::wide_filter_takes(filter, shard_.device)) {
        order_queries(filter);
      }
      cuda::run_code_filter(filter, shard_.device, stream_);
      if (uneven && !opens) {
        cuda::find_heavy(batch_.candidates, batch_.count, heavy, w_.heavy.data(), stream_);
        batch_.heavy = w_.heavy.data();
      }
      // What an open stage keeps is evaluated nearest first by the estimates that it has.
      const bool refined = shard_.space.fine && batch_.count >= tuning::least_refined && !opens;
      batch_.fine = refined ? shard_.row_codes().fine : nullptr;
      if (refined) cuda::refine_candidates(batch_, stream_);
    } else {
      cuda::run_float_filter(
          {shard_.float_rows(), shard_.float_stride(), shard_.rows, w_.floats.data(),
           cuda::float_query_stride(shard_.space.dim), batch_.bounds, batch_.count, shard_.space.dim,
           shard_.space.form == codes::Form::difference, stage, batch_.candidates},
          shard_.device, stream_);
    }
    const std::int64_t expected = batch_.fine == nullptr ? plan_.expected : plan_.refined;
    rerank(everyone(), opens ? plan_.sample : 2 * expected, false, end != plan_.stage_ends.back(),
           (list_k_ * (end - done) + end - 1) / end);
    batch_.heavy = nullptr;
    done = end;
  }
  batch_.fine = nullptr;
}

template <class R>
void ShardSearch<R>::choose_visits(cuda::CodeFilter& filter) {
  const int queries = cuda::queries_of_a_block(filter, shard_.device);
  const std::int64_t blocks = (batch_.count + queries - 1) / queries;
  std::uint32_t* tiles = w_.by_lists.visits.reserve(blocks * filter.stage.count, stream_);
  std::uint32_t* counts = w_.by_lists.visit_counts.reserve(blocks, stream_);
  cuda::choose_visits(batch_, listed_, shard_.lists.balls(shard_.space.dim), filter.stage, queries, tiles,
                      counts, w_.counters.data() + 6, stream_);
  filter.stage.visits = {tiles, counts, filter.stage.count};
}

template <class R>
void ShardSearch<R>::order_queries(cuda::CodeFilter& filter) {
  OrderWorkspace& o = w_.by_thresholds;
  const std::int64_t padded = (batch_.count + filter.query_tile - 1) / filter.query_tile * filter.query_tile;
  const cuda::QueryOrder out{o.order.reserve(batch_.count, stream_),
                             o.codes.reserve(padded * filter.shape.row_bytes(), stream_)};
  const cuda::QuerySort sort{o.unsorted_keys.reserve(batch_.count, stream_),
                             o.unsorted.reserve(batch_.count, stream_), o.keys.reserve(batch_.count, stream_),
                             o.sorted.reserve(batch_.count, stream_)};
  const std::size_t bytes = cuda::order_by_thresholds(filter, out, sort, nullptr, 0, stream_);
  cuda::order_by_thresholds(filter, out, sort, o.scratch.reserve(static_cast<std::int64_t>(bytes), stream_),
                            bytes, stream_);
  filter.query_codes = out.codes;
  filter.query_order = out.order;
}

template <class R>
void ShardSearch<R>::look() {
  auto* exact = reinterpret_cast<std::uint32_t*>(w_.counters.data() + 3);
  write(plan_.filtered, exact);  // most searches are done by now
  KITH_CUDA(cudaMemcpyAsync(w_.seen.data(), w_.counters.data(), 7 * sizeof(unsigned long long),
                            cudaMemcpyDeviceToHost, stream_));
  KITH_CUDA(cudaStreamSynchronize(stream_));
}

template <class R>
void ShardSearch<R>::exact(const Subset& subset) {
  cuda::clear_lists(batch_, subset, stream_);
  for (std::int64_t at = 0; at < shard_.rows; at += plan_.room) {
    stop_if_asked(execution_);
    const std::int64_t count = std::min(plan_.room, shard_.rows - at);
    cuda::fill_candidates(batch_.candidates, subset, nullptr, at, 1, count, stream_);
    rerank(subset, count, false);
  }
  KITH_CUDA(cudaMemcpyAsync(w_.seen.data(), w_.counters.data(), sizeof(unsigned long long),
                            cudaMemcpyDeviceToHost, stream_));
  KITH_CUDA(cudaStreamSynchronize(stream_));
}

template class ShardSearch<float>;
template class ShardSearch<double>;

}  // namespace kith::brute_force

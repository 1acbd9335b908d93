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
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "core/parallel.hpp"

namespace kith::brute_force {
namespace {

using cuda::Batch;
using cuda::Subset;

void stop_if_asked(const Execution& execution) {
  if (execution.cancelled && execution.cancelled()) {
    throw Cancelled("stopped because the caller asked to; nothing was produced");
  }
}

struct Plan {
  bool filtered = false;
  bool one_pass = false;                 ///< worth one look at every pair before stages
  bool look = false;                     ///< the first bound comes from one look at a sample
  std::int64_t sample = 0;               ///< rows of the first bound
  std::vector<std::int64_t> stage_ends;  ///< in tiles
  std::int64_t expected = 0;             ///< candidates a query and stage
  std::int64_t room = 0;
  std::int64_t first_room = 1;  ///< what the first bound needs: a sample, or an open first stage
  std::int64_t batch = 0;       ///< queries at once
  double seconds = 0;           ///< expected, but for the looks at all rows
};

// The sample and the stages that are expected to be the quickest. With codes the sample is the first stage,
// whose bounds are open.
void plan_stages(Plan& plan, const Part& part, std::int64_t queries, std::int64_t list_k) {
  const auto n = static_cast<double>(part.rows);
  const auto k = static_cast<double>(list_k);
  const bool coded = part.space.coded();
  const std::int64_t tiles = part.tiles();
  const double row_bytes =
      static_cast<double>(part.space.dim) * static_cast<double>(size_of(part.space.dtype));
  const double evaluated = tuning::evaluated_seconds + row_bytes * tuning::evaluated_byte_seconds;
  const double kept = coded ? tuning::kept_int8_seconds : tuning::kept_float_seconds;
  const auto q = static_cast<double>(queries);
  const std::int64_t least =
      std::max(coded ? tuning::least_int8_sample : tuning::least_float_sample, 2 * list_k);
  // How long a block, or the few that share a query, are at so many candidates.
  const auto latency = [&](double candidates) {
    const int blocks = cuda::settle_blocks(queries, static_cast<std::int64_t>(candidates), part.device);
    return candidates / blocks * tuning::settle_candidate_seconds;
  };
  double least_seconds = std::numeric_limits<double>::infinity();
  double growth = 1;
  const std::int64_t smallest = plan.look ? tuning::least_look : least;
  const std::int64_t largest =
      plan.look ? std::min(tuning::most_look, part.rows / 4) : std::max(least, tuning::most_sample);
  for (std::int64_t sample = smallest; sample <= largest; sample *= 2) {
    const double whole = std::max(1.0, n / static_cast<double>(sample));
    const double rounds = std::ceil(static_cast<double>(sample) / cuda::most_settled_at_once);
    double first = static_cast<double>(sample) * evaluated;
    if (plan.look) {
      first = static_cast<double>(sample) *
              (coded ? tuning::look_int8_seconds
                     : tuning::look_float_seconds +
                           static_cast<double>(part.space.dim) * tuning::look_value_seconds);
    } else if (coded) {
      first = static_cast<double>(sample) * tuning::open_seconds + rounds * (1.2 * k + 16) * evaluated;
    }
    for (int s = 1; s <= tuning::most_stages; ++s) {
      const double g = std::pow(whole, 1.0 / s);
      const double passed = k * g * part.surplus;
      const double each = tuning::settle_seconds + passed * kept + std::min(passed, 1.2 * k + 16) * evaluated;
      const double seconds = s * (tuning::stage_seconds + latency(passed) + q * each) + q * first +
                             (plan.look ? 0 : latency(static_cast<double>(sample)));
      if (seconds >= least_seconds) continue;
      plan.seconds = least_seconds = seconds;
      growth = g;
      plan.sample = sample;
    }
  }
  std::int64_t sample_tiles = 0;
  if (coded && !plan.look) {
    sample_tiles = std::min(tiles, (plan.sample + cuda::code_tile_rows - 1) / cuda::code_tile_rows);
    plan.sample = sample_tiles * cuda::code_tile_rows;
    plan.stage_ends.push_back(sample_tiles);
  }
  plan.first_room = plan.look ? 1 : plan.sample;
  plan.sample = std::min(plan.sample, part.rows);
  const double whole = n / static_cast<double>(plan.sample);
  double share = 1 / whole;
  while (sample_tiles < tiles) {
    share *= std::max(growth, 1.5);
    const double end = std::ceil(share * static_cast<double>(tiles) * (1 - 1e-9));
    sample_tiles = std::clamp(static_cast<std::int64_t>(end), sample_tiles + 1, tiles);
    plan.stage_ends.push_back(sample_tiles);
  }
  plan.expected = static_cast<std::int64_t>(k * growth * part.surplus) + 32;
}

// Whether launches cost more than one dearer look at every pair.
bool one_pass_pays(const Part& part, std::int64_t queries, std::int64_t list_k) {
  if (part.space.half || list_k > tuning::largest_one_pass_k || part.special_rows > 0 ||
      part.rows < std::max(tuning::least_one_pass_rows, 64 * list_k)) {
    return false;
  }
  const bool few = queries <= cuda::few_queries;
  if (part.space.int8()) {
    if (few) return true;
    return part.space.shape.row_bytes() == 32 && queries * part.rows <= tuning::most_one_pass_pairs;
  }
  if (part.space.dim > tuning::low_dimension) return false;
  // Queries fill whole blocks.
  return few || (queries + 127) / 128 * 128 * part.rows <= tuning::most_one_pass_pairs;
}

// Whether the first bound may come from one look at a sample.
bool look_pays(const Part& part, std::int64_t queries, std::int64_t list_k) {
  const std::int64_t least = part.space.int8() ? cuda::scan_query_tile / 2 : cuda::few_queries;
  return !part.space.half && list_k <= tuning::largest_one_pass_k && queries > least &&
         part.rows >= 8 * tuning::least_look && part.space.dim <= tuning::low_dimension &&
         (!part.space.int8() || part.space.shape.row_bytes() == 32);
}

// `room`: how many candidates a query must at least have room for, where they are known to be many.
Plan make_plan(const Part& part, std::int64_t queries, std::int64_t list_k, std::size_t result_bytes,
               std::uint64_t budget, std::uint64_t limit, std::int64_t room) {
  Plan plan;
  // With a large share of the rows in the answer there is nothing to filter.
  plan.filtered = part.filtered() && list_k * 8 <= part.rows;
  plan.expected = part.rows;
  // How many rows a bound from a sample lets through varies the more the smaller k.
  const std::int64_t spread = 3 + static_cast<std::int64_t>(12 / std::sqrt(static_cast<double>(list_k)));
  if (plan.filtered) {
    plan.look = look_pays(part, queries, list_k);
    plan_stages(plan, part, queries, list_k);
    plan.one_pass = one_pass_pays(part, queries, list_k);
  }
  const std::int64_t wanted =
      std::max({room, tuning::least_room, plan.filtered ? spread * plan.expected : list_k});
  if (room > 0) plan.expected = std::max(plan.expected, room / 4);
  plan.room = std::min({wanted, tuning::most_room, std::max<std::int64_t>(part.rows, 1)});
  plan.room = std::max(plan.room, plan.first_room);
  // A query's memory: what it keeps, its list, for long lists distances and the space they are sorted in.
  const std::uint64_t key = 2 * result_bytes;
  const bool in_memory = list_k > tuning::largest_block_k;
  const std::uint64_t kept = 8 + (in_memory ? result_bytes + 2 * key : 0);  // a candidate
  const std::uint64_t fixed = static_cast<std::uint64_t>(list_k) * (in_memory ? 3 * key : key) +
                              static_cast<std::uint64_t>(part.space.dim) * 16 + 256;
  std::uint64_t memory = std::min(tuning::candidate_bytes, std::max<std::uint64_t>(budget / 8, 64U << 20U));
  if (limit > 0) memory = std::min(memory, limit);
  if (room > 0 && memory > fixed) {
    plan.room = std::clamp(static_cast<std::int64_t>((memory - fixed) / kept), plan.first_room, plan.room);
  }
  const std::uint64_t each = static_cast<std::uint64_t>(plan.room) * kept + fixed;
  if (limit > 0 && each > limit) {
    throw OutOfMemory(fmt::format(
        "a query with k = {} needs {} bytes of GPU memory, the limit is {}; raise the limit or ask "
        "for fewer neighbours",
        list_k, each, limit));
  }
  plan.batch = std::clamp<std::int64_t>(static_cast<std::int64_t>(memory / each), 1, tuning::most_queries);
  const std::int64_t rounds = (queries + plan.batch - 1) / plan.batch;
  plan.batch = (queries + rounds - 1) / rounds;
  return plan;
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
  const Plan plan = make_plan(part, asked.count, list_k, sizeof(R), budget, execution.memory_limit, room);
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

double expected_seconds(const Part& part, std::int64_t queries, std::int64_t k) {
  Plan plan;
  plan.look = look_pays(part, queries, k);
  plan_stages(plan, part, queries, k);
  return plan.seconds;
}

template <class R>
MeasuredSearch measure_search(Part& part, Workspace& w, const void* queries, std::int64_t stride,
                              std::int64_t count, std::int64_t k, const Execution& execution,
                              std::uint64_t budget) {
  const std::int64_t list_k = std::clamp<std::int64_t>(k, 1, std::max<std::int64_t>(1, part.rows));
  Plan plan = make_plan(part, count, list_k, sizeof(R), budget, execution.memory_limit, 0);
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

namespace {

// A workspace for the length of a search.
class Borrowed {
 public:
  explicit Borrowed(Part& part) : part_(part), workspace_(part.take_workspace()) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    // After a failure or a cancel kernels may still be on their way.
    if (!complete_) (void)cudaStreamSynchronize(workspace_->stream);
    part_.give_workspace(std::move(workspace_));
  }
  Workspace& operator*() const { return *workspace_; }
  Workspace* operator->() const { return workspace_.get(); }
  /// Nothing that anybody waits for is on the stream any more.
  void complete() { complete_ = true; }

 private:
  bool complete_ = false;
  Part& part_;
  std::unique_ptr<Workspace> workspace_;
};

// Queries [first, first + count) on the workspace's device, contiguous unless they lie there already.
cuda::PlacedRows place_queries(Workspace& w, const DatasetView& queries, std::int64_t first,
                               std::int64_t count, const Execution& execution) {
  return cuda::place(queries.slice(first, count), w.device, w.queries, w.uploader, w.stream, execution);
}

template <class R>
void copy_out(const NeighborsView& out, std::int64_t first, const std::int64_t* indices, const R* distances,
              std::int64_t count, cudaStream_t stream) {
  const auto cells = static_cast<std::size_t>(count * out.k);
  KITH_CUDA(cudaMemcpyAsync(out.indices + first * out.k, indices, cells * sizeof(std::int64_t),
                            cudaMemcpyDefault, stream));
  KITH_CUDA(cudaMemcpyAsync(static_cast<R*>(out.distances) + first * out.k, distances, cells * sizeof(R),
                            cudaMemcpyDefault, stream));
}

// One part, one set of queries, straight to the output.
template <class R>
void search_alone(Part& part, const DatasetView& queries, std::int64_t first, std::int64_t count,
                  const NeighborsView& out, const Execution& execution, std::uint64_t budget,
                  SearchStatistics& statistics) {
  const cuda::DeviceGuard guard(part.device);
  Borrowed w(part);
  cuda::wait_for(execution, w->stream);
  const cuda::PlacedRows placed = place_queries(*w, queries, first, count, execution);
  if (out.space == MemorySpace::cuda && out.device == part.device) {
    search_part<R>(part, *w, placed.data, placed.stride, count, out.k, nullptr, out.indices + first * out.k,
                   static_cast<R*>(out.distances) + first * out.k, execution, budget, statistics);
  } else {
    std::int64_t* indices = w->indices[0].reserve(count * out.k, w->stream);
    auto* distances = reinterpret_cast<R*>(
        w->answers[0].reserve(count * out.k * static_cast<std::int64_t>(sizeof(R)), w->stream));
    search_part<R>(part, *w, placed.data, placed.stride, count, out.k, nullptr, indices, distances, execution,
                   budget, statistics);
    copy_out(out, first, indices, distances, count, w->stream);
    w->stream.synchronize();
  }
  w.complete();
}

template <class F>
void on_threads(std::size_t count, F&& f) {
  std::vector<std::future<void>> running;
  for (std::size_t i = 1; i < count; ++i)
    running.push_back(std::async(std::launch::async, [&f, i] { f(i); }));
  std::exception_ptr failure;
  try {
    f(std::size_t{0});
  } catch (...) {
    failure = std::current_exception();
  }
  for (auto& one : running) {
    try {
      one.get();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void add(SearchStatistics& sum, const SearchStatistics& one, bool queries_too) {
  sum.pairs += one.pairs;
  sum.candidates += one.candidates;
  sum.fallbacks += one.fallbacks;
  if (queries_too) sum.nan_queries += one.nan_queries;
}

// Every part answers for its rows, the first device merges by the contract's order.
template <class R>
void search_parts(const CudaPrepared& p, const DatasetView& queries, const NeighborsView& out,
                  const Execution& execution, SearchStatistics& statistics) {
  const std::size_t parts = p.parts.size();
  std::vector<SearchStatistics> each(parts);
  // Device memory of an answer; lists of all parts meet on the first device.
  std::vector<cuda::Buffer<std::int64_t>> indices(parts);
  std::vector<cuda::Buffer<R>> distances(parts);
  std::vector<cuda::Buffer<std::int64_t>> met_indices(parts);
  std::vector<cuda::Buffer<R>> met_distances(parts);
  const std::int64_t cells = queries.rows * out.k;

  // Parts of one device follow each other, devices work side by side.
  on_threads(p.devices.size(), [&](std::size_t d) {
    for (std::size_t i = 0; i < parts; ++i) {
      Part& part = *p.parts[i];
      if (part.device != p.devices[d]) continue;
      const cuda::DeviceGuard guard(part.device);
      const Borrowed w(part);
      cuda::wait_for(execution, w->stream);
      const cuda::PlacedRows placed = place_queries(*w, queries, 0, queries.rows, execution);
      indices[i] = cuda::Buffer<std::int64_t>(cells, part.stream);
      distances[i] = cuda::Buffer<R>(cells, part.stream);
      part.stream.synchronize();
      search_part<R>(part, *w, placed.data, placed.stride, queries.rows, out.k, nullptr, indices[i].data(),
                     distances[i].data(), execution, p.budget, each[i]);
      w->stream.synchronize();
    }
  });
  Part& home = *p.parts.front();
  const cuda::DeviceGuard guard(home.device);
  const Borrowed w(home);
  std::vector<const std::int64_t*> all_indices(parts);
  std::vector<const R*> all_distances(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    all_indices[i] = indices[i].data();
    all_distances[i] = distances[i].data();
    if (p.parts[i]->device != home.device) {
      met_indices[i] = cuda::Buffer<std::int64_t>(cells, w->stream);
      met_distances[i] = cuda::Buffer<R>(cells, w->stream);
      KITH_CUDA(cudaMemcpyPeerAsync(met_indices[i].data(), home.device, indices[i].data(), p.parts[i]->device,
                                    indices[i].bytes(), w->stream));
      KITH_CUDA(cudaMemcpyPeerAsync(met_distances[i].data(), home.device, distances[i].data(),
                                    p.parts[i]->device, distances[i].bytes(), w->stream));
      all_indices[i] = met_indices[i].data();
      all_distances[i] = met_distances[i].data();
    }
    add(statistics, each[i], i == 0);
  }
  const bool in_place = out.space == MemorySpace::cuda && out.device == home.device;
  std::int64_t* to_indices = in_place ? out.indices : w->indices[0].reserve(cells, w->stream);
  R* to_distances = in_place ? static_cast<R*>(out.distances)
                             : reinterpret_cast<R*>(w->answers[0].reserve(
                                   cells * static_cast<std::int64_t>(sizeof(R)), w->stream));
  cuda::merge_answers<R>(all_indices.data(), all_distances.data(), static_cast<int>(parts), queries.rows,
                         out.k, to_indices, to_distances, w->stream);
  if (!in_place) copy_out(out, 0, to_indices, to_distances, queries.rows, w->stream);
  w->stream.synchronize();
  met_indices.clear();  // their memory belongs to this workspace's stream
  met_distances.clear();
}

}  // namespace

template <class R>
void search_streamed(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
                     const NeighborsView& out, const Execution& execution, SearchStatistics& statistics);

template <class R>
void search_as(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
               const NeighborsView& out, const Execution& execution, SearchStatistics& statistics) {
  if (p.mode == CudaPrepared::Mode::streamed) {
    search_streamed<R>(p, data, queries, out, execution, statistics);
  } else if (p.replicated) {
    const std::size_t parts = p.parts.size();
    std::vector<SearchStatistics> each(parts);
    on_threads(parts, [&](std::size_t i) {
      const std::int64_t first =
          queries.rows * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(parts);
      const std::int64_t last =
          queries.rows * static_cast<std::int64_t>(i + 1) / static_cast<std::int64_t>(parts);
      if (first < last)
        search_alone<R>(*p.parts[i], queries, first, last - first, out, execution, p.budget, each[i]);
    });
    for (const auto& one : each) add(statistics, one, true);
  } else if (p.parts.size() == 1) {
    search_alone<R>(*p.parts.front(), queries, 0, queries.rows, out, execution, p.budget, statistics);
  } else {
    search_parts<R>(p, queries, out, execution, statistics);
  }
}

SearchStatistics search_cuda(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
                             const NeighborsView& out, const Execution& execution) {
  const auto started = std::chrono::steady_clock::now();
  SearchStatistics s;
  s.index = BruteForce::index_type.name;
  s.filter = std::string(name(p.filter()));
  s.instruction_set = "cuda";
  // A streamed search counts rows, and says itself when it is done.
  const bool streamed = p.mode == CudaPrepared::Mode::streamed;
  ProgressCounter progress(execution, "search", std::max<std::int64_t>(1, queries.rows));
  for (const auto& part : p.parts) {
    s.nan_rows += part->nan_rows;
    if (p.replicated) break;
  }
  if (queries.rows > 0) {
    if (data.dtype == Dtype::f64) {
      search_as<double>(p, data, queries, out, execution, s);
    } else {
      search_as<float>(p, data, queries, out, execution, s);
    }
  }
  if (!streamed || queries.rows == 0) progress.finish();
  s.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return s;
}

// Pieces of the rows pass through two parts in turn: while one is searched, the next one is copied and coded.
// The k-th distances so far bound the next piece from its start.
template <class R>
void search_streamed(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
                     const NeighborsView& out, const Execution& execution, SearchStatistics& statistics) {
  const std::int64_t pieces = (data.rows + p.stream_rows - 1) / p.stream_rows;
  const auto devices = static_cast<std::int64_t>(p.devices.size());
  const std::int64_t cells = queries.rows * out.k;
  std::vector<SearchStatistics> each(p.devices.size());
  std::vector<cuda::Buffer<std::int64_t>> final_indices(p.devices.size());
  std::vector<cuda::Buffer<R>> final_distances(p.devices.size());
  std::vector<std::unique_ptr<Part>> keep(p.devices.size());
  ProgressCounter progress(execution, "search", std::max<std::int64_t>(1, data.rows));

  on_threads(p.devices.size(), [&](std::size_t d) {
    const int device = p.devices[d];
    const cuda::DeviceGuard guard(device);
    const std::int64_t row_bytes = data.dim * static_cast<std::int64_t>(size_of(data.dtype));
    std::unique_ptr<Part> slot[2];
    cuda::Uploader uploader;
    // Stopped half way, copies end before the memory goes that they write to.
    struct Copies : cuda::Stream {
      ~Copies() { (void)cudaStreamSynchronize(*this); }
    };
    const Copies copies;
    for (auto& part : slot) {
      part = std::make_unique<Part>(device, p.choice, data, p.metric, p.stream_rows);
      part->own_rows = cuda::Buffer<unsigned char>(p.stream_rows * row_bytes, part->stream);
      part->data = part->own_rows.data();
      part->stride = data.dim;
      part->stream.synchronize();
    }
    const auto load = [&](std::int64_t piece, int s) {
      const cuda::DeviceGuard in_thread(device);
      Part& part = *slot[s];
      part.base = piece * p.stream_rows;
      const DatasetView rows = data.slice(part.base, std::min(p.stream_rows, data.rows - part.base));
      // In quarters, so that coding runs beside copying.
      const std::int64_t quarter = (rows.rows + 3) / 4;
      part.begin(rows.rows, part.stream);
      for (std::int64_t at = 0; at < rows.rows; at += quarter) {
        const DatasetView some = rows.slice(at, std::min(quarter, rows.rows - at));
        unsigned char* to = part.own_rows.data() + at * row_bytes;
        if (!p.registered.known()) {
          uploader.copy(some, to, copies, execution);
        } else if (some.contiguous()) {
          KITH_CUDA(cudaMemcpyAsync(to, some.data, static_cast<std::size_t>(some.rows * row_bytes),
                                    cudaMemcpyHostToDevice, copies));
        } else {
          KITH_CUDA(cudaMemcpy2DAsync(to, static_cast<std::size_t>(row_bytes), some.data,
                                      static_cast<std::size_t>(some.row_stride) * size_of(some.dtype),
                                      static_cast<std::size_t>(row_bytes),
                                      static_cast<std::size_t>(some.rows), cudaMemcpyHostToDevice, copies));
        }
        const cuda::Event copied;
        KITH_CUDA(cudaEventRecord(copied, copies));
        KITH_CUDA(cudaStreamWaitEvent(part.stream, copied, 0));
        part.encode_piece(to, data.dim, at, some.rows, part.stream);
      }
      part.finish(part.stream);
    };
    Workspace w(device);
    cuda::wait_for(execution, w.stream);
    const cuda::PlacedRows placed = place_queries(w, queries, 0, queries.rows, execution);
    cuda::Buffer<std::int64_t> indices[3];
    cuda::Buffer<R> distances[3];
    cuda::Buffer<R> best(queries.rows, w.stream);
    for (int i = 0; i < 3; ++i) {
      indices[i] = cuda::Buffer<std::int64_t>(cells, w.stream);
      distances[i] = cuda::Buffer<R>(cells, w.stream);
    }
    int held = -1;  // which buffer has the answer so far
    std::future<void> next;
    int s = 0;
    if (static_cast<std::int64_t>(d) < pieces) load(static_cast<std::int64_t>(d), 0);
    for (auto piece = static_cast<std::int64_t>(d); piece < pieces; piece += devices, s ^= 1) {
      if (piece + devices < pieces) next = std::async(std::launch::async, load, piece + devices, s ^ 1);
      const int to = held < 0 ? 0 : (held + 1) % 3;
      if (held >= 0) {  // the k-th of the answer so far, +inf where there is none
        KITH_CUDA(cudaMemcpy2DAsync(best.data(), sizeof(R), distances[held].data() + out.k - 1,
                                    static_cast<std::size_t>(out.k) * sizeof(R), sizeof(R),
                                    static_cast<std::size_t>(queries.rows), cudaMemcpyDeviceToDevice,
                                    w.stream));
      }
      SearchStatistics one;
      search_part<R>(*slot[s], w, placed.data, placed.stride, queries.rows, out.k,
                     held < 0 ? nullptr : best.data(), indices[to].data(), distances[to].data(), execution,
                     p.budget, one);
      add(each[d], one, piece == static_cast<std::int64_t>(d));
      each[d].nan_rows += slot[s]->nan_rows;
      if (held >= 0) {
        const int merged = 3 - held - to;
        const std::int64_t* both_indices[2] = {indices[held].data(), indices[to].data()};
        const R* both_distances[2] = {distances[held].data(), distances[to].data()};
        cuda::merge_answers<R>(both_indices, both_distances, 2, queries.rows, out.k, indices[merged].data(),
                               distances[merged].data(), w.stream);
        held = merged;
      } else {
        held = to;
      }
      w.stream.synchronize();
      progress.advance(slot[s]->rows);
      if (next.valid()) next.get();
    }
    if (held < 0) return;  // fewer pieces than devices
    keep[d] = std::move(slot[0]);
    final_indices[d] = cuda::Buffer<std::int64_t>(cells, keep[d]->stream);
    final_distances[d] = cuda::Buffer<R>(cells, keep[d]->stream);
    KITH_CUDA(cudaMemcpyAsync(final_indices[d].data(), indices[held].data(), indices[held].bytes(),
                              cudaMemcpyDeviceToDevice, keep[d]->stream));
    KITH_CUDA(cudaMemcpyAsync(final_distances[d].data(), distances[held].data(), distances[held].bytes(),
                              cudaMemcpyDeviceToDevice, keep[d]->stream));
    keep[d]->stream.synchronize();
  });

  const cuda::DeviceGuard guard(p.devices.front());
  const cuda::Stream stream;
  {
    std::vector<cuda::Buffer<std::int64_t>> met_indices(p.devices.size() + 1);
    std::vector<cuda::Buffer<R>> met_distances(p.devices.size() + 1);
    std::vector<const std::int64_t*> all_indices;
    std::vector<const R*> all_distances;
    for (std::size_t d = 0; d < p.devices.size(); ++d) {
      if (final_indices[d].empty()) continue;
      met_indices[d] = cuda::Buffer<std::int64_t>(cells, stream);
      met_distances[d] = cuda::Buffer<R>(cells, stream);
      KITH_CUDA(cudaMemcpyPeerAsync(met_indices[d].data(), p.devices.front(), final_indices[d].data(),
                                    p.devices[d], final_indices[d].bytes(), stream));
      KITH_CUDA(cudaMemcpyPeerAsync(met_distances[d].data(), p.devices.front(), final_distances[d].data(),
                                    p.devices[d], final_distances[d].bytes(), stream));
      all_indices.push_back(met_indices[d].data());
      all_distances.push_back(met_distances[d].data());
      add(statistics, each[d], d == 0);
      statistics.nan_rows += each[d].nan_rows;
    }
    auto& to_indices = met_indices.back() = cuda::Buffer<std::int64_t>(cells, stream);
    auto& to_distances = met_distances.back() = cuda::Buffer<R>(cells, stream);
    cuda::merge_answers<R>(all_indices.data(), all_distances.data(), static_cast<int>(all_indices.size()),
                           queries.rows, out.k, to_indices.data(), to_distances.data(), stream);
    copy_out(out, 0, to_indices.data(), to_distances.data(), queries.rows, stream);
    stream.synchronize();
  }
  progress.finish();
  final_indices.clear();  // before the streams in `keep`
  final_distances.clear();
}

}  // namespace kith::brute_force

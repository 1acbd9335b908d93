// A plan by what the steps of a search take (tuning.hpp).
#include "brute_force/cuda/plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/tuning.hpp"

namespace kith::brute_force {

namespace {

// Rows of the least sample whose runs' nearest bound a query: few of its k nearest share a run.
std::int64_t least_in_runs(const tuning::Policy& policy, std::int64_t list_k) {
  return std::max(policy.least_look, 4 * cuda::look_rows * list_k);
}

// The sample and the stages that are expected to be the quickest. With codes the sample is the first stage,
// whose bounds are open.
void plan_stages(Plan& plan, const Shard& shard, std::int64_t queries, std::int64_t list_k) {
  const tuning::Policy& policy = shard.policy;
  const auto k = static_cast<double>(list_k);
  const bool tiled = shard.space.tiled();
  const std::int64_t tiles = shard.tiles();
  const double row_bytes =
      static_cast<double>(shard.space.dim) * static_cast<double>(size_of(shard.space.dtype));
  const double evaluated = policy.evaluated_seconds + row_bytes * policy.evaluated_byte_seconds;
  const double kept = tiled ? policy.kept_int8_seconds : policy.kept_float_seconds;
  const auto q = static_cast<double>(queries);
  const std::int64_t least =
      std::max(tiled ? tuning::least_int8_sample : tuning::least_float_sample, 2 * list_k);
  // How long a block, or the few that share a query, are at so many candidates.
  const auto latency = [&](double candidates) {
    const int blocks = cuda::rerank_blocks(queries, static_cast<std::int64_t>(candidates), shard.device);
    return candidates / blocks * policy.rerank_candidate_seconds;
  };
  double least_seconds = std::numeric_limits<double>::infinity();
  double growth = 1;
  std::int64_t smallest = least;
  std::int64_t largest = std::max(least, tuning::most_sample);
  if (plan.listed) {
    smallest = std::min(shard.rows, std::max(tuning::least_of_own_list, 2 * list_k));
    largest = std::max(smallest, std::min(tuning::most_of_own_list, shard.rows));
  } else if (plan.look) {
    smallest = policy.least_look;
    largest = std::min(policy.most_look, shard.rows / 4);
  } else if (plan.runs) {
    smallest = least_in_runs(policy, list_k);
    // Long lists take the longer the looser their bound is, as far as a block looks at all runs together.
    const bool longer = list_k > tuning::longest_short_list;
    const std::int64_t most = longer ? cuda::look_rows * cuda::most_reranked_at_once : tuning::most_in_runs;
    largest = std::max(smallest, std::min(most, longer ? shard.rows : shard.rows / 4));
  }
  // Of the rows in the lists that a query cannot leave out a sample of its own list is a share.
  const double n = plan.listed ? std::max(shard.lists.visited, 2.0 * static_cast<double>(smallest))
                               : static_cast<double>(shard.rows);
  for (std::int64_t sample = smallest; sample <= largest; sample *= 2) {
    const double whole = std::max(1.0, n / static_cast<double>(sample));
    const double rounds = std::ceil(static_cast<double>(sample) / cuda::most_reranked_at_once);
    double first = static_cast<double>(sample) * evaluated;
    if (plan.look) {
      first = static_cast<double>(sample) *
              (tiled ? policy.look_int8_seconds
                     : policy.look_float_seconds +
                           static_cast<double>(shard.space.dim) * policy.look_value_seconds);
    } else if (plan.runs) {
      const double look =
          std::max(policy.look_run_seconds, int8_look_seconds(policy, 32 * shard.space.shape.steps) * 1e-9);
      first = static_cast<double>(sample) * look + policy.rerank_seconds + (1.2 * k + 16) * evaluated;
    } else if (tiled && !plan.listed) {
      first = static_cast<double>(sample) * policy.open_seconds + rounds * (1.2 * k + 16) * evaluated;
    }
    for (int s = 1; s <= tuning::most_stages; ++s) {
      const double g = std::pow(whole, 1.0 / s);
      const double passed = k * g * shard.surplus;
      const double each = policy.rerank_seconds + passed * kept + std::min(passed, 1.2 * k + 16) * evaluated;
      const double seconds = s * (policy.stage_seconds + latency(passed) + q * each) + q * first +
                             (plan.look || plan.runs ? 0 : latency(static_cast<double>(sample)));
      if (seconds >= least_seconds) continue;
      plan.seconds = least_seconds = seconds;
      growth = g;
      plan.sample = sample;
    }
  }
  std::int64_t sample_tiles = 0;
  const bool of_tiles = tiled && !plan.look && !plan.listed;
  if (of_tiles) {
    const std::int64_t whole = (plan.sample + cuda::code_tile_rows - 1) / cuda::code_tile_rows;
    plan.sample = std::min(tiles, whole) * cuda::code_tile_rows;
  }
  if (of_tiles && !plan.runs) {
    sample_tiles = plan.sample / cuda::code_tile_rows;
    plan.stage_ends.push_back(sample_tiles);
  }
  plan.first_room = plan.look ? 1 : (plan.runs ? plan.sample / cuda::look_rows : plan.sample);
  plan.sample = std::min(plan.sample, shard.rows);
  const double whole = std::max(1.0, n / static_cast<double>(plan.sample));
  double share = 1 / whole;
  while (sample_tiles < tiles) {
    share *= std::max(growth, 1.5);
    const double end = std::ceil(share * static_cast<double>(tiles) * (1 - 1e-9));
    sample_tiles = std::clamp(static_cast<std::int64_t>(end), sample_tiles + 1, tiles);
    plan.stage_ends.push_back(sample_tiles);
  }
  plan.expected = static_cast<std::int64_t>(k * growth * shard.surplus) + 32;
  plan.refined = static_cast<std::int64_t>(1.5 * k * growth) + 32;
}

// Whether launches cost more than one dearer look at every pair.
bool one_pass_pays(const Shard& shard, std::int64_t queries, std::int64_t list_k) {
  const bool few = queries <= cuda::few_queries;
  if (shard.space.half || list_k > tuning::largest_one_pass_k ||
      shard.special_rows > (few && shard.space.int8() ? tuning::most_special_in_one_pass : 0) ||
      shard.rows < std::max(tuning::least_one_pass_rows, 64 * list_k)) {
    return false;
  }
  const tuning::Policy& policy = shard.policy;
  if (shard.space.int8()) {
    if (few) return true;
    return shard.space.shape.row_bytes() == 32 && queries * shard.rows <= policy.most_one_pass_pairs;
  }
  if (shard.space.dim > tuning::low_dimension) return false;
  // Queries fill whole blocks.
  return few || (queries + 127) / 128 * 128 * shard.rows <= policy.most_one_pass_pairs;
}

// Whether the first bound may come from one look at a sample.
bool look_pays(const Shard& shard, std::int64_t queries, std::int64_t list_k) {
  const std::int64_t least = shard.space.int8() ? cuda::scan_query_tile / 2 : cuda::few_queries;
  return !shard.space.half && list_k <= tuning::largest_one_pass_k && queries > least &&
         shard.rows >= 8 * shard.policy.least_look && shard.space.dim <= tuning::low_dimension &&
         (!shard.space.int8() || shard.space.shape.row_bytes() == 32);
}

// Or from the nearest of the runs of one. Long lists take long to start with all of a sample's rows: for them
// it may be a third of all, or more.
bool runs_pay(const Shard& shard, std::int64_t queries, std::int64_t list_k) {
  const std::int64_t times = list_k > tuning::longest_short_list ? 3 : 8;
  return shard.space.tiled() && list_k <= tuning::largest_block_k &&
         shard.rows >= times * least_in_runs(shard.policy, list_k) &&
         cuda::can_look(shard.space.shape, queries, shard.device);
}

std::optional<bool> order_forced;

}  // namespace

bool order_pays(std::int64_t queries, std::int64_t rows) {
  return order_forced.value_or(queries >= tuning::least_ordered_queries &&
                               queries * rows >= tuning::least_ordered_pairs);
}

void force_order(std::optional<bool> go) {
  order_forced = go;
}

LimitTooLow::LimitTooLow(std::int64_t k, std::uint64_t needed, std::uint64_t limit)
    : OutOfMemory(fmt::format(
          "a search for {} neighbours needs at least {} bytes of GPU memory, the device memory limit "
          "is {}; raise the limit or ask for fewer neighbours",
          k, needed, limit)),
      needed_(needed) {}

Plan make_plan(const Shard& shard, std::int64_t queries, std::int64_t list_k, std::size_t result_bytes,
               std::uint64_t budget, std::uint64_t limit, std::int64_t room, bool listed) {
  Plan plan;
  // With a large share of the rows in the answer there is nothing to filter.
  plan.filtered = shard.filtered() && list_k * 8 <= shard.rows;
  plan.expected = shard.rows;
  // How many rows a bound from a sample lets through varies the more the smaller k.
  const std::int64_t spread = 3 + static_cast<std::int64_t>(12 / std::sqrt(static_cast<double>(list_k)));
  if (plan.filtered) {
    plan.listed = listed;
    // Tiles of rows in lists are no samples of all rows.
    const bool divided = shard.lists.count > 0;
    plan.look = !divided && look_pays(shard, queries, list_k);
    plan.runs = !divided && !plan.look && runs_pay(shard, queries, list_k);
    plan_stages(plan, shard, queries, list_k);
    plan.one_pass = !divided && one_pass_pays(shard, queries, list_k);
  }
  const std::int64_t wanted =
      std::max({room, tuning::least_room, plan.filtered ? spread * plan.expected : list_k});
  if (room > 0) plan.expected = std::max(plan.expected, room / 4);
  plan.room = std::min({wanted, tuning::most_room, std::max<std::int64_t>(shard.rows, 1)});
  plan.room = std::max(plan.room, plan.first_room);
  // A query's memory: what it keeps, its list, for long lists distances and the space they are sorted in.
  const std::uint64_t key = 2 * result_bytes;
  const bool in_memory = list_k > tuning::largest_block_k;
  const std::uint64_t kept = 8 + (in_memory ? result_bytes + 2 * key : 0);  // a candidate
  const cuda::CodeSpace& space = shard.space;
  const std::int64_t coordinates = space.map == nullptr ? 0 : cuda::Coordinates::doubles(1, space.map_width);
  const std::int64_t fine = space.fine ? space.fine_stride() * 2 : 0;
  // Its share of the tiles that its block looks at.
  const std::int64_t visits =
      plan.listed ? shard.tiles() * 4 / cuda::choose_query_tile(space.shape, queries, shard.device) + 1 : 0;
  // The last sum but one: its codes once more, in the order of thresholds.
  const std::uint64_t fixed = static_cast<std::uint64_t>(list_k) * (in_memory ? 3 * key : key) +
                              static_cast<std::uint64_t>(space.dim * 16 + coordinates * 8 + fine + visits) +
                              static_cast<std::uint64_t>(space.tiled() ? space.shape.row_bytes() + 20 : 0) +
                              256;
  std::uint64_t memory = std::min(tuning::candidate_bytes, std::max<std::uint64_t>(budget / 8, 64U << 20U));
  if (limit > 0) memory = std::min(memory, limit);
  // Some queries keep far more than others, above all where codes keep many rows: searching these again takes
  // long.
  if (plan.filtered && room == 0) {
    const std::uint64_t parts = shard.surplus > tuning::uneven_surplus ? 2 : 8;
    const std::uint64_t share =
        memory / parts / static_cast<std::uint64_t>(std::max<std::int64_t>(queries, 1));
    const std::int64_t fit = share > fixed ? static_cast<std::int64_t>((share - fixed) / kept) : 0;
    plan.room =
        std::max(plan.room, std::min({fit, tuning::uneven_room * plan.room, tuning::most_room, shard.rows}));
  }
  if (room > 0 && memory > fixed) {
    plan.room = std::clamp(static_cast<std::int64_t>((memory - fixed) / kept), plan.first_room, plan.room);
  }
  const std::uint64_t each = static_cast<std::uint64_t>(plan.room) * kept + fixed;
  if (limit > 0 && each > limit) throw LimitTooLow(list_k, each, limit);
  plan.batch = std::clamp<std::int64_t>(static_cast<std::int64_t>(memory / each), 1, tuning::most_queries);
  const std::int64_t rounds = (queries + plan.batch - 1) / plan.batch;
  plan.batch = (queries + rounds - 1) / rounds;
  return plan;
}

double expected_seconds(const Shard& shard, std::int64_t queries, std::int64_t k) {
  Plan plan;
  plan.look = look_pays(shard, queries, k);
  plan.runs = !plan.look && runs_pay(shard, queries, k);
  plan_stages(plan, shard, queries, k);
  return plan.seconds;
}

}  // namespace kith::brute_force

// How rows come to those who compare them (filter_codes_wide.cu): which tiles a block looks at, the ring of
// slots in shared memory that one thread keeps filled, and what the others know of it.
#pragma once

#include <cstdint>

#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/mma.cuh"
#include "brute_force/cuda/scores.cuh"
#include "brute_force/cuda/wgmma.cuh"
#include "brute_force/cuda/wide_filter.hpp"

namespace kith::brute_force::cuda {
namespace {

constexpr int BQ = wide_query_tile;
constexpr int slot_rows = 128;
constexpr int group_threads = 128;
constexpr int most_slots = 8;
constexpr int barrier_bytes = 256;
constexpr int lookers = 3;  // warps that look through what is kept
static_assert((2 * most_slots + 2) * 8 <= barrier_bytes);

struct Args {
  const std::uint8_t* codes;
  const std::int32_t* bias;
  const float* largest;
  const std::uint8_t* query_codes;
  const QueryBound* bounds;
  const std::uint32_t* query_order;  // as in CodeFilter
  CodeTest test;
  std::int64_t queries;
  std::int64_t coded_queries;  // with those that fill up the last tile of the image
  int chunks;
  int steps;
  int slots;
  Stage stage;
  Candidates out;
};

// How a block looks at its products: `best` leaves the nearest of every 16 rows, the others keep what reaches
// a threshold. `each` compares every product with its own; `sets` sixteen together with the least of theirs,
// which takes half as long: for queries in the order of their thresholds.
enum class Look : std::uint8_t { best, each, sets };

// Groups of four warps that compare. Two hold products of 64 rows with all queries each; sets need few
// registers beside the products, so that four have room, each with half of the queries: what one waits for
// hides behind the others.
template <int steps, Look look>
inline constexpr int groups_of = steps > 0 && look == Look::sets ? 4 : 2;

// Where things lie in shared memory.
template <class Value>
struct Shared {
  std::uint32_t q_codes, ring, full, empty, query_barrier, limit_barrier;
  std::int32_t* biases;  // of the rows in a slot, [slots, slot_rows], where four groups compare
  std::uint32_t* rows;   // the first of them: tile * code_tile_rows + column
  Value* limits;         // minus the thresholds of the block's queries; behind them Scores::lowest()
  std::uint32_t* names;  // their numbers
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The tiles of a block: of every gridDim.y positions of the stage one, without a division for each. Some
// stages have visits, if `may_have_visits`.
template <bool may_have_visits>
class Walk {
 public:
  __device__ explicit Walk(const Stage& stage)
      : visits_(!may_have_visits || stage.visits.tiles == nullptr
                    ? nullptr
                    : stage.visits.tiles + blockIdx.x * stage.visits.room),
        left_(static_cast<std::int32_t>((stage.count_of(blockIdx.x) - blockIdx.y + gridDim.y - 1) /
                                        gridDim.y)) {
    if (may_have_visits && visits_ != nullptr) {
      visits_ += blockIdx.y;
      tile_ = left_ > 0 ? *visits_ : 0;
      return;
    }
    tiles_ = static_cast<std::uint32_t>(stage.tiles);
    tile_ = static_cast<std::uint32_t>(stage.tile(blockIdx.y));
    step_ = static_cast<std::uint32_t>(static_cast<std::uint64_t>(gridDim.y) *
                                       static_cast<std::uint64_t>(stage.multiplier) %
                                       static_cast<std::uint64_t>(stage.tiles));
  }
  /// Behind the last one some tile that there is.
  __device__ std::uint32_t tile() const { return tile_; }
  __device__ bool done() const { return left_ <= 0; }
  __device__ bool last() const { return left_ <= 1; }
  __device__ std::int32_t left() const { return left_; }
  __device__ void advance() {
    --left_;
    if (may_have_visits && visits_ != nullptr) {
      visits_ += gridDim.y;
      if (left_ > 0) tile_ = *visits_;
      return;
    }
    tile_ += step_;
    if (tile_ >= tiles_) tile_ -= tiles_;
  }

 private:
  const std::uint32_t* visits_;
  std::int32_t left_;
  std::uint32_t tiles_ = 1, tile_ = 0, step_ = 0;
};

template <int W, bool with_biases, class Value>
__device__ inline void produce(const Args& a, const Shared<Value>& shared) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * BQ;
  const auto bytes = static_cast<std::uint32_t>(min(std::int64_t{BQ}, a.coded_queries - first)) * W;
  const std::uint8_t* queries = a.query_codes + first * W * a.chunks;
  expect_bytes(shared.query_barrier, bytes * static_cast<std::uint32_t>(a.chunks));
  for (int chunk = 0; chunk < a.chunks; ++chunk) {
    copy_bulk(shared.q_codes + chunk * BQ * W, queries + chunk * BQ * W, bytes, shared.query_barrier);
  }
  constexpr std::uint32_t part = slot_rows * W;
  constexpr std::uint32_t bias_bytes = with_biases ? slot_rows * 4 : 0;
  int slot = 0;
  std::uint32_t parity = 1;  // the slots are free at the start
  for (Walk<!with_biases> walk(a.stage); !walk.done(); walk.advance()) {
    const std::uint8_t* tile =
        a.codes + static_cast<std::int64_t>(walk.tile()) * a.chunks * code_tile_rows * W;
    for (int half = 0; half < code_tile_rows / slot_rows; ++half) {
      for (int chunk = 0; chunk < a.chunks; ++chunk) {
        const std::uint32_t full = shared.full + slot * 8;
        wait(shared.empty + slot * 8, parity);
        if constexpr (with_biases) {
          const std::uint32_t row =
              walk.tile() * code_tile_rows + static_cast<std::uint32_t>(half * slot_rows);
          shared.rows[slot] = row;
          expect_bytes(full, part + bias_bytes);
          copy_bulk(shared_address(shared.biases + slot * slot_rows), a.bias + row, bias_bytes, full);
        } else {
          expect_bytes(full, part);
        }
        copy_bulk(shared.ring + slot * part, tile + (chunk * code_tile_rows + half * slot_rows) * W, part,
                  full);
        if (++slot == a.slots) {
          slot = 0;
          parity ^= 1;
        }
      }
    }
  }
}

// What a thread compares: products of two rows, 8 apart, with queries c * 8 + lane % 4 * 2 and the next.
template <class S>
struct Rows {
  std::uint32_t first;  // tile * code_tile_rows + column
  std::int32_t bias0, bias1;

  __device__ typename S::Value least0() const { return S::opposite_bias(bias0); }
  __device__ typename S::Value least1() const { return S::opposite_bias(bias1); }
};

// The rows that a thread compares, 64 of every 128 after the other, and the next ones, whose biases are on
// their way.
template <class S, Look look>
class RowWalk {
 public:
  __device__ RowWalk(const Args& a, std::uint32_t first_row) : a_(a), walk_(a.stage) {
    next_.first = walk_.tile() * code_tile_rows + first_row;
    load();
  }
  /// Whether there are rows to be compared.
  __device__ bool more() const { return !walk_.done(); }
  /// Whether others come after them.
  __device__ bool others() const { return next_.first % code_tile_rows < slot_rows || !walk_.last(); }
  __device__ const Rows<S>& rows() const { return next_; }
  __device__ void advance() {
    if (next_.first % code_tile_rows < slot_rows) {
      next_.first += slot_rows;
    } else {
      const std::uint32_t row = next_.first % code_tile_rows - slot_rows;
      walk_.advance();
      next_.first = walk_.tile() * code_tile_rows + row;
      position_ += gridDim.y;
    }
    load();
  }
  /// Of their tile.
  __device__ std::int64_t position() const { return position_; }

 private:
  __device__ void load() {
    next_.bias0 = __ldg(a_.bias + next_.first);
    next_.bias1 = __ldg(a_.bias + next_.first + 8);
  }
  const Args& a_;
  Walk<look == Look::each> walk_;
  Rows<S> next_{};
  std::int64_t position_ = blockIdx.y;
};

// What every thread of a warp has alike. Not made anew where it is used, as what is known of it would be.
__device__ inline std::uint32_t held(std::uint32_t value) {
  return __shfl_sync(0xffffffffU, value, 0);
}

// A descriptor, of which the upper half is known: the lower one.
template <int W>
__device__ inline std::uint32_t lower_half(std::uint32_t address) {
  return held(static_cast<std::uint32_t>(describe<W>(address)));
}
template <int W>
__device__ inline std::uint64_t descriptor(std::uint32_t lower) {
  return describe<W>(0) >> 32U << 32U | lower;
}

// The ring as those see it who take from it.
template <int W>
class Ring {
 public:
  __device__ Ring(std::uint32_t first_rows, std::uint32_t full, std::uint32_t empty, int slots)
      : first_(lower_half<W>(first_rows)),
        rows_(first_),
        full_(held(full)),
        last_(held(full + (slots - 1) * 8)),
        to_empty_(empty - full),
        back_((slots - 1) * 8) {}
  __device__ std::uint64_t rows() const { return descriptor<W>(rows_); }
  __device__ void wait_for_it() const { wait(full_, parity_); }
  __device__ std::uint32_t emptied() const { return full_ + to_empty_; }
  __device__ std::uint32_t slot() const { return (full_ + back_ - last_) / 8; }
  __device__ void advance() {
    if (full_ == last_) {
      full_ -= back_;
      rows_ = first_;
      parity_ ^= 1;
    } else {
      full_ += 8;
      rows_ += slot_rows * W / 16;
    }
  }

 private:
  std::uint32_t first_, rows_, full_, last_, to_empty_, back_;
  std::uint32_t parity_ = 0;
};

#endif

}  // namespace
}  // namespace kith::brute_force::cuda

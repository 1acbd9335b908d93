// What the GPU engine launches. One .cu a family; everything is ordered on the stream given.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "codes/cuda/codes.hpp"
#include "cuda/runtime.hpp"

namespace kith::select_k::cuda {
template <class R>
struct Key;
}  // namespace kith::select_k::cuda

namespace kith::brute_force::cuda {

// What this room stands on, by its own names; cuda::Buffer in kith::brute_force, too.
using namespace kith::cuda;
using namespace codes::cuda;
using select_k::cuda::Key;

template <class R>
inline constexpr std::int64_t key_bytes = 2 * sizeof(R);
/// Largest number of rows that one shard of a dataset may have: a row and one more bit fill 32 bits.
inline constexpr std::int64_t most_shard_rows = (std::int64_t{1} << 31) - 2;

/// A query's threshold in parts: the rows' largest residual E and norm X make it whole (codes), or it is one
/// float.
///   triangle:  c0 - (c1 + E)^2 / 2
///   cauchy:    c0 - c1 X - c2 E
///   float32:   c0
/// Halves: less what the sum of their products may be wrong by; c2 is |q'| in the triangle form, too.
struct QueryBound {
  double c0, c1, c2;
};

/// Of the tiles of a stage those that a block of queries looks at, where a partition leaves out others
/// (partition.hpp).
struct Visits {
  const std::uint32_t* tiles = nullptr;   ///< [blocks, room]; null: all of them
  const std::uint32_t* counts = nullptr;  ///< [blocks]
  std::int64_t room = 0;
};

/// The tiles of one stage. Position j of all tiles is tile (j * multiplier) % tiles: any range of positions
/// is spread over all tiles.
struct Stage {
  std::int64_t tiles = 0;
  std::int64_t multiplier = 1;
  std::int64_t first = 0;
  std::int64_t count = 0;
  const std::uint32_t* order = nullptr;  ///< as in Shard
  Visits visits = {};

  KITH_HOST_DEVICE std::int64_t tile(std::int64_t position) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(first + position) *
                                     static_cast<std::uint64_t>(multiplier) %
                                     static_cast<std::uint64_t>(tiles));
  }
  /// The same of those that a block looks at.
  KITH_HOST_DEVICE std::int64_t tile(std::int64_t block, std::int64_t position) const {
    return visits.tiles == nullptr ? tile(position) : visits.tiles[block * visits.room + position];
  }
  KITH_HOST_DEVICE std::int64_t count_of(std::int64_t block) const {
    return visits.tiles == nullptr ? count : visits.counts[block];
  }
  /// The row in a place of a tile.
  KITH_HOST_DEVICE std::int64_t row(std::int64_t tile, std::int64_t column) const {
    const std::int64_t at = row_of(tile, column, tiles);
    return order == nullptr ? at : static_cast<std::int64_t>(order[at]);
  }
};

/// Where a filter puts what it keeps: `room` entries a query. A count above `room` says how many there were.
/// An entry is a row below and its order above: the smaller, the nearer by the filter's own estimate; 0 where
/// there is none. A row whose order is above the cut that belongs to a bound cannot be within that bound.
struct Candidates {
  std::uint64_t* entries = nullptr;
  std::uint32_t* counts = nullptr;
  std::uint32_t room = 0;
};

/// Holds the place of a row that is no candidate.
inline constexpr std::uint64_t no_candidate = ~std::uint64_t{0};

/// How a filter that looks once at every pair deals the rows into lists: list l holds rows row(l, 0), ...
/// row(l, length - 1), of which some may not exist (-1).
struct ListShape {
  enum class Kind : std::uint8_t {
    consecutive,  ///< rows one after the other
    strided,      ///< `group` rows side by side, every `lists` groups
    positions,    ///< the same over places in the tiles of codes
    quarters,     ///< of `slice` tiles of codes every fourth pair of columns
  };
  Kind kind = Kind::consecutive;
  std::int64_t lists = 0;
  std::int64_t length = 0;
  std::int64_t rows = 0;
  std::int64_t tiles = 0;
  std::int64_t looked = 0;  ///< of them, how many are looked at: a sample's lists cannot be looked through
  std::int64_t group = 1;
  std::int64_t slice = 1;

  KITH_HOST_DEVICE std::int64_t row(std::int64_t l, std::int64_t j) const {
    std::int64_t at = 0;
    switch (kind) {
      case Kind::consecutive: at = l * length + j; break;
      case Kind::strided: at = l * group + j % group + j / group * lists * group; break;
      case Kind::positions: {
        const std::int64_t place = l * group + j % group + j / group * lists * group;
        if (place >= tiles * code_tile_rows) return -1;
        at = row_of(place / code_tile_rows, place % code_tile_rows, tiles);
        break;
      }
      case Kind::quarters: {
        const std::int64_t tile = l / 4 * slice + j / 64;
        if (tile >= tiles) return -1;
        at = row_of(tile, j % 64 / 2 * 8 + l % 4 * 2 + j % 2, tiles);
        break;
      }
    }
    return at < rows ? at : -1;
  }
};

/// What a look at every pair leaves, for each query and list: the nearest row by the filter's estimate, an
/// entry as in Candidates, and an order that no other row of the list is below.
struct Lists {
  std::uint64_t* first = nullptr;   ///< [queries, lists]
  std::uint32_t* second = nullptr;  ///< [queries, lists]
  ListShape shape;
  /// Of `positions`, also for each of the `group` places that a list has side by side: the rows there.
  std::uint64_t* part_first = nullptr;   ///< [queries, lists, group]
  std::uint32_t* part_second = nullptr;  ///< [queries, lists, group]
  /// Where the estimates are scores of int8 codes: what they are made of. Else null.
  const std::uint8_t* codes = nullptr;
  const std::int32_t* bias = nullptr;
  const std::uint8_t* query_codes = nullptr;
  int query_tile = 16;
  /// Rows that are in no list: each is evaluated.
  const std::uint32_t* special = nullptr;
  std::int64_t special_rows = 0;
};

/// Filter on the tensor cores: codes of int8 or half, rows and queries as encode.cu leaves them.
struct CodeFilter {
  RowCodes rows;
  std::int64_t shard_rows;
  const std::uint8_t* query_codes;
  const QueryBound* bounds;
  std::int64_t queries;
  int query_tile;  ///< 16, 64 or 128
  CodeShape shape;
  CodeTest test;
  bool all;  ///< thresholds are open: every row is kept, in place, no_candidate where there is none
  Stage stage;
  Candidates out;
  /// Not null: place i of `query_codes` is that of query query_order[i] (wide filter only).
  const std::uint32_t* query_order = nullptr;
};
/// Queries that a block of the filter has: those whose visits are one.
int queries_of_a_block(const CodeFilter& filter, int device);
/// Bytes of the longest codes that it takes: shared memory holds 16 of them beside a ring of rows.
std::int64_t longest_codes(int device);
/// Queries of a tile for so many queries of this shape. @throws DeviceError when shared memory is too small
int choose_query_tile(const CodeShape& shape, std::int64_t queries, int device);
/// Splits of the rows so that the blocks fill whole waves of `places`.
unsigned choose_splits(std::int64_t query_tiles, const Stage& stage, int places);
void run_code_filter(const CodeFilter& filter, int device, cudaStream_t stream);
/// Rows of a run in `run_look`.
inline constexpr int look_rows = 16;
/// Whether there is such a look for so many queries of codes of this shape.
bool can_look(const CodeShape& shape, std::int64_t queries, int device);
/// One look at the tiles of a stage: of every 16 rows the nearest by its score is a candidate, in the run's
/// place. The bounds of the queries have no say. False: not for these queries, nothing was done.
bool run_look(const CodeFilter& filter, int device, cudaStream_t stream);
/// run_code_filter for compute capability 9.0a, where it pays: query tiles of 128. False: not here, nothing
/// was done.
bool run_code_filter_sm90(const CodeFilter& filter, int device, cudaStream_t stream);
/// As run_look.
bool run_look_sm90(const CodeFilter& filter, int device, cudaStream_t stream);
/// Whether it does codes of this shape.
bool code_filter_sm90_fits(const CodeShape& shape, int device);
/// Queries of its blocks that go together; 0: not here.
int queries_of_a_block_sm90(const CodeFilter& filter, int device);
/// Whether the tensor cores sum products of halves as exactly as the bound of half codes takes for granted,
/// tried once a device; see docs/exact-contract.md, step 9.
bool halves_are_summed_well(int device);

/// float32 filter on the CUDA cores.
struct FloatFilter {
  const float* rows;
  std::int64_t row_stride;
  std::int64_t shard_rows;
  const float* queries;
  std::int64_t query_stride;
  const QueryBound* bounds;
  std::int64_t query_count;
  std::int64_t dim;
  bool squared;
  Stage stage;  ///< tiles of tuning::float_tile_rows
  Candidates out;
};
/// Values of an encoded query, padded as the kernel for this dimension wants it.
std::int64_t float_query_stride(std::int64_t dim);
void run_float_filter(const FloatFilter& filter, int device, cudaStream_t stream);

/// A batch of queries and their lists. Lists hold `k` keys each, ascending, Key::none() behind the last.
template <class R>
struct Batch {
  const void* data;  ///< the shard's rows, readable from the device
  std::int64_t stride;
  std::int64_t shard_rows;
  CodeSpace space;
  const double* queries;  ///< [count, padded]
  std::int64_t padded;
  const QueryScalars* scalars;
  std::int64_t count;
  const float* maxima;  ///< RowCodes::largest_residual and, behind it, RowCodes::largest
  Candidates candidates;
  R* distances;  ///< [count, room], where k is above tuning::largest_block_k
  Key<R>* lists;
  R* best;  ///< a query: no answer is farther than this, +inf while unknown
  std::int64_t k;
  Key<R>* scratch;         ///< k + room keys a query, where k is above tuning::largest_block_k
  Key<R>* partial;         ///< k keys a block, where several blocks share a query; refining counts there
  std::uint32_t* arrived;  ///< a query: blocks that are done with it; zero between launches
  QueryBound* bounds;
  std::uint8_t* overflow;  ///< a query: kept more than there was room for in this pass
  unsigned long long*
      counters;  ///< [0] candidates evaluated, [1] queries that overflowed, [4] candidates kept
  /// Fine codes of rows and queries, where candidates have orders by these, or null.
  const std::int16_t* fine = nullptr;
  const std::int16_t* fine_queries = nullptr;
  /// What find_heavy found, or null: every query of a launch has as many blocks.
  const std::uint32_t* heavy = nullptr;
};

/// Which of a batch's queries take part: all of them, or `count` of them listed in `ids`.
struct Subset {
  const std::uint32_t* ids = nullptr;
  std::int64_t count = 0;
};

/// Lists empty, counts zero, bounds from what is known (`best`, or null: open), closed for all but regular
/// queries.
template <class R>
void start_lists(const Batch<R>& batch, const R* best, cudaStream_t stream);

/// Candidates of every query: rows first, first + step, ... `count` of them, or the rows listed.
void fill_candidates(const Candidates& candidates, const Subset& subset, const std::uint32_t* listed,
                     std::int64_t first, double step, std::int64_t count, cudaStream_t stream);

/// Gives all candidates orders by fine codes, and drops those that the bounds so far rule out by these.
template <class R>
void refine_candidates(const Batch<R>& batch, cudaStream_t stream);

/// Evaluates the candidates and merges them into the lists, the nearest by the filter's estimate first, so
/// that most of the others need not be evaluated; forgets the candidates and tightens the bounds. `expected`
/// a query decides how the work is cut, `fresh` is how many of the k nearest so far are expected among them.
/// With `bound_only` the lists are left empty: the candidates were a sample whose rows come again. With
/// `more` another stage follows: what the bound so far does not rule out may stay unevaluated among the
/// candidates until then. For k up to tuning::largest_block_k.
template <class R>
void rerank_candidates(const Batch<R>& batch, const Subset& subset, std::int64_t expected, std::int64_t fresh,
                       bool bound_only, bool more, int device, cudaStream_t stream);
inline constexpr int most_reranked_at_once = 8192;  ///< candidates a block looks at together
inline constexpr int most_shared_lists = 512;       ///< in Batch::partial, of all queries together
/// Blocks that share a query in rerank_candidates.
int rerank_blocks(std::int64_t queries, std::int64_t expected, int device);
/// Some queries may keep a hundred times more than most, and a launch takes as long as its longest block: up
/// to most_heavy of them are split among heavy_shares blocks each.
inline constexpr int most_heavy = 32;
inline constexpr int heavy_shares = 16;
static_assert(most_heavy * heavy_shares <= most_shared_lists);
/// Of the queries that keep more than `most` the most_heavy that keep the most, to an eighth of a doubling,
/// in no particular order; the rest of `heavy` is nobody. Answers do not depend on which these are.
void find_heavy(const Candidates& candidates, std::int64_t queries, std::int64_t most, std::uint32_t* heavy,
                cudaStream_t stream);
/// The same for any k, all candidates evaluated.
template <class R>
void rerank_long(const Batch<R>& batch, const Subset& subset, std::int64_t expected, bool bound_only,
                 int device, cudaStream_t stream);

/// Where rerank_lists leaves answers, [count, k], and what it counted.
template <class R>
struct Answer {
  std::int64_t base;  ///< row number of the shard's first row
  std::int64_t* indices;
  R* distances;
  unsigned long long* totals;  ///< four counters on the device, zero between launches
  unsigned long long*
      seen;  ///< host memory: evaluated, not answered, NaN queries; `ticket` when all is there
  unsigned long long ticket;
};
/// Evaluates what may be in the answers, the first entries of lists and those lists whose second may be, and
/// writes the answers. For k up to tuning::largest_one_pass_k.
template <class R>
void rerank_lists(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, int device,
                  cudaStream_t stream);

/// The same for few queries, whose lists are of `positions`.
template <class R>
void rerank_few(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, int device,
                cudaStream_t stream);

/// Bounds from the lists of a sample, for rows of up to tuning::low_dimension values and as many k: the lists
/// stay empty.
template <class R>
void bound_by_lists(const Batch<R>& batch, const Lists& lists, int device, cudaStream_t stream);

/// One look at every pair. `scan_shape` deals the rows; scan_* fills Lists.
struct Scan {
  CodeSpace space;
  std::int64_t rows;
  std::int64_t row_step;  ///< float32: row i of the scan is row i * row_step of the shard
  const float* floats;    ///< rows, where the filter is float32
  std::int64_t float_stride;
  RowCodes codes;
  const float* queries;  ///< encoded queries
  std::int64_t query_stride;
  const std::uint8_t* query_codes;
  int query_tile;
  std::int64_t count;
  Lists out;
  /// Queries that are not encoded yet: the scan does that first, and leaves values and scalars in `encoded`.
  /// Null where they are.
  const void* raw = nullptr;
  std::int64_t raw_stride = 0;
  QueryCodes encoded;
};
/// Whether a scan encodes its queries itself.
bool scan_codes_queries(const CodeSpace& space, const ListShape& shape);
/// Queries that a thread of the scans for few queries holds at once.
inline constexpr int few_queries = 4;
/// Queries of a tile in the scan of codes for many.
inline constexpr int scan_query_tile = 128;
/// `looked` rows of `rows`: all of them, or a sample. `packed`: see packed_rows.
ListShape scan_shape(const CodeSpace& space, std::int64_t rows, std::int64_t looked, std::int64_t queries,
                     bool packed, int device);
/// Whether float32 rows lie so that few of them can be read together.
bool packed_rows(const CodeSpace& space, const float* rows, std::int64_t stride);
void scan_rows(const Scan& scan, int device, cudaStream_t stream);

/// Rows of `row_bytes` bytes, `stride` apart: those listed one after the other, and back.
void gather_rows(const void* from, std::int64_t stride, std::int64_t row_bytes, const std::uint32_t* ids,
                 std::int64_t count, void* to, cudaStream_t stream);
void scatter_rows(const void* from, std::int64_t row_bytes, const std::uint32_t* ids, std::int64_t count,
                  void* to, cudaStream_t stream);

/// Empties the lists of a subset.
template <class R>
void clear_lists(const Batch<R>& batch, const Subset& subset, cudaStream_t stream);

/// Lists to answers, [count, k]: row + base, or -1 and +inf. With `exact` (zero before) also lists the
/// queries that overflowed or that no filter speaks for in `exact_ids`, and says in exact[0] how many there
/// are.
template <class R>
void write_lists(const Batch<R>& batch, std::int64_t k, std::int64_t base, std::int64_t* indices,
                 R* distances, bool filtered, std::uint32_t* exact_ids, std::uint32_t* exact,
                 cudaStream_t stream);

/// Merges answers of several shards, each [queries, k] as write_lists leaves them, into one.
template <class R>
void merge_answers(const std::int64_t* const* indices, const R* const* distances, int shards,
                   std::int64_t queries, std::int64_t k, std::int64_t* out_indices, R* out_distances,
                   cudaStream_t stream);

}  // namespace kith::brute_force::cuda

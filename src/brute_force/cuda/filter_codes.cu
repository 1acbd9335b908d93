// The filter of codes on the tensor cores (mma.sync, compute capability 8.0 and up): products of int8 or half
// codes that never reach memory.
//
// A block owns a tile of queries, which stays in shared memory, and streams tiles of 256 rows past it through
// a ring of buffers filled by cp.async. Eight warps share the tile: a warp owns WM queries x WN rows in
// registers. The accumulators start at the bias of their row, so that what is left of the test is one
// comparison with the query's threshold for this tile; a thread first compares the largest of its values, so
// that a pair costs one integer maximum. What passes is appended to the query's candidates by an atomic on
// its count.
//
// Shared memory is read by ldmatrix; 16-byte units are exchanged by the row number (CodeShape::offset), so
// that eight rows of a column lie in different banks.
#include <algorithm>

#include <math_constants.h>

#include "brute_force/cuda/append.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/mma.cuh"
#include "brute_force/cuda/scores.cuh"
#include "brute_force/cuda/wide_filter.hpp"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"

namespace kith::brute_force::cuda {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int BN = code_tile_rows;

struct Args {
  const std::uint8_t* codes;
  const std::int32_t* bias;
  const float* largest;
  const std::uint8_t* query_codes;
  const QueryBound* bounds;
  CodeTest test;
  std::int64_t queries;
  int chunks;
  int steps;
  bool all;
  Stage stage;
  Candidates out;
};

// Buffers of the ring: as many as hide the latency of memory, fewer where the queries take the room, or where
// there is little of it: 99 KB, compute capability 8.6 and 8.9, are three buffers of long rows and nothing
// else.
constexpr int ring = 4;
constexpr int short_ring = 3;
constexpr int least_ring = 2;

template <int BM, int W, int slots>
struct Layout {
  static constexpr int stage_bytes = BN * W;
  static constexpr int h_bytes = BN * 4;
  static std::size_t bytes(int chunks) {
    return static_cast<std::size_t>(chunks) * BM * W + slots * (stage_bytes + h_bytes) + BM * 4 +
           warps * sizeof(WarpBuffer);
  }
};

// Blocks of few queries are bound by memory: two of them share a processor.
template <int BM, int W, int slots, bool half>
__global__ void __launch_bounds__(threads, BM == 16 ? 2 : 1) filter_kernel(Args a) {
  using S = Scores<half>;
  using Value = typename S::Value;
  constexpr int WM = BM < 64 ? BM : 64;
  constexpr int warps_m = BM / WM;
  constexpr int warps_n = warps / warps_m;
  constexpr int WN = BN / warps_n;
  constexpr int MI = WM / 16;
  constexpr int NI = WN / 8;
  static_assert(NI * 4 <= 32);
  constexpr int units = W / 16;
  using L = Layout<BM, W, slots>;

  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char* const q_codes = shared;
  unsigned char* const ring_codes = shared + a.chunks * BM * W;
  auto* const ring_h = reinterpret_cast<std::int32_t*>(ring_codes + slots * L::stage_bytes);
  auto* const thresholds = reinterpret_cast<Value*>(ring_h + slots * BN);

  auto* const buffers = reinterpret_cast<WarpBuffer*>(thresholds + BM);
  const int tid = static_cast<int>(threadIdx.x);
  const int warp = tid / 32;
  Appender appender(buffers + warp, a.out);
  const int lane = tid % 32;
  const int wm = warp / warps_n * WM;
  const int wn = warp % warps_n * WN;
  const std::int64_t first_query = static_cast<std::int64_t>(blockIdx.x) * BM;

  const std::int64_t mine = (a.stage.count_of(blockIdx.x) - blockIdx.y + gridDim.y - 1) / gridDim.y;
  if (mine <= 0) return;
  const auto tile_at = [&](std::int64_t i) { return a.stage.tile(blockIdx.x, blockIdx.y + i * gridDim.y); };

  // The queries, once.
  {
    const std::uint8_t* from = a.query_codes + first_query * W * a.chunks;
    for (int i = tid; i < a.chunks * BM * units; i += threads) {
      copy_async(shared_address(q_codes + i * 16), from + static_cast<std::int64_t>(i) * 16);
    }
  }
  if (tid < BM) {
    const QueryBound bound =
        first_query + tid < a.queries ? a.bounds[first_query + tid] : QueryBound{CUDART_INF, 0, 0};
    thresholds[tid] = S::limit(bound, a.test, a.largest);
  }

  const std::int64_t total = mine * a.chunks;
  std::int64_t load_tile = 0;
  int load_chunk = 0;
  int load_slot = 0;
  const auto load = [&]() {
    if (load_tile < mine) {
      const std::int64_t tile = tile_at(load_tile);
      const std::uint8_t* from = a.codes + (tile * a.chunks + load_chunk) * L::stage_bytes;
      const std::uint32_t to = shared_address(ring_codes + load_slot * L::stage_bytes);
#pragma unroll
      for (int i = 0; i < L::stage_bytes / 16 / threads; ++i) {
        copy_async(to + (i * threads + tid) * 16, from + (i * threads + tid) * 16);
      }
      if (load_chunk == 0 && tid < BN / 4) {
        copy_async(shared_address(ring_h + load_slot * BN + tid * 4), a.bias + tile * BN + tid * 4);
      }
      if (++load_chunk == a.chunks) {
        load_chunk = 0;
        ++load_tile;
      }
    }
    load_slot = load_slot + 1 == slots ? 0 : load_slot + 1;
    commit_copies();
  };
#pragma unroll
  for (int s = 0; s < slots - 1; ++s) load();

  Value acc[MI][NI][4];
  std::int64_t tile_index = 0;
  int chunk = 0;
  int slot = 0;
  for (std::int64_t it = 0; it < total; ++it) {
    wait_copies<slots - 2>();
    __syncthreads();
    load();
    if (chunk == 0) {
      const std::int32_t* h = ring_h + slot * BN + wn;
#pragma unroll
      for (int n = 0; n < NI; ++n) {
        const Value h0 = S::bias(h[n * 8 + lane % 4 * 2]);
        const Value h1 = S::bias(h[n * 8 + lane % 4 * 2 + 1]);
#pragma unroll
        for (int m = 0; m < MI; ++m) {
          acc[m][n][0] = acc[m][n][2] = h0;
          acc[m][n][1] = acc[m][n][3] = h1;
        }
      }
    }
    const unsigned char* rows = ring_codes + slot * L::stage_bytes;
    const unsigned char* queries = q_codes + chunk * BM * W;
    const int left = a.steps - chunk * (W / 32);
#pragma unroll
    for (int s = 0; s < W / 32; ++s) {
      if (s >= left) break;
      std::uint32_t fa[MI][4];
#pragma unroll
      for (int m = 0; m < MI; ++m) {
        const int row = wm + m * 16 + lane % 16;
        const int unit = (2 * s + lane / 16) ^ ((row * W >> 7) & (units - 1));
        load_matrices(fa[m], shared_address(queries + row * W + unit * 16));
      }
#pragma unroll
      for (int n = 0; n < NI; n += 2) {
        std::uint32_t fb[4];
        const int row = wn + n * 8 + lane % 8 + lane / 16 * 8;
        const int unit = (2 * s + (lane / 8 & 1)) ^ ((row * W >> 7) & (units - 1));
        load_matrices(fb, shared_address(rows + row * W + unit * 16));
#pragma unroll
        for (int m = 0; m < MI; ++m) {
          multiply(acc[m][n], fa[m], fb[0], fb[1]);
          multiply(acc[m][n + 1], fa[m], fb[2], fb[3]);
        }
      }
    }
    slot = slot + 1 == slots ? 0 : slot + 1;
    if (++chunk < a.chunks) continue;
    chunk = 0;

    const Value* limits = thresholds + wm + lane / 4;
    unsigned found[MI];
    Value scores[MI * 32];  // of what was found: in local memory, so that the code below stays short
    bool some = false;      // the same in the whole warp
#pragma unroll
    for (int m = 0; m < MI; ++m) {
      const Value t0 = limits[m * 16];
      const Value t1 = limits[m * 16 + 8];
      Value largest0 = acc[m][0][0];
      Value largest1 = acc[m][0][2];
#pragma unroll
      for (int n = 0; n < NI; ++n) {
        largest0 = S::larger(largest0, S::larger(acc[m][n][0], acc[m][n][1]));
        largest1 = S::larger(largest1, S::larger(acc[m][n][2], acc[m][n][3]));
      }
      found[m] = 0;
      if (!__any_sync(0xffffffffU, a.all || largest0 >= t0 || largest1 >= t1)) continue;
      some = true;
#pragma unroll
      for (int n = 0; n < NI; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          scores[m * 32 + n * 4 + c] = acc[m][n][c];
          found[m] |= (a.all || acc[m][n][c] >= (c < 2 ? t0 : t1) ? 1U : 0U) << (n * 4 + c);
        }
      }
    }
    if (some) {
      const std::int64_t tile = tile_at(tile_index);
      const std::int64_t position = blockIdx.y + tile_index * gridDim.y;
      take_found(found, [&](int i, bool hit) {
        const std::int32_t score = hit ? S::order(scores[i]) : S::no_score;
        const int column = wn + i % 32 / 4 * 8 + lane % 4 * 2 + i % 2;
        const std::int64_t q = first_query + wm + i / 32 * 16 + i / 2 % 2 * 8 + lane / 4;
        const auto row = static_cast<std::uint32_t>(a.stage.row(tile, column));
        if (a.all) {
          keep_in_place(a.out, a.queries, a.stage, q, position, column, row, score, S::least());
        } else {
          appender.add(hit, q, make_candidate(score, row));
        }
      });
    }
    ++tile_index;
  }
  wait_copies<0>();
  appender.flush();
}

template <int BM, int W, int slots>
void launch(const CodeFilter& f, int device, cudaStream_t stream) {
  const std::int64_t query_tiles = (f.queries + BM - 1) / BM;
  const Args args{f.rows.codes, f.rows.bias,    f.rows.largest, f.query_codes, f.bounds, f.test,
                  f.queries,    f.shape.chunks, f.shape.steps,  f.all,         f.stage,  f.out};
  const std::size_t bytes = Layout<BM, W, slots>::bytes(f.shape.chunks);
  const auto kernel = f.test.half ? filter_kernel<BM, W, slots, true> : filter_kernel<BM, W, slots, false>;
  const int resident = allow_shared(kernel, threads, bytes, device);
  const dim3 grid(static_cast<unsigned>(query_tiles),
                  choose_splits(query_tiles, f.stage, processors(device) * resident));
  kernel<<<grid, threads, bytes, stream>>>(args);
  check_launch("filter of codes");
}

constexpr std::int64_t blocks_a_processor = 6;

std::size_t bytes_of(int tile, const CodeShape& shape, int slots) {
  return static_cast<std::size_t>(shape.chunks) * tile * shape.width +
         static_cast<std::size_t>(slots) * (BN * shape.width + BN * 4) + static_cast<unsigned>(tile) * 4U +
         warps * sizeof(WarpBuffer);
}

template <int W, int slots>
void launch_tile(const CodeFilter& f, int device, cudaStream_t stream) {
  if (f.query_tile == 128) {
    launch<128, W, slots>(f, device, stream);
  } else if (f.query_tile == 64) {
    launch<64, W, slots>(f, device, stream);
  } else {
    launch<16, W, slots>(f, device, stream);
  }
}

}  // namespace

unsigned choose_splits(std::int64_t query_tiles, const Stage& stage, int processors) {
  const std::int64_t tiles = stage.count;
  if (stage.visits.tiles != nullptr) {
    // Nobody knows how many tiles each looks at: small blocks share the work out by themselves.
    const std::int64_t wanted = (blocks_a_processor * processors + query_tiles - 1) / query_tiles;
    return static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, std::min<std::int64_t>(tiles, 65535)));
  }
  std::int64_t best = 1;
  double best_use = 0;
  const std::int64_t most = tiles < 65535 ? tiles : 65535;
  const std::int64_t look = (4 * static_cast<std::int64_t>(processors) + query_tiles - 1) / query_tiles;
  for (std::int64_t s = 1; s <= most && s <= look; ++s) {
    const std::int64_t blocks = s * query_tiles;
    const std::int64_t waves = (blocks + processors - 1) / processors;
    const std::int64_t longest = (tiles + s - 1) / s;  // tiles of the slowest block
    const double use = static_cast<double>(query_tiles * tiles) /
                       (static_cast<double>(waves * longest) * processors) *
                       (1 - 0.004 * static_cast<double>(waves));
    if (use > best_use + 1e-9) {
      best_use = use;
      best = s;
    }
  }
  return static_cast<unsigned>(best);
}

bool can_look(const CodeShape& shape, std::int64_t queries, int device) {
  return queries > 64 && code_filter_sm90_fits(shape, device);
}

int choose_query_tile(const CodeShape& shape, std::int64_t queries, int device) {
  const auto limit = static_cast<std::size_t>(shared_limit(device));
  if (can_look(shape, queries, device)) {
    return wide_filter_pays(shape, queries, device) ? wide_query_tile : 128;
  }
  for (const int slots : {short_ring, least_ring}) {
    for (const int tile : {128, 64, 16}) {
      const bool wanted = tile == 16 || queries > tile / 2;
      if (wanted && bytes_of(tile, shape, slots) <= limit) return tile;
    }
  }
  throw DeviceError("the GPU has too little shared memory for codes of this length; use the filter none");
}

bool run_look(const CodeFilter& f, int device, cudaStream_t stream) {
  return run_wide_look(f, device, stream) || run_look_sm90(f, device, stream);
}

std::int64_t longest_codes(int device) {
  const auto limit = static_cast<std::size_t>(shared_limit(device));
  std::int64_t bytes = largest_code_bytes;
  while (bytes > 128 && bytes_of(16, CodeShape::of(bytes), least_ring) > limit) bytes -= 128;
  return bytes;
}

int queries_of_a_block(const CodeFilter& f, int device) {
  if (wide_filter_takes(f, device)) return wide_query_tile;
  const int of_sm90 = queries_of_a_block_sm90(f, device);
  return of_sm90 > 0 ? of_sm90 : f.query_tile;
}

void run_code_filter(const CodeFilter& f, int device, cudaStream_t stream) {
  if (f.stage.count <= 0 || f.queries <= 0) return;
  if (run_wide_filter(f, device, stream) || run_code_filter_sm90(f, device, stream)) return;
  const auto fits = [&](int slots) {
    return bytes_of(f.query_tile, f.shape, slots) <= static_cast<std::size_t>(shared_limit(device));
  };
  switch (f.shape.width) {
    case 32: launch_tile<32, ring>(f, device, stream); break;
    case 64: launch_tile<64, ring>(f, device, stream); break;
    default:
      if (f.query_tile > 16 && fits(ring)) {
        launch_tile<128, ring>(f, device, stream);
      } else if (fits(short_ring)) {
        launch_tile<128, short_ring>(f, device, stream);
      } else {
        launch_tile<128, least_ring>(f, device, stream);
      }
  }
}

}  // namespace kith::brute_force::cuda

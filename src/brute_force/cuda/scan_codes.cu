// One look at every pair of int8 codes: see one_pass.cu.
#include "brute_force/cuda/mma.cuh"
#include "brute_force/cuda/scan.cuh"
#include "codes/cuda/encode_query.cuh"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"
#include "cuda/visit_element.cuh"

namespace kith::brute_force::cuda {
namespace {

using namespace distance::cuda;

__device__ inline void write_list(std::uint64_t* to_first, std::uint32_t* to_second, std::int32_t first,
                                  std::int32_t second, std::int64_t row) {
  *to_first = first < keep_all ? no_candidate : make_candidate(first, static_cast<std::uint32_t>(row));
  *to_second = second < keep_all ? 0xffffffffU : order_of(second);
}

// The row at a place in the tiles of codes, if its score is that of one.
__device__ inline std::int64_t row_at(std::int64_t place, std::int32_t score, std::int64_t tiles) {
  return score < keep_all ? 0 : row_of(place / code_tile_rows, place % code_tile_rows, tiles);
}

// Few queries: what counts is that the memory always has something to do. Each warp keeps a ring of row codes
// in shared memory filled by itself, 32 rows a piece, and waits for nobody else. A thread has a row; the
// image's order of a row's units keeps what eight threads read together in different banks. Sixteen threads
// are a list.
template <int W, int Q>
__global__ void __launch_bounds__(few_code_threads) scan_few_codes_kernel(Scan s, std::int64_t kept) {
  constexpr int units = W / 16;
  constexpr int pieces = few_piece_bytes / (32 * W);  // that come together
  constexpr int code_bytes = 32 * W;
  constexpr int bias_bytes = 32 * 4;
  constexpr int slot_bytes = pieces * (code_bytes + bias_bytes);
  static_assert(slot_bytes == few_slot_bytes(W));
  extern __shared__ __align__(128) unsigned char few_shared[];
  const int chunks = s.space.shape.chunks;
  const int row_units = chunks * units;
  auto* const query_units = reinterpret_cast<uint4*>(few_shared);  // [Q][row_units]
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned char* const ring = few_shared + few_query_bytes(row_units * 16, Q) +
                              static_cast<int>(threadIdx.x) / 32 * few_ring * slot_bytes;
  static_assert(slot_bytes % 128 == 0);

  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * few_code_threads + threadIdx.x) / 32;
  const std::int64_t step = s.out.shape.lists * s.out.shape.group;  // places between a thread's rows
  const std::int64_t places = s.codes.bias == nullptr ? 0 : s.out.shape.tiles * code_tile_rows;
  const std::int64_t first_place = warp * 32;
  const auto rounds = static_cast<int>(first_place < places ? (places - first_place + step - 1) / step : 0);
  const int slots = (rounds + pieces - 1) / pieces * chunks;

  const std::uint64_t once = read_once();
  const std::uint64_t again = read_again();
  int next_chunk = 0;
  std::int64_t next_place = first_place;
  int next_slot = 0;
  const auto load = [&] {
    unsigned char* const to = ring + next_slot * slot_bytes;
    if (++next_slot == few_ring) next_slot = 0;
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
      const std::int64_t place = next_place + p * step;
      if (place >= places) break;
      const std::int64_t tile = place / code_tile_rows * chunks + next_chunk;
      const std::uint8_t* from = s.codes.codes + (tile * code_tile_rows + place % code_tile_rows) * W;
      const std::uint32_t at = shared_address(to + p * code_bytes);
      const std::uint64_t policy = place < kept ? again : once;
#pragma unroll
      for (int i = 0; i < code_bytes; i += 512) copy_async(at + i + lane * 16, from + i + lane * 16, policy);
      if (next_chunk == chunks - 1 && lane < bias_bytes / 16) {
        copy_async(shared_address(to + pieces * code_bytes + p * bias_bytes + lane * 16),
                   s.codes.bias + place + lane * 4, policy);
      }
    }
    commit_copies();
    if (++next_chunk == chunks) {
      next_chunk = 0;
      next_place += pieces * step;
    }
  };
  // The queries' codes may be on their way yet; the rows' were there before that began, since whoever encodes
  // queries lets this kernel start only when all before itself is done. A slot, no more: encoding needs the
  // memory, too.
  load();
  wait_for_previous();
  let_next_launch();  // it may read what encoding has left
#pragma unroll
  for (int i = 1; i < few_ring - 1; ++i) load();
  for (int i = threadIdx.x; i < Q * row_units; i += few_code_threads) {
    const std::int64_t q = i / row_units < s.count ? i / row_units : s.count - 1;
    query_units[i] = *reinterpret_cast<const uint4*>(
        s.query_codes + s.space.shape.offset(q, i % row_units * 16, s.query_tile));
  }
  __syncthreads();

  std::int32_t first[Q];
  std::int32_t second[Q];
  int found[Q];  // round
#pragma unroll
  for (int q = 0; q < Q; ++q) {
    first[q] = second[q] = no_row;
    found[q] = -1;
  }
  const int turn = lane * W >> 7 & (units - 1);  // unit u of this row lies at u ^ turn
  std::int32_t sum[pieces][Q];
  int slot = 0;
  int chunk = 0;
  int round = 0;
  for (int done = 0; done < slots; ++done) {
    wait_copies<few_ring - 2>();
    __syncwarp();
    const unsigned char* const rows = ring + slot * slot_bytes;
    load();  // into the slot that all have read before the last round's end
    if (++slot == few_ring) slot = 0;
    if (chunk == 0) {
#pragma unroll
      for (int p = 0; p < pieces; ++p) {
#pragma unroll
        for (int q = 0; q < Q; ++q) sum[p][q] = 0;
      }
    }
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
#pragma unroll
      for (int unit = 0; unit < units; ++unit) {
        const uint4 x =
            *reinterpret_cast<const uint4*>(rows + p * code_bytes + lane * W + (unit ^ turn) * 16);
#pragma unroll
        for (int q = 0; q < Q; ++q) {
          const uint4 y = query_units[q * row_units + chunk * units + unit];
          sum[p][q] = __dp4a(static_cast<int>(x.x), static_cast<int>(y.x), sum[p][q]);
          sum[p][q] = __dp4a(static_cast<int>(x.y), static_cast<int>(y.y), sum[p][q]);
          sum[p][q] = __dp4a(static_cast<int>(x.z), static_cast<int>(y.z), sum[p][q]);
          sum[p][q] = __dp4a(static_cast<int>(x.w), static_cast<int>(y.w), sum[p][q]);
        }
      }
    }
    if (++chunk == chunks) {
      chunk = 0;
#pragma unroll
      for (int p = 0; p < pieces; ++p, ++round) {
        if (round >= rounds) break;
        const std::int32_t bias =
            *reinterpret_cast<const std::int32_t*>(rows + pieces * code_bytes + p * bias_bytes + lane * 4);
#pragma unroll
        for (int q = 0; q < Q; ++q) {
          const std::int32_t score = sum[p][q] + bias;
          if (score <= second[q]) continue;
          if (score > first[q]) {
            second[q] = first[q];
            first[q] = score;
            found[q] = round;
          } else {
            second[q] = score;
          }
        }
      }
    }
    __syncwarp();
  }
  wait_copies<0>();
#pragma unroll
  for (int q = 0; q < Q; ++q) {
    std::int64_t place = found[q] < 0 ? INT64_MAX : first_place + lane + found[q] * step;
    if (q < s.count) {
      const std::int64_t part = q * s.out.shape.lists * few_code_group + warp * 32 + lane;
      write_list(s.out.part_first + part, s.out.part_second + part, first[q], second[q],
                 row_at(place, first[q], s.out.shape.tiles));
    }
    merge_threads<few_code_group>(first[q], second[q], place,
                                  [](std::int32_t a, std::int32_t b) { return a > b; });
    if (lane % few_code_group == 0 && q < s.count) {
      const std::int64_t l = q * s.out.shape.lists + warp * (32 / few_code_group) + lane / few_code_group;
      write_list(s.out.first + l, s.out.second + l, first[q], second[q],
                 row_at(place, first[q], s.out.shape.tiles));
    }
  }
}

// The code of a query of up to 32 values, by one thread: the one that encode_query gives every query that a
// filter speaks for, where its step is that of the rows.
template <class T>
__device__ inline void encode_short_query(const T* row, const CodeSpace& space, unsigned char* codes,
                                          int place) {
  const double inverse = 1 / space.step;
  const int dim = static_cast<int>(space.dim);
  constexpr int batch = 8;  // loads in flight
#pragma unroll 1
  for (int base = 0; base < 32; base += batch) {
    double values[batch];
    double means[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      values[j] = base + j < dim ? widen(row[base + j]) : 0;
      means[j] = base + j < dim && space.mean != nullptr ? space.mean[base + j] : 0;
    }
    std::uint32_t packed[batch / 4] = {};
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      int code = 0;
      if (space.raw_integers) {
        code = static_cast<int>(values[j]) - space.offset();
      } else {
        // As in_code_space has it.
        const double y = space.mean == nullptr ? values[j] * space.unit : (values[j] - means[j]) * space.unit;
        code = static_cast<int>(rint(fmin(fmax(y * inverse, -127.0), 127.0)));
      }
      if (base + j < dim) packed[j / 4] |= static_cast<std::uint32_t>(code & 255) << (8 * (j % 4));
    }
#pragma unroll
    for (int j = 0; j < batch; j += 4) {
      *reinterpret_cast<std::uint32_t*>(codes + space.shape.offset(place, base + j, scan_query_tile)) =
          packed[j / 4];
    }
  }
}

constexpr int tile_threads = 128;
constexpr int tile_ring = 4;
constexpr int tile_bytes = code_tile_rows * 32;

// Many queries, rows of up to 32 values: a warp owns 32 queries, a block 128 and a slice of the tiles. A
// thread sees every fourth pair of columns: that is its list.
template <class T>
__global__ void __launch_bounds__(tile_threads) scan_tiles_kernel(Scan s) {
  __shared__ __align__(128) unsigned char query_codes[scan_query_tile * 32];
  __shared__ __align__(128) unsigned char ring[tile_ring][tile_bytes];
  __shared__ __align__(16) std::int32_t ring_bias[tile_ring][code_tile_rows];
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % 32;
  const int warp = tid / 32;
  const std::int64_t q0 = static_cast<std::int64_t>(blockIdx.x) * scan_query_tile;
  if (blockIdx.y * std::int64_t{4} == s.out.shape.lists) {  // beside the scan: all but the codes
    static_assert(tile_threads == scan_query_tile);
    if (q0 + tid >= s.count) return;
    QueryCodes out = s.encoded;
    out.codes = query_codes;
    out.tile = scan_query_tile;
    encode_query<1>(static_cast<const T*>(s.raw), s.raw_stride, q0 + tid, s.count, tid, s.space, out, [] {});
    start_query<T>(q0 + tid, out);
    return;
  }
  const std::int64_t first_tile = blockIdx.y * s.out.shape.slice;
  const std::int64_t left = s.out.shape.looked - first_tile;
  const int tiles = static_cast<int>(left < s.out.shape.slice ? left : s.out.shape.slice);

  if (s.raw == nullptr) {
    for (int i = tid; i < scan_query_tile * 2; i += tile_threads)
      copy_async(shared_address(query_codes + i * 16), s.query_codes + q0 * 32 + i * 16);
  }
  const auto load = [&](int t) {
    if (t < tiles) {
      const int slot = t % tile_ring;
      const std::uint8_t* from = s.codes.codes + (first_tile + t) * tile_bytes;
#pragma unroll
      for (int i = 0; i < tile_bytes / 16 / tile_threads; ++i) {
        const int at = (i * tile_threads + tid) * 16;
        copy_async(shared_address(ring[slot] + at), from + at);
      }
      if (tid < code_tile_rows / 4)
        copy_async(shared_address(ring_bias[slot] + tid * 4),
                   s.codes.bias + (first_tile + t) * code_tile_rows + tid * 4);
    }
    commit_copies();
  };
#pragma unroll
  for (int t = 0; t < tile_ring - 1; ++t) load(t);
  if (s.raw != nullptr && q0 + tid < s.count) {
    encode_short_query(static_cast<const T*>(s.raw) + (q0 + tid) * s.raw_stride, s.space, query_codes, tid);
  }

  // Below every score that a row can have, and so that six more bits fit.
  constexpr std::int32_t none = -(1 << 24);
  std::uint32_t fa[2][4];
  std::int32_t first[4];  // of queries lane / 4 + 8 i
  std::int32_t second[4];
  std::int32_t found[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first[i] = second[i] = none;
    found[i] = 0;
  }
  for (int t = 0; t < tiles; ++t) {
    wait_copies<tile_ring - 2>();
    __syncthreads();
    load(t + tile_ring - 1);
    if (t == 0) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const int row = warp * 32 + m * 16 + lane % 16;
        load_matrices(fa[m], shared_address(query_codes + row * 32 + (lane / 16 ^ (row * 32 >> 7 & 1)) * 16));
      }
    }
    const int slot = t % tile_ring;
    std::int32_t best[4];
    std::int32_t next[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) best[i] = next[i] = INT32_MIN;
#pragma unroll 4
    for (int n = 0; n < code_tile_rows / 8; n += 2) {
      std::uint32_t fb[4];
      const int row = n * 8 + lane % 8 + lane / 16 * 8;
      load_matrices(fb, shared_address(ring[slot] + row * 32 + ((lane / 8 & 1) ^ (row * 32 >> 7 & 1)) * 16));
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int column = (n + h) * 8 + lane % 4 * 2;
        const int2 b = *reinterpret_cast<const int2*>(ring_bias[slot] + column);
        const int bias[2] = {max(b.x, none), max(b.y, none)};
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          int acc[4] = {bias[0], bias[1], bias[0], bias[1]};
          multiply(acc, fa[m], fb[2 * h], fb[2 * h + 1]);
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            const int i = 2 * m + c / 2;
            const std::int32_t key = acc[c] * 64 + ((n + h) * 2 + c % 2);
            next[i] = max(next[i], min(best[i], key));
            best[i] = max(best[i], key);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int32_t score = best[i] >> 6;
      if (score > first[i]) {
        second[i] = max(first[i], next[i] >> 6);
        first[i] = score;
        found[i] = t * 64 + (best[i] & 63);
      } else {
        second[i] = max(second[i], score);
      }
    }
  }
  wait_copies<0>();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t q = q0 + warp * 32 + i * 8 + lane / 4;
    if (q >= s.count) continue;
    const std::int64_t l = static_cast<std::int64_t>(blockIdx.y) * 4 + lane % 4;
    // Sums with a padding row's bias stay far below any real score.
    const std::int32_t best = first[i] < none / 2 ? no_row : first[i];
    const std::int32_t next = second[i] < none / 2 ? no_row : second[i];
    const std::int64_t at = q * s.out.shape.lists + l;
    write_list(s.out.first + at, s.out.second + at, best, next, s.out.shape.row(l, found[i]));
  }
}

template <int W, int Q>
void scan_few_codes(const Scan& s, int device, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(s.out.shape.lists * few_code_group / few_code_threads);
  const std::size_t bytes = few_code_bytes(s.space.shape, Q);
  allow_shared(scan_few_codes_kernel<W, Q>, few_code_threads, bytes, device);
  // The first rows stay in the second-level cache, half of it, for the next search: of what is read once each
  // time, in the same order, nothing would.
  const std::int64_t row_bytes = s.space.shape.row_bytes() + std::int64_t{sizeof(std::int32_t)};
  const std::int64_t kept = device_attribute(cudaDevAttrL2CacheSize, device) / 2 / row_bytes / 32 * 32;
  launch_early(scan_few_codes_kernel<W, Q>, dim3(blocks), few_code_threads, bytes, device, stream, s, kept);
}

template <int W>
void scan_few_codes_of(const Scan& s, int device, cudaStream_t stream) {
  s.count == 1 ? scan_few_codes<W, 1>(s, device, stream) : scan_few_codes<W, few_queries>(s, device, stream);
}

}  // namespace

void scan_code_rows(const Scan& s, int device, cudaStream_t stream) {
  if (s.out.shape.kind == ListShape::Kind::quarters) {
    const dim3 grid(static_cast<unsigned>((s.count + scan_query_tile - 1) / scan_query_tile),
                    static_cast<unsigned>(s.out.shape.lists / 4 + (s.raw != nullptr ? 1 : 0)));
    visit_element(s.space.dtype, [&]<class T>(T /*tag*/) {
      launch_early(scan_tiles_kernel<T>, grid, tile_threads, 0, device, stream, s);
    });
    return;
  }
  switch (s.space.shape.width) {
    case 32: scan_few_codes_of<32>(s, device, stream); break;
    case 64: scan_few_codes_of<64>(s, device, stream); break;
    default: scan_few_codes_of<128>(s, device, stream);
  }
}

}  // namespace kith::brute_force::cuda

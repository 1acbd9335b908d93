// What the CUDA backend keeps of a dataset: parts, each on a device, and workspaces for searches.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "brute_force/backend.hpp"
#include "brute_force/cuda/kernels.hpp"
#include "codes/cuda/codes.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"

namespace kith::brute_force {

/// Which filter, and the estimates it was chosen by; see choose.cpp.
struct CudaChoice {
  Filter filter = Filter::none;
  cuda::Form form = cuda::Form::none;
  std::vector<double> mean;  ///< empty: not centred
  double unit = 1;
  double step = 1;
  double typical_residual = 1e300;  ///< as in cuda::Space, and so the next two
  double typical_reach = 0;
  double residual_cap = 1e300;
  double half_residual_cap = 1e300;
  bool forced = false;       ///< the caller named the filter
  bool exact_codes = false;  ///< rows are their own codes
  bool fp16_fits = false;    ///< codes of halves are not too long
  bool short_rows = false;   ///< one look at int8 codes is quicker than anything else
  double surplus = 1;        ///< candidates a neighbour that int8 is expected to keep
  double int8_seconds = 0;   ///< expected per 10^9 pairs
  double fp16_seconds = 0;
  double fp32_seconds = 0;

  std::string text() const;
  /// Whether halves may take the place of int8 codes where these keep too much.
  bool may_be_halves() const;
  CudaChoice as_halves() const;
};

/// Chooses by a sample of the rows (host memory). @throws InvalidArgument for a filter that does not fit
CudaChoice choose_cuda_codes(const DatasetView& sample, std::int64_t rows,
                             const BruteForceParameters& parameters);

/// Everything one search needs on one device; reused by the next one.
struct Workspace {
  explicit Workspace(int device_ordinal) : device(device_ordinal) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  /// After a failure or a cancel kernels may still be on their way, into memory that is freed next.
  ~Workspace() {
    if (!cuda::driver_lost()) (void)cudaStreamSynchronize(stream);
  }
  int device;
  cuda::Stream stream;
  cuda::Uploader uploader;
  cuda::Buffer<unsigned char> queries, query_codes, lists, distances, best, scratch, partial;
  cuda::Buffer<double> values;
  cuda::Buffer<float> floats;
  cuda::Buffer<cuda::QueryScalars> scalars;
  cuda::Buffer<cuda::QueryBound> bounds;
  cuda::Buffer<std::uint64_t> candidates, first;
  cuda::Buffer<std::uint32_t> counts, exact_ids, arrived, second;
  cuda::Buffer<std::uint8_t> overflow;
  cuda::Buffer<unsigned long long> counters, totals;
  cuda::Buffer<std::int64_t> indices[3];
  cuda::Buffer<unsigned char> answers[3];
  cuda::PinnedBuffer<unsigned long long> seen;
  unsigned long long ticket = 0;  ///< of the last search without stages
};

/// Rows [base, base + rows) of the dataset on one device: the rows, their codes, what a filter cannot speak
/// of.
struct Part {
  Part(int device_ordinal, const CudaChoice& choice, const DatasetView& shape, Metric metric,
       std::int64_t most_rows);

  /// Codes the rows that lie at `device_rows` (stride in elements); waits for the result.
  void encode(const void* device_rows, std::int64_t row_stride, std::int64_t count, cudaStream_t on);
  /// The same for a piece [first, first + count) of part rows, without waiting; begin() before, finish()
  /// after.
  void begin(std::int64_t count, cudaStream_t on);
  void encode_piece(const void* piece_rows, std::int64_t row_stride, std::int64_t first, std::int64_t count,
                    cudaStream_t on);
  void finish(cudaStream_t on);
  /// The same rows with other codes.
  void code_anew(const CudaChoice& choice);

  std::uint64_t bytes() const;

  int device;
  std::int64_t base = 0;
  std::int64_t rows = 0;
  std::int64_t capacity;
  cuda::Stream stream;
  cuda::Buffer<unsigned char> own_rows;
  const void* data = nullptr;  ///< what the exact stage reads: device memory, or mapped host memory
  std::int64_t stride = 0;
  cuda::Space space;
  cuda::Buffer<double> mean;
  cuda::Buffer<std::uint8_t> codes;
  cuda::Buffer<std::int32_t> bias;
  cuda::Buffer<float> maxima;  ///< float32 residual; behind it RowCodes::largest
  cuda::Buffer<float> floats;
  cuda::Buffer<std::uint32_t> special;
  cuda::Buffer<unsigned long long> counts;
  std::int64_t nan_rows = 0;
  std::int64_t special_rows = 0;
  double surplus = 1;  ///< how many times more rows the filter keeps than one without error would

  std::int64_t tiles() const;  ///< of the filter's size
  bool filtered() const;       ///< false: every query is evaluated exactly
  cuda::RowCodes row_codes() const;
  /// The rows as the float32 filter reads them.
  const float* float_rows() const;
  std::int64_t float_stride() const;

  std::unique_ptr<Workspace> take_workspace();
  void give_workspace(std::unique_ptr<Workspace> workspace);

 private:
  // Memory for codes of that choice.
  void make_room(const CudaChoice& choice);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

/// Host memory made known to the devices for as long as this lives.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  ~RegisteredMemory();
  /// False where the driver refuses (some kinds of mapped files); then copies are staged.
  bool add(const void* data, std::uint64_t bytes);
  bool known() const { return data_ != nullptr; }

 private:
  void* data_ = nullptr;
};

struct CudaPrepared final : Prepared {
  /// How the rows are held.
  enum class Mode : std::uint8_t {
    resident,   ///< rows and codes on the device
    host_rows,  ///< codes on the device, rows read where they lie in host memory
    streamed,   ///< nothing on the device: rows pass through it in every search
  };
  CudaChoice choice;
  Metric metric = Metric::sqeuclidean;
  Mode mode = Mode::resident;
  bool replicated = false;  ///< every part holds all rows, queries are dealt out
  std::vector<int> devices;
  std::vector<std::unique_ptr<Part>> parts;
  RegisteredMemory registered;
  std::int64_t stream_rows = 0;    ///< streamed: rows of a piece
  std::uint64_t stream_bytes = 0;  ///< streamed: what a search takes for its pieces, of each device
  std::uint64_t budget = 0;        ///< bytes a device may be asked for

  Filter filter() const noexcept override { return choice.filter; }
  std::uint64_t memory_bytes() const noexcept override;
  std::uint64_t device_bytes() const noexcept override;
  /// Codes the rows of all parts by another choice, of the same mean and unit.
  void code_anew(const CudaChoice& other);
};

/// What the filter of a part did for a query, on average.
struct MeasuredSearch {
  double evaluated = 0;  ///< rows evaluated exactly
  double surplus = 1;    ///< as in Part
};
/// One search in stages; its answer is thrown away.
template <class R>
MeasuredSearch measure_search(Part& part, Workspace& workspace, const void* queries, std::int64_t stride,
                              std::int64_t count, std::int64_t k, const Execution& execution,
                              std::uint64_t budget);

/// What a search of this part should take by its surplus, but for the looks at all rows.
double expected_seconds(const Part& part, std::int64_t queries, std::int64_t k);

/// Searches for some of the sample's rows: what int8 codes keep says how many stages pay, and whether halves
/// would be quicker; then the rows are coded anew.
void measure_filter(CudaPrepared& prepared, const DatasetView& sample, bool halves_fit,
                    const Execution& execution);

/// Searches one part. Queries and answers lie on its device; `best` (or null) are distances known to bound
/// the answers. Counters are added to `statistics`.
template <class R>
void search_part(Part& part, Workspace& workspace, const void* queries, std::int64_t query_stride,
                 std::int64_t count, std::int64_t k, const R* best, std::int64_t* indices, R* distances,
                 const Execution& execution, std::uint64_t budget, SearchStatistics& statistics);

/// Where a search leaves its answer.
SearchStatistics search_cuda(const CudaPrepared& prepared, const DatasetView& dataset,
                             const DatasetView& queries, const NeighborsView& out,
                             const Execution& execution);

}  // namespace kith::brute_force

// Whoever names no stream means the default stream: what it still does to the caller's memory comes before
// what a search on a GPU reads and writes, whichever of the two default streams it is, and whatever comes
// next finds its answer complete. Each call runs twice: with what the memory holds at first, by which kernels
// are loaded and memory is taken, and while a busy default stream has yet to bring what it shall read.
// Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/brute_force.hpp"
#include "support/device_memory.hpp"
#include "support/files.hpp"
#include "support/gpus.hpp"
#include "support/late_memory.hpp"

namespace kith {
namespace {

using conformance::Random;
using test::cuda_ok;
using test::DefaultStream;
using test::DeviceMemory;
using test::gpus;
using test::LateMemory;

Execution on(const std::vector<int>& ordinals, std::uint64_t device_memory_limit = 0) {
  Execution execution;
  execution.devices.clear();
  for (const int ordinal : ordinals) execution.devices.push_back({Device::Kind::cuda, ordinal});
  execution.device_memory_limit = device_memory_limit;
  return execution;
}

// Rows in clusters, as floats or bytes.
struct Rows {
  std::vector<unsigned char> memory;
  DatasetView host;

  Rows(std::int64_t rows, std::int64_t dim, std::uint64_t seed, Dtype dtype = Dtype::f32,
       std::int64_t gap = 0) {
    Random random(seed);
    const std::int64_t stride = dim + gap;
    memory.resize(static_cast<std::size_t>(rows * stride) * size_of(dtype));
    std::vector<double> centres;
    for (std::int64_t i = 0; i < 20 * dim; ++i) centres.push_back(random.normal());
    for (std::int64_t i = 0; i < rows; ++i) {
      const double* centre = centres.data() + random.below(20) * dim;
      for (std::int64_t j = 0; j < dim; ++j) {
        const double value = centre[j] + 0.3 * random.normal();
        const auto at = static_cast<std::size_t>(i * stride + j);
        if (dtype == Dtype::u8) {
          memory[at] = static_cast<unsigned char>(128 + 25 * std::min(5.0, std::max(-5.0, value)));
        } else {
          const auto narrow = static_cast<float>(value);
          std::memcpy(memory.data() + at * sizeof narrow, &narrow, sizeof narrow);
        }
      }
    }
    host = DatasetView(memory.data(), dtype, rows, dim, stride);
  }
  DatasetView at(const void* data, int device) const {
    DatasetView view = host;
    view.data = data;
    view.space = MemorySpace::cuda;
    view.device = device;
    return view;
  }
  DatasetView at(const LateMemory& there) const { return at(there.data(), there.device()); }
};

// The same bytes late: first another's, of the same shape.
LateMemory late(const Rows& before, const Rows& after, int device = 0) {
  return {before.memory.data(), after.memory.data(), after.memory.size(), device};
}

// An answer as numbers: row numbers, and the bits of distances.
using Numbers = std::vector<std::int64_t>;

Numbers numbers(const Neighbors& found) {
  Numbers all = found.indices;
  for (const float d : std::get<std::vector<float>>(found.distances)) all.push_back(std::bit_cast<int>(d));
  return all;
}

// Room for an answer on a GPU, which a default stream may still be about to overwrite.
class Answer {
 public:
  Answer(std::int64_t queries, std::int64_t k, int device = 0)
      : indices_(static_cast<std::size_t>(queries * k) * 8, device),
        distances_(static_cast<std::size_t>(queries * k) * 4, device),
        view_{static_cast<std::int64_t*>(indices_.data()),
              distances_.data(),
              queries,
              k,
              MemorySpace::cuda,
              device} {}
  const NeighborsView& view() const { return view_; }
  std::size_t index_bytes() const { return static_cast<std::size_t>(view_.queries * view_.k) * 8; }
  std::size_t distance_bytes() const { return static_cast<std::size_t>(view_.queries * view_.k) * 4; }
  void overwrite_late(cudaStream_t stream) const {
    test::keep_busy(stream);
    cuda_ok(cudaMemsetAsync(indices_.data(), 0x77, index_bytes(), stream));
    cuda_ok(cudaMemsetAsync(distances_.data(), 0x77, distance_bytes(), stream));
  }
  Numbers read() const {
    cuda_ok(cudaDeviceSynchronize());
    Numbers all = indices_.read<std::int64_t>();
    for (const int bits : distances_.read<int>()) all.push_back(bits);
    return all;
  }

 private:
  DeviceMemory indices_, distances_;
  NeighborsView view_;
};

// Every way through a search.
struct Shape {
  const char* what;
  std::int64_t rows, dim, queries, k;
  Dtype dtype;
  Filter filter;
  std::uint64_t limit;
};
constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr Shape shapes[] = {
    {"one look", 20'000, 3, 200, 1, Dtype::f32, Filter::automatic, 0},
    {"one look at bytes", 20'000, 16, 200, 5, Dtype::u8, Filter::automatic, 0},
    {"stages", 60'000, 48, 300, 10, Dtype::f32, Filter::automatic, 0},
    {"stages of the float filter", 60'000, 12, 300, 40, Dtype::f32, Filter::fp32, 0},
    {"no filter", 5'000, 20, 50, 10, Dtype::f32, Filter::none, 0},
    {"long lists", 20'000, 32, 40, 1100, Dtype::f32, Filter::automatic, 0},
    {"rows on the host", 100'000, 64, 40, 10, Dtype::f32, Filter::automatic, 24 * mib},
    {"rows that stream", 100'000, 64, 40, 10, Dtype::f32, Filter::automatic, 8 * mib},
};

class CudaDefaultStream : public testing::TestWithParam<DefaultStream> {
 protected:
  void SetUp() override {
    if (gpus() == 0) GTEST_SKIP() << "no usable CUDA device here";
    cuda_ok(cudaSetDevice(0));
  }
  void TearDown() override { (void)cudaDeviceSynchronize(); }

  cudaStream_t stream() const { return test::handle(GetParam()); }

  /// `call` reads `memory`, and must find there what comes late.
  static void reads(LateMemory& memory, cudaStream_t stream, const Numbers& expected,
                    const std::function<Numbers()>& call, const std::string& what) {
    memory.restore();
    const Numbers before = call();
    ASSERT_NE(before, expected) << what;
    memory.start(stream);
    const Numbers found = call();
    EXPECT_TRUE(found == expected) << what << ": answers of "
                                   << (found == before ? "what the memory held before" : "neither");
    cuda_ok(cudaDeviceSynchronize());
  }
};

TEST_P(CudaDefaultStream, BuildsComeAfterIt) {
  for (const Shape& s : shapes) {
    if (s.limit != 0) continue;  // for rows in host memory
    for (const std::int64_t gap : {0, 5}) {
      const Rows before(s.rows, s.dim, 1, s.dtype, gap);
      const Rows after(s.rows, s.dim, 2, s.dtype, gap);
      const Rows queries(s.queries, s.dim, 3, s.dtype);
      LateMemory memory = late(before, after);
      const BruteForceParameters parameters{Metric::sqeuclidean, s.filter};
      reads(
          memory, stream(), numbers(knn(after.host, queries.host, s.k)),
          [&] {
            return numbers(
                BruteForce::build(after.at(memory), parameters, on({0})).search(queries.host, s.k, on({0})));
          },
          std::string(s.what) + ", gap " + std::to_string(gap));
    }
  }
}

TEST_P(CudaDefaultStream, SearchesComeAfterIt) {
  for (const Shape& s : shapes) {
    const Rows rows(s.rows, s.dim, 1, s.dtype);
    const Rows before(s.queries, s.dim, 2, s.dtype);
    const Rows after(s.queries, s.dim, 3, s.dtype);
    LateMemory memory = late(before, after);
    const Execution execution = on({0}, s.limit);
    const BruteForce index = BruteForce::build(rows.host, {Metric::sqeuclidean, s.filter}, execution);
    const Numbers expected = numbers(knn(rows.host, after.host, s.k));
    reads(
        memory, stream(), expected, [&] { return numbers(index.search(after.at(memory), s.k, execution)); },
        std::string(s.what) + ", search");
    reads(
        memory, stream(), expected,
        [&] {
          const Answer answer(s.queries, s.k);
          index.search_into(after.at(memory), answer.view(), execution);
          return answer.read();
        },
        std::string(s.what) + ", search_into");
  }
}

TEST_P(CudaDefaultStream, OneShotSearchesComeAfterIt) {
  const Rows rows(20'000, 24, 1);
  const Rows other_rows(20'000, 24, 2);
  const Rows queries(100, 24, 3);
  const Rows other_queries(100, 24, 4);
  LateMemory late_rows = late(other_rows, rows);
  LateMemory late_queries = late(other_queries, queries);
  const DeviceMemory there(rows.memory.data(), rows.memory.size());
  const Numbers expected = numbers(knn(rows.host, queries.host, 7));
  const auto both = [&](LateMemory& memory, const DatasetView& data, const DatasetView& asked,
                        const std::string& what) {
    reads(
        memory, stream(), expected, [&] { return numbers(knn(data, asked, 7, {}, on({0}))); },
        "knn, " + what);
    reads(
        memory, stream(), expected,
        [&] {
          const Answer answer(100, 7);
          knn_into(data, asked, answer.view(), {}, on({0}));
          return answer.read();
        },
        "knn_into, " + what);
  };
  both(late_rows, rows.at(late_rows), queries.host, "late rows");
  both(late_queries, rows.host, queries.at(late_queries), "late queries");
  both(late_queries, rows.at(there.data(), 0), queries.at(late_queries), "late queries, rows there");
}

TEST_P(CudaDefaultStream, ALoadedIndexIsSearchedAfterIt) {
  const test::TemporaryFolder folder;
  const Rows rows(20'000, 24, 1);
  const Rows before(100, 24, 2);
  const Rows after(100, 24, 3);
  BruteForce::build(rows.host).save(folder / "index.kith");
  const BruteForce index = BruteForce::load(folder / "index.kith", on({0}));
  LateMemory memory = late(before, after);
  reads(
      memory, stream(), numbers(knn(rows.host, after.host, 7)),
      [&] { return numbers(index.search(after.at(memory), 7, on({0}))); }, "search");
}

// What the stream still writes to the memory of an answer does not overwrite the answer.
TEST_P(CudaDefaultStream, AnswersAreWrittenAfterIt) {
  for (const Shape& s : shapes) {
    const Rows rows(s.rows, s.dim, 1, s.dtype);
    const Rows queries(s.queries, s.dim, 2, s.dtype);
    const DeviceMemory there(queries.memory.data(), queries.memory.size());
    const Execution execution = on({0}, s.limit);
    const BruteForce index = BruteForce::build(rows.host, {Metric::sqeuclidean, s.filter}, execution);
    const Numbers expected = numbers(knn(rows.host, queries.host, s.k));
    const Answer answer(s.queries, s.k);
    for (const DatasetView& asked : {queries.at(there.data(), 0), queries.host}) {
      const std::string what =
          std::string(s.what) + (asked.space == MemorySpace::host ? ", queries on the host" : "");
      index.search_into(asked, answer.view(), execution);
      EXPECT_TRUE(answer.read() == expected) << what << ", nothing before it";
      answer.overwrite_late(stream());
      index.search_into(asked, answer.view(), execution);
      EXPECT_TRUE(answer.read() == expected) << what;
    }
  }
}

// Whatever the caller does next finds the answer: on either default stream or on one that waits for neither.
TEST_P(CudaDefaultStream, AnswersAreThereForWhatComesNext) {
  cudaStream_t apart = nullptr;
  cuda_ok(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  for (const Shape& s : shapes) {
    const Rows rows(s.rows, s.dim, 1, s.dtype);
    const Rows queries(s.queries, s.dim, 2, s.dtype);
    const DeviceMemory there(queries.memory.data(), queries.memory.size());
    const Execution execution = on({0}, s.limit);
    const BruteForce index = BruteForce::build(rows.host, {Metric::sqeuclidean, s.filter}, execution);
    const Numbers expected = numbers(knn(rows.host, queries.host, s.k));
    for (const cudaStream_t next : {stream(), apart}) {
      for (int round = 0; round < 5; ++round) {
        const Answer answer(s.queries, s.k);
        const Answer copy(s.queries, s.k);
        index.search_into(queries.at(there.data(), 0), answer.view(), execution);
        cuda_ok(cudaMemcpyAsync(copy.view().indices, answer.view().indices, answer.index_bytes(),
                                cudaMemcpyDeviceToDevice, next));
        cuda_ok(cudaMemcpyAsync(copy.view().distances, answer.view().distances, answer.distance_bytes(),
                                cudaMemcpyDeviceToDevice, next));
        ASSERT_TRUE(copy.read() == expected) << s.what;
      }
    }
  }
  cuda_ok(cudaStreamDestroy(apart));
}

// A thread's default stream is its own, and its calls come after that.
TEST_P(CudaDefaultStream, OfTheThreadThatCalls) {
  const Rows rows(20'000, 24, 1);
  const Rows before(100, 24, 2);
  const Rows after(100, 24, 3);
  const BruteForce index = BruteForce::build(rows.host, {}, on({0}));
  const Numbers expected = numbers(knn(rows.host, after.host, 7));
  std::thread other([&] {
    LateMemory memory = late(before, after);
    reads(
        memory, stream(), expected, [&] { return numbers(index.search(after.at(memory), 7, on({0}))); },
        "in another thread");
  });
  other.join();
}

// The plainest program there is: copies from ordinary memory, which return before the bytes have arrived.
TEST_P(CudaDefaultStream, CopiesFromOrdinaryMemory) {
  const Rows rows(20'000, 3, 1);
  const Rows queries[2] = {Rows(1024, 3, 2), Rows(1024, 3, 3)};
  const BruteForce index = BruteForce::build(rows.host, {}, on({0}));
  const Numbers expected[2] = {numbers(knn(rows.host, queries[0].host, 1)),
                               numbers(knn(rows.host, queries[1].host, 1))};
  const DeviceMemory memory(queries[0].memory.size());
  int wrong = 0;
  for (int round = 0; round < 200; ++round) {
    const Rows& asked = queries[round % 2];
    cuda_ok(cudaMemcpyAsync(memory.data(), asked.memory.data(), asked.memory.size(), cudaMemcpyHostToDevice,
                            stream()));
    if (numbers(index.search(asked.at(memory.data(), 0), 1, on({0}))) != expected[round % 2]) ++wrong;
    cuda_ok(cudaDeviceSynchronize());
  }
  EXPECT_EQ(wrong, 0) << "of 200 searches";
}

// Of several devices each follows the default streams of all, and of the one that is current.
TEST_P(CudaDefaultStream, OfSeveralDevices) {
  if (gpus() < 2) GTEST_SKIP() << "two CUDA devices are needed";
  struct Case {
    const char* what;
    std::int64_t rows, dim, queries;
  };
  // Rows are shared out; many queries over few rows, where queries are.
  for (const Case& c :
       {Case{"shares of rows", 300'000, 48, 100}, Case{"shares of queries", 20'000, 32, 3000}}) {
    const Rows rows(c.rows, c.dim, 1);
    const Rows other_rows(c.rows, c.dim, 2);
    const Rows queries(c.queries, c.dim, 3);
    const Rows other_queries(c.queries, c.dim, 4);
    const Numbers expected = numbers(knn(rows.host, queries.host, 10));
    for (const std::vector<int>& where : {std::vector<int>{0, 1}, {1, 0}, {0}, {1}}) {
      const BruteForce index = BruteForce::build(rows.host, {}, on(where));
      for (const int lies : {0, 1}) {
        LateMemory late_queries = late(other_queries, queries, lies);
        LateMemory late_rows = late(other_rows, rows, lies);
        for (const int giver : {0, 1}) {
          for (const int current : {0, 1}) {
            if (giver != lies && giver != current) continue;  // nobody says which stream that would be
            const std::string what = std::string(c.what) + ", on " + std::to_string(where.size()) + " from " +
                                     std::to_string(where.front()) + ", arrays on " + std::to_string(lies) +
                                     ", given by " + std::to_string(giver) + ", " + std::to_string(current) +
                                     " current";
            const auto follows = [&](LateMemory& memory, const auto& call) {
              memory.restore();
              cuda_ok(cudaSetDevice(current));
              ASSERT_NE(call(), expected) << what;
              cuda_ok(cudaSetDevice(giver));
              memory.start(stream());
              cuda_ok(cudaSetDevice(current));
              EXPECT_TRUE(call() == expected) << what;
              cuda_ok(cudaSetDevice(giver));
              cuda_ok(cudaDeviceSynchronize());
            };
            follows(late_queries,
                    [&] { return numbers(index.search(queries.at(late_queries), 10, on(where))); });
            follows(late_rows, [&] {
              return numbers(
                  BruteForce::build(rows.at(late_rows), {}, on(where)).search(queries.host, 10, on(where)));
            });
          }
        }
        cuda_ok(cudaSetDevice(0));
      }
    }
  }
}

// A stream of the caller's may be of a device that has no other part in the call.
TEST(CudaStreamOfTheCallers, OfAnyDevice) {
  if (gpus() < 2) GTEST_SKIP() << "two CUDA devices are needed";
  const Rows rows(20'000, 24, 1);
  const Rows before(100, 24, 2);
  const Rows after(100, 24, 3);
  const Numbers expected = numbers(knn(rows.host, after.host, 7));
  for (const int device : {0, 1}) {
    cudaStream_t stream = nullptr;
    cuda_ok(cudaSetDevice(device));
    cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (const std::vector<int>& where : {std::vector<int>{0, 1}, {0}, {1}}) {
      cuda_ok(cudaSetDevice(0));
      const BruteForce index = BruteForce::build(rows.host, {}, on(where));
      LateMemory memory = late(before, after);
      Execution execution = on(where);
      execution.stream = stream;
      (void)index.search(after.at(memory), 7, execution);
      cuda_ok(cudaSetDevice(device));
      memory.start(stream);
      cuda_ok(cudaSetDevice(0));
      EXPECT_TRUE(numbers(index.search(after.at(memory), 7, execution)) == expected)
          << "a stream of " << device << ", a search on " << where.size() << " from " << where.front();
    }
    cuda_ok(cudaStreamSynchronize(stream));
    cuda_ok(cudaStreamDestroy(stream));
  }
  cuda_ok(cudaSetDevice(0));
}

// The default streams by their own names.
TEST_P(CudaDefaultStream, NamedOutright) {
  Execution execution = on({0});
  execution.stream = stream();
  const Rows rows(20'000, 24, 1);
  const Rows before(100, 24, 2);
  const Rows after(100, 24, 3);
  const BruteForce index = BruteForce::build(rows.host, {}, execution);
  LateMemory memory = late(before, after);
  reads(
      memory, stream(), numbers(knn(rows.host, after.host, 7)),
      [&] { return numbers(index.search(after.at(memory), 7, execution)); }, "search");
}

// Nothing is waited for. A stream of the library's may share a queue of the hardware with the default one: of
// a few, one does not.
TEST_P(CudaDefaultStream, NotFollowedWhereNoneShallBe) {
  if (std::getenv("KITH_CONFORMANCE") != nullptr) GTEST_SKIP() << "compute-sanitizer makes streams wait";
  Execution execution = on({0});
  execution.follow_stream = false;
  bool over_before = false;
  for (int attempt = 0; attempt < 4 && !over_before; ++attempt) {
    const Rows rows(20'000, 24, 1);
    const Rows queries(100, 24, 2);
    const DeviceMemory there(queries.memory.data(), queries.memory.size());
    const BruteForce index = BruteForce::build(rows.host, {}, execution);
    const Numbers expected = numbers(index.search(queries.at(there.data(), 0), 7, execution));
    const test::HeldStream held(stream());
    EXPECT_TRUE(numbers(index.search(queries.at(there.data(), 0), 7, execution)) == expected);
    over_before = held.pending();
  }
  EXPECT_TRUE(over_before);
}

INSTANTIATE_TEST_SUITE_P(Caller, CudaDefaultStream,
                         testing::Values(DefaultStream::legacy, DefaultStream::per_thread),
                         [](const auto& tested) { return test::name(tested.param); });

}  // namespace
}  // namespace kith

#endif  // KITH_CUDA_ENABLED

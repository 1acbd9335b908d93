// Whoever names no stream means the default stream: what it still does to the caller's memory comes before
// what trees on a GPU read and write, whichever of the two default streams it is, and whatever comes next
// finds their answers complete. Each call runs twice: with what the memory holds at first, by which kernels
// are loaded and memory is taken, and while a busy default stream has yet to bring what it shall read.
// Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/kd_tree.hpp"
#include "kith/octree.hpp"
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

constexpr double endless = std::numeric_limits<double>::infinity();
constexpr std::int64_t rows = 20'000;
constexpr std::int64_t most_queries = 40'000;  // enough for groups of them
constexpr std::int64_t few_queries = 300;
constexpr std::int64_t k = 8;
constexpr double radius = 0.002;

std::vector<float> cube(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count) * 3);
  for (float& value : values) value = static_cast<float>(random.uniform());
  return values;
}

std::size_t bytes_of(const std::vector<float>& values) {
  return values.size() * sizeof(float);
}

DatasetView on_host(const std::vector<float>& values, std::int64_t count) {
  return {values.data(), Dtype::f32, count, 3, 3};
}
DatasetView on_gpu(const void* data, std::int64_t count, int device = 0) {
  DatasetView view(data, Dtype::f32, count, 3, 3);
  view.space = MemorySpace::cuda;
  view.device = device;
  return view;
}

Execution gpu(int ordinal = 0) {
  Execution execution;
  execution.devices = {{Device::Kind::cuda, ordinal}};
  return execution;
}

// An answer of any kind as numbers: row numbers, and the bits of what is no whole number.
using Numbers = std::vector<std::int64_t>;

Numbers numbers(const Neighbors& found) {
  Numbers all = found.indices;
  for (const float d : std::get<std::vector<float>>(found.distances)) all.push_back(std::bit_cast<int>(d));
  return all;
}
Numbers numbers(const RadiusNeighbors& found) {
  Numbers all = found.offsets;
  all.insert(all.end(), found.indices.begin(), found.indices.end());
  return all;
}
Numbers numbers(const std::vector<double>& values) {
  Numbers all;
  for (const double value : values) all.push_back(std::bit_cast<std::int64_t>(value));
  return all;
}
Numbers numbers(const Normals& found) {
  Numbers all = numbers(found.normals);
  const Numbers more = numbers(found.curvature);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Room for an answer on a GPU, which a default stream may still be about to overwrite.
class Answer {
 public:
  Answer(std::int64_t queries, int device = 0)
      : indices_(static_cast<std::size_t>(queries * k) * 8, device),
        distances_(static_cast<std::size_t>(queries * k) * 4, device),
        view_{static_cast<std::int64_t*>(indices_.data()),
              distances_.data(),
              queries,
              k,
              MemorySpace::cuda,
              device} {}
  const NeighborsView& view() const { return view_; }
  std::size_t index_bytes() const { return static_cast<std::size_t>(view_.queries * k) * 8; }
  std::size_t distance_bytes() const { return static_cast<std::size_t>(view_.queries * k) * 4; }
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

class CudaTreesDefaultStream : public testing::TestWithParam<DefaultStream> {
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

  const std::vector<float> before_ = cube(rows, 1);
  const std::vector<float> after_ = cube(rows, 2);
  const std::vector<float> asked_before_ = cube(most_queries, 3);
  const std::vector<float> asked_after_ = cube(most_queries, 4);
};

TEST_P(CudaTreesDefaultStream, BuildsComeAfterIt) {
  LateMemory memory(before_.data(), after_.data(), bytes_of(after_));
  const DatasetView there = on_gpu(memory.data(), rows);
  const DatasetView queries = on_host(asked_after_, few_queries);
  const KdTree want = KdTree::build(on_host(after_, rows));
  const Numbers expected = numbers(want.search(queries, k));
  reads(
      memory, stream(), expected, [&] { return numbers(KdTree::build(there, {}, gpu()).search(queries, k)); },
      "k-d tree");
  reads(
      memory, stream(), expected, [&] { return numbers(Octree::build(there, {}, gpu()).search(queries, k)); },
      "octree");
  // All that is made of the tree's own rows.
  const auto self = [&](const std::string& what, const auto& of) {
    reads(
        memory, stream(), numbers(of(want, Execution{})),
        [&] { return numbers(of(KdTree::build(there, {}, gpu()), gpu())); }, what);
  };
  self("all_knn", [](const KdTree& tree, const Execution& e) { return tree.all_knn(k, true, e); });
  self("normals", [](const KdTree& tree, const Execution& e) { return tree.normals({k}, {}, e); });
  self("density", [](const KdTree& tree, const Execution& e) { return tree.density({k}, e); });
  self("outliers",
       [](const KdTree& tree, const Execution& e) { return tree.outliers({k}, 2.0, e).mean_distance; });
}

TEST_P(CudaTreesDefaultStream, RowsThatAreConvertedAndStrided) {
  // Bytes, four a row of which three are read.
  Random random(9);
  std::vector<std::uint8_t> values[2];
  for (auto& some : values) {
    for (std::int64_t i = 0; i < rows * 4; ++i) some.push_back(static_cast<std::uint8_t>(random.below(256)));
  }
  LateMemory memory(values[0].data(), values[1].data(), values[1].size());
  DatasetView there(memory.data(), Dtype::u8, rows, 3, 4);
  there.space = MemorySpace::cuda;
  const DatasetView here(values[1].data(), Dtype::u8, rows, 3, 4);
  const DatasetView queries = here.slice(0, few_queries);
  reads(
      memory, stream(), numbers(KdTree::build(here).search(queries, k)),
      [&] { return numbers(KdTree::build(there, {}, gpu()).search(queries, k)); }, "bytes");
}

TEST_P(CudaTreesDefaultStream, SearchesComeAfterIt) {
  LateMemory memory(asked_before_.data(), asked_after_.data(), bytes_of(asked_after_));
  const KdTree host = KdTree::build(on_host(after_, rows));
  const KdTree tree = KdTree::build(on_host(after_, rows), {}, gpu());
  for (const std::int64_t count : {few_queries, most_queries}) {
    const DatasetView there = on_gpu(memory.data(), count);
    const DatasetView here = on_host(asked_after_, count);
    const std::string what = std::to_string(count) + " queries, ";
    const Numbers nearest = numbers(host.search(here, k));
    reads(
        memory, stream(), nearest, [&] { return numbers(tree.search(there, k, gpu())); }, what + "search");
    reads(
        memory, stream(), nearest,
        [&] {
          const Answer answer(count);
          tree.search_into(there, answer.view(), gpu());
          return answer.read();
        },
        what + "search_into");
    reads(
        memory, stream(), numbers(host.radius_search(here, radius)),
        [&] { return numbers(tree.radius_search(there, radius, {}, gpu())); }, what + "radius_search");
    reads(
        memory, stream(), numbers(host.radius_search(here, radius, {true, 3})),
        [&] {
          return numbers(tree.radius_search(there, radius, {true, 3}, gpu()));
        },
        what + "radius_search with a limit");
    reads(
        memory, stream(), host.count_within(here, radius),
        [&] { return tree.count_within(there, radius, gpu()); }, what + "count_within");
  }
}

TEST_P(CudaTreesDefaultStream, SearchesThatTheCpuAnswersComeAfterIt) {
  // Without end every row is within the radius: the host does that, with queries copied from the device.
  constexpr std::int64_t small = 50;
  LateMemory memory(asked_before_.data(), asked_after_.data(), bytes_of(asked_after_));
  const KdTree host = KdTree::build(on_host(after_, small));
  const KdTree tree = KdTree::build(on_host(after_, small), {}, gpu());
  const DatasetView there = on_gpu(memory.data(), few_queries);
  const DatasetView here = on_host(asked_after_, few_queries);
  reads(
      memory, stream(), numbers(host.radius_search(here, endless)),
      [&] { return numbers(tree.radius_search(there, endless, {}, gpu())); }, "radius_search");
  // Counts tell nothing of finite queries; a NaN counts no row.
  std::vector<float> nan(static_cast<std::size_t>(few_queries) * 3, std::numeric_limits<float>::quiet_NaN());
  LateMemory counted(nan.data(), asked_after_.data(), bytes_of(nan));
  reads(
      counted, stream(), host.count_within(here, endless),
      [&] { return tree.count_within(on_gpu(counted.data(), few_queries), endless, gpu()); }, "count_within");
}

TEST_P(CudaTreesDefaultStream, ALoadedTreeIsSearchedAfterIt) {
  const test::TemporaryFolder folder;
  const KdTree host = KdTree::build(on_host(after_, rows));
  host.save(folder / "tree.kith");
  const KdTree tree = KdTree::load(folder / "tree.kith", gpu());
  LateMemory memory(asked_before_.data(), asked_after_.data(), bytes_of(asked_after_));
  reads(
      memory, stream(), numbers(host.search(on_host(asked_after_, few_queries), k)),
      [&] { return numbers(tree.search(on_gpu(memory.data(), few_queries), k, gpu())); }, "search");
}

// What the stream still writes to the memory of an answer does not overwrite the answer.
TEST_P(CudaTreesDefaultStream, AnswersAreWrittenAfterIt) {
  const KdTree host = KdTree::build(on_host(after_, rows));
  const KdTree tree = KdTree::build(on_host(after_, rows), {}, gpu());
  const auto written = [&](const Answer& answer, const Numbers& expected, const auto& call,
                           const std::string& what) {
    call();
    EXPECT_TRUE(answer.read() == expected) << what << ", nothing before it";
    answer.overwrite_late(stream());
    call();
    EXPECT_TRUE(answer.read() == expected) << what;
  };
  for (const std::int64_t count : {few_queries, most_queries}) {
    const Answer answer(count);
    const DatasetView here = on_host(asked_after_, count);
    const DeviceMemory queries(asked_after_.data(), static_cast<std::size_t>(count) * 12);
    const Numbers expected = numbers(host.search(here, k));
    const std::string what = std::to_string(count) + " queries";
    written(
        answer, expected, [&] { tree.search_into(on_gpu(queries.data(), count), answer.view(), gpu()); },
        what);
    written(
        answer, expected, [&] { tree.search_into(here, answer.view(), gpu()); }, what + " on the host");
  }
  const Answer all(rows);
  written(
      all, numbers(host.all_knn(k, true)), [&] { tree.all_knn_into(all.view(), true, gpu()); },
      "all_knn_into");

  const std::size_t bytes = static_cast<std::size_t>(rows) * 8;
  const DeviceMemory normals(3 * bytes);
  const DeviceMemory curvature(bytes);
  const NormalsView out{static_cast<double*>(normals.data()), static_cast<double*>(curvature.data()), rows, 3,
                        MemorySpace::cuda};
  for (const Neighborhood& how : {Neighborhood{.k = k}, Neighborhood{.radius = radius}}) {
    const Normals expected = host.normals(how);
    tree.normals_into(out, how, {}, gpu());
    test::keep_busy(stream());
    cuda_ok(cudaMemsetAsync(normals.data(), 0x77, 3 * bytes, stream()));
    cuda_ok(cudaMemsetAsync(curvature.data(), 0x77, bytes, stream()));
    tree.normals_into(out, how, {}, gpu());
    cuda_ok(cudaDeviceSynchronize());
    EXPECT_TRUE(numbers(normals.read<double>()) == numbers(expected.normals)) << "normals_into, k " << how.k;
    EXPECT_TRUE(numbers(curvature.read<double>()) == numbers(expected.curvature)) << "k " << how.k;
  }
}

// Whatever the caller does next finds the answer: on either default stream or on one that waits for neither.
TEST_P(CudaTreesDefaultStream, AnswersAreThereForWhatComesNext) {
  const KdTree tree = KdTree::build(on_host(after_, rows), {}, gpu());
  cudaStream_t apart = nullptr;
  cuda_ok(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  for (const std::int64_t count : {few_queries, most_queries}) {
    const Numbers expected = numbers(tree.search(on_host(asked_after_, count), k));
    const DeviceMemory queries(asked_after_.data(), static_cast<std::size_t>(count) * 12);
    for (const cudaStream_t next : {stream(), apart}) {
      for (int round = 0; round < 10; ++round) {
        const Answer answer(count);
        const Answer copy(count);
        tree.search_into(on_gpu(queries.data(), count), answer.view(), gpu());
        cuda_ok(cudaMemcpyAsync(copy.view().indices, answer.view().indices, answer.index_bytes(),
                                cudaMemcpyDeviceToDevice, next));
        cuda_ok(cudaMemcpyAsync(copy.view().distances, answer.view().distances, answer.distance_bytes(),
                                cudaMemcpyDeviceToDevice, next));
        ASSERT_TRUE(copy.read() == expected) << count << " queries";
      }
    }
  }
  cuda_ok(cudaStreamDestroy(apart));
}

// A thread's default stream is its own, and its calls come after that.
TEST_P(CudaTreesDefaultStream, OfTheThreadThatCalls) {
  std::thread other([&] {
    LateMemory memory(before_.data(), after_.data(), bytes_of(after_));
    const DatasetView queries = on_host(asked_after_, few_queries);
    reads(
        memory, stream(), numbers(KdTree::build(on_host(after_, rows)).search(queries, k)),
        [&] {
          return numbers(KdTree::build(on_gpu(memory.data(), rows), {}, gpu()).search(queries, k, gpu()));
        },
        "in another thread");
  });
  other.join();
}

// The plainest program there is: copies from ordinary memory, which return before the bytes have arrived.
TEST_P(CudaTreesDefaultStream, CopiesFromOrdinaryMemory) {
  constexpr std::int64_t many = 65'536;
  const std::vector<float> points[2] = {cube(many, 5), cube(many, 6)};
  const DeviceMemory memory(bytes_of(points[0]));
  const DatasetView there = on_gpu(memory.data(), many);
  const DatasetView queries = on_host(asked_after_, few_queries);
  const Numbers expected[2] = {numbers(KdTree::build(on_host(points[0], many)).search(queries, k)),
                               numbers(KdTree::build(on_host(points[1], many)).search(queries, k))};
  int wrong = 0;
  for (int round = 0; round < 40; ++round) {
    const int which = round % 2;
    cuda_ok(cudaMemcpyAsync(memory.data(), points[which].data(), bytes_of(points[which]),
                            cudaMemcpyHostToDevice, stream()));
    if (numbers(KdTree::build(there, {}, gpu()).search(queries, k)) != expected[which]) ++wrong;
    cuda_ok(cudaDeviceSynchronize());
  }
  EXPECT_EQ(wrong, 0) << "of 40 trees";
}

// A copy between devices is on a default stream of the device that is current, which need not be the tree's.
TEST_P(CudaTreesDefaultStream, OfTheCurrentDeviceAndOfTheTrees) {
  if (gpus() < 2) GTEST_SKIP() << "two CUDA devices are needed";
  const DatasetView queries = on_host(asked_after_, few_queries);
  const Numbers expected = numbers(KdTree::build(on_host(after_, rows)).search(queries, k));
  for (const int device : {0, 1}) {
    LateMemory memory(before_.data(), after_.data(), bytes_of(after_), device);
    for (const int giver : {0, 1}) {
      for (const int current : {0, 1}) {
        if (giver != device && giver != current) continue;  // nobody says which stream that would be
        const auto call = [&] {
          return numbers(
              KdTree::build(on_gpu(memory.data(), rows, device), {}, gpu(device)).search(queries, k));
        };
        memory.restore();
        cuda_ok(cudaSetDevice(current));
        const Numbers before = call();
        ASSERT_NE(before, expected);
        cuda_ok(cudaSetDevice(giver));
        memory.start(stream());
        cuda_ok(cudaSetDevice(current));
        EXPECT_TRUE(call() == expected)
            << "a tree on " << device << ", rows given by " << giver << ", " << current << " current";
        cuda_ok(cudaSetDevice(giver));
        cuda_ok(cudaDeviceSynchronize());
      }
    }
    cuda_ok(cudaSetDevice(0));
  }
}

// The default streams by their own names.
TEST_P(CudaTreesDefaultStream, NamedOutright) {
  Execution execution = gpu();
  execution.stream = stream();
  LateMemory memory(before_.data(), after_.data(), bytes_of(after_));
  const DatasetView queries = on_host(asked_after_, few_queries);
  reads(
      memory, stream(), numbers(KdTree::build(on_host(after_, rows)).search(queries, k)),
      [&] { return numbers(KdTree::build(on_gpu(memory.data(), rows), {}, execution).search(queries, k)); },
      "build");
}

// Nothing is waited for. A stream of the library's may share a queue of the hardware with the default one: of
// a few, one does not.
TEST_P(CudaTreesDefaultStream, NotFollowedWhereNoneShallBe) {
  if (std::getenv("KITH_CONFORMANCE") != nullptr) GTEST_SKIP() << "compute-sanitizer makes streams wait";
  Execution execution = gpu();
  execution.follow_stream = false;
  bool over_before = false;
  for (int attempt = 0; attempt < 4 && !over_before; ++attempt) {
    const DeviceMemory there(after_.data(), bytes_of(after_));
    const auto build = [&] { return KdTree::build(on_gpu(there.data(), rows), {}, execution); };
    const KdTree first = build();
    const test::HeldStream held(stream());
    const KdTree tree = build();
    over_before = held.pending();
  }
  EXPECT_TRUE(over_before);
}

INSTANTIATE_TEST_SUITE_P(Caller, CudaTreesDefaultStream,
                         testing::Values(DefaultStream::legacy, DefaultStream::per_thread),
                         [](const auto& tested) { return test::name(tested.param); });

}  // namespace
}  // namespace kith

#endif  // KITH_CUDA_ENABLED

// Graphs on a GPU: what a device builds and finds has the bits of what the CPU builds and finds, wherever
// graph and rows lie. Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/evaluate.hpp"
#include "kith/generate.hpp"
#include "kith/vamana.hpp"
#include "support/device_memory.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/index_files.hpp"
#include "unit/vamana/cuda.hpp"
#include "unit/vamana/rows.hpp"

namespace kith {
namespace {

using test::contains;
using test::DeviceMemory;
using test::expect_same;
using test::in_clusters;
using test::message_of;
using test::on_gpu;
using test::with_few_directions;

using CudaVamana = test::OnGpu;

TEST_F(CudaVamana, FindsWhatTheCpuFinds) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64}) {
    const Dataset data = in_clusters(3000, 0, dtype);
    const Dataset queries = in_clusters(70, 3000, dtype);
    for (const Metric metric : vamana_metrics) {
      const Vamana index = Vamana::build(data, {.metric = metric});
      for (const std::int64_t list : {10, 33, 200}) {
        for (const std::int64_t beam : {1, 3}) {
          compare(index, queries, 10, {.list_size = list, .beam_width = beam},
                  std::string(name(dtype)) + " " + std::string(name(metric)) + " list " +
                      std::to_string(list) + " beam " + std::to_string(beam));
        }
      }
      compare(index, queries, 5, {.list_size = 40, .rerank = 9}, "rerank");
      compare(index, queries.view().slice(3, 1), 1, {.list_size = 1}, "one query");
      compare(index, queries.view().slice(0, 0), 3, {.list_size = 8}, "no query");
    }
  }
}

TEST_F(CudaVamana, WalksCodesOfEveryKind) {
  for (const Metric metric : vamana_metrics) {
    for (const Dtype dtype : {Dtype::f32, Dtype::u8}) {
      const Dataset data = with_few_directions(2500, 0, dtype);
      const Dataset queries = with_few_directions(150, 2500, dtype);
      for (const std::int64_t bits : {8, 4}) {
        for (const std::int64_t dim : {32, 64, 96, 128}) {
          const Vamana index = Vamana::build(data, {.metric = metric, .code_bits = bits, .code_dim = dim});
          for (const std::int64_t list :
               {25, 50, 70}) {  // in one register a thread, in two, in shared memory
            for (const std::int64_t count : {150, 30}) {  // a warp each, a block each
              compare(
                  index, queries.view().slice(0, count), 10, {.list_size = list},
                  std::string(name(metric)) + " " + std::to_string(bits) + " bits, " + std::to_string(dim));
            }
          }
        }
      }
    }
  }
}

// A block each: graphs of any degree, codes of any length.
TEST_F(CudaVamana, WalksForFewQueries) {
  for (const std::int64_t degree : {4, 32, 64, 65, 130}) {
    for (const std::int64_t dim : {16, 200, 768}) {
      const Dataset data = in_clusters(2000, 0, Dtype::f32, dim);
      const Dataset queries = in_clusters(40, 2000, Dtype::f32, dim);
      const VamanaParameters parameters{
          .max_degree = degree, .build_list_size = 2 * degree, .code_dim = dim == 200 ? 160 : dim};
      const Vamana index = Vamana::build(data, parameters);
      for (const std::int64_t list : {1, 20, 32, 33, 64, 128, 129}) {
        compare(index, queries, std::min<std::int64_t>(list, 10), {.list_size = list},
                std::to_string(degree) + " edges, " + std::to_string(dim) + " values, list " +
                    std::to_string(list));
      }
      compare(index, queries.view().slice(7, 1), 5, {.list_size = 20}, "one of them");
    }
  }
}

// A file's entries are as many as it says, and some may be there twice.
TEST_F(CudaVamana, WalksFromManyEntries) {
  const Dataset queries = in_clusters(30, 2000);
  const test::TemporaryFolder folder;
  Vamana::build(in_clusters(2000), {.max_degree = 8, .build_list_size = 16}).save(folder / "few.kith");
  for (const std::size_t count : {20, 500, 512, 513, 1500}) {
    for (const std::uint32_t different : {7U, 2000U}) {
      test::write_file(folder / "many.kith",
                       test::rewritten(
                           folder / "few.kith", [](nlohmann::json&) {}, "entries",
                           [&](std::string& all) {
                             all.resize(count * sizeof(std::uint32_t));
                             for (std::size_t i = 0; i < count; ++i) {
                               const auto entry = static_cast<std::uint32_t>(i * 7 % different);
                               std::memcpy(all.data() + i * sizeof(entry), &entry, sizeof(entry));
                             }
                           }));
      const Vamana index = Vamana::load(folder / "many.kith");
      for (const std::int64_t list : {10, 40}) {
        compare(index, queries, 10, {.list_size = list},
                std::to_string(count) + " entries, " + std::to_string(different) + " different");
      }
    }
  }
}

// More than go to the device at once.
TEST_F(CudaVamana, SearchesInSeveralBatches) {
  const Dataset data = in_clusters(1500, 0, Dtype::f32, 8);
  const Dataset queries = in_clusters(40'000, 1500, Dtype::f32, 8);
  const Vamana index = Vamana::build(data, {.max_degree = 16, .build_list_size = 32});
  compare(index, queries, 3, {.list_size = 12}, "three batches");
  RowSet allowed(1500);
  for (std::int64_t row = 0; row < 1500; row += 2) allowed.insert(row);
  const SearchOptions among{.list_size = 12, .allowed = &allowed};
  expect_same(index.search(queries, 3, on_gpu(), among), index.search(queries, 3, {}, among),
              "among allowed rows");
}

TEST_F(CudaVamana, LongListsAndManyNeighbors) {
  const Dataset data = in_clusters(9000);
  const Dataset queries = in_clusters(12, 9000);
  const Vamana index = Vamana::build(data);
  for (const std::int64_t list : {600, 3000, 9000}) {
    compare(index, queries, 500, {.list_size = list}, "list " + std::to_string(list));
  }
  compare(index, queries, 9000, {.list_size = 9000}, "all of them");
  compare(index, queries, 9100, {.list_size = 9100}, "more than there are");
}

TEST_F(CudaVamana, EqualRowsAndNaN) {
  std::vector<float> values(static_cast<std::size_t>(2000) * 6);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i / 6 % 90) * (i % 6 + 1));
  values[37] = std::numeric_limits<float>::quiet_NaN();
  values[80] = std::numeric_limits<float>::infinity();
  std::vector<float> asked(values.begin(), values.begin() + 60 * 6);
  asked[5] = std::numeric_limits<float>::quiet_NaN();
  asked[13] = -std::numeric_limits<float>::infinity();
  const DatasetView data(values.data(), Dtype::f32, 2000, 6, 6);
  const DatasetView queries(asked.data(), Dtype::f32, 60, 6, 6);
  for (const Metric metric : vamana_metrics) {
    const Vamana index = Vamana::build(data, {.metric = metric, .max_degree = 8, .build_list_size = 16});
    for (const std::int64_t list : {30, 90}) compare(index, queries, 30, {.list_size = list}, "equal rows");
  }
  const Vamana none = Vamana::build(DatasetView(values.data(), Dtype::f32, 0, 6, 6));
  compare(none, queries, 3, {.list_size = 3}, "no rows");
}

TEST_F(CudaVamana, FindsAmongAllowedRows) {
  const Dataset data = in_clusters(6000);
  const Dataset queries = in_clusters(50, 6000);
  for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product}) {
    const Vamana index = Vamana::build(data, {.metric = metric});
    for (const std::int64_t step : {1, 2, 3, 7, 40, 900}) {
      RowSet allowed(6000);
      for (std::int64_t row = 0; row < 6000; row += step) allowed.insert(row);
      for (const std::int64_t list : {20, 200}) {
        const SearchOptions options{.list_size = list, .allowed = &allowed};
        const Neighbors wanted = index.search(queries, 10, {}, options);
        const Neighbors found = index.search(queries, 10, on_gpu(), options);
        expect_same(found, wanted, "every " + std::to_string(step));
        EXPECT_EQ(found.statistics.fallbacks, wanted.statistics.fallbacks);
      }
    }
    // All on one side: far from most queries.
    RowSet side(6000);
    for (std::int64_t row = 0; row < 3000; ++row) side.insert(row);
    const SearchOptions options{.list_size = 30, .allowed = &side};
    expect_same(index.search(queries, 10, on_gpu(), options), index.search(queries, 10, {}, options), "side");
  }
}

void expect_same_curve(const RecallCurve& a, const RecallCurve& b) {
  EXPECT_EQ(a.queries, b.queries);
  ASSERT_EQ(a.points.size(), b.points.size());
  for (std::size_t i = 0; i < a.points.size(); ++i) {
    const auto values = [i](const RecallCurve& curve) {
      const RecallPoint& point = curve.points[i];
      return std::tuple(point.k, point.list_size, point.recall.recall, point.recall.lower, point.recall.upper,
                        point.hops, point.distances);
    };
    EXPECT_EQ(values(a), values(b)) << i;
  }
}

TEST_F(CudaVamana, BuildsTheGraphOfTheCpu) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64}) {
    for (const Metric metric : vamana_metrics) {
      const Dataset data = in_clusters(4000, 0, dtype);
      for (const VamanaParameters& chosen :
           {VamanaParameters{}, VamanaParameters{.max_degree = 12, .build_list_size = 40, .alpha = 1.2},
            VamanaParameters{.max_degree = 33, .build_list_size = 50, .seed = 7, .code_bits = 4}}) {
        VamanaParameters parameters = chosen;
        parameters.metric = metric;
        const Vamana wanted = Vamana::build(data, parameters);
        const Vamana built = Vamana::build(data, parameters, on_gpu());
        EXPECT_EQ(built.graph_hash(), wanted.graph_hash())
            << name(dtype) << " " << name(metric) << " " << parameters.max_degree;
        expect_same_curve(built.recall_curve(), wanted.recall_curve());
      }
    }
  }
}

TEST_F(CudaVamana, ChoosesTheBitsOfTheCpu) {
  const auto rows_of = [](Generator generator, double spread) {
    return generate(
        {.generator = generator, .rows = 5000, .dim = 384, .seed = 3, .clusters = 50, .spread = spread});
  };
  for (const Metric metric : {Metric::sqeuclidean, Metric::cosine}) {
    for (const auto& [data, bits] :
         {std::pair(rows_of(Generator::uniform, 1), 4), std::pair(rows_of(Generator::clusters, 1e-4), 8)}) {
      const VamanaParameters parameters{
          .metric = metric, .max_degree = 16, .build_list_size = 32, .code_dim = 384};
      const Vamana wanted = Vamana::build(data, parameters);
      const Vamana built = Vamana::build(data, parameters, on_gpu());
      EXPECT_EQ(built.parameters().code_bits, bits) << name(metric);
      EXPECT_EQ(wanted.parameters().code_bits, bits) << name(metric);
      EXPECT_EQ(built.graph_hash(), wanted.graph_hash()) << name(metric);
    }
  }
}

TEST_F(CudaVamana, BuildsTheGraphOfTheCpuForCodesOfEveryKindAndForFewRows) {
  for (const std::int64_t bits : {8, 4}) {
    for (const std::int64_t dim : {32, 64, 96, 128}) {
      const Dataset data = with_few_directions(3000, 0, Dtype::f32);
      const VamanaParameters parameters{.code_bits = bits, .code_dim = dim};
      EXPECT_EQ(Vamana::build(data, parameters, on_gpu()).graph_hash(),
                Vamana::build(data, parameters).graph_hash())
          << bits << " bits, " << dim;
    }
  }
  for (const std::int64_t rows : {0, 1, 2, 3, 65, 500}) {
    const Dataset data = in_clusters(rows);
    EXPECT_EQ(Vamana::build(data, {}, on_gpu()).graph_hash(), Vamana::build(data).graph_hash()) << rows;
  }
  // Lists that do not fit shared memory.
  const Dataset data = in_clusters(5000);
  const VamanaParameters longer{.max_degree = 16, .build_list_size = 2500};
  EXPECT_EQ(Vamana::build(data, longer, on_gpu()).graph_hash(), Vamana::build(data, longer).graph_hash());
}

// Bytes that a build says it takes of a device's memory, at least.
std::uint64_t least_memory(const Dataset& data, const VamanaParameters& parameters) {
  const std::string refusal =
      message_of<OutOfMemory>([&] { (void)Vamana::build(data, parameters, on_gpu(1)); });
  const std::size_t number = refusal.find("takes ");
  return number == std::string::npos ? 0 : std::stoull(refusal.substr(number + 6));
}

// With as little memory as it may have, 64 nodes walk at once.
TEST_F(CudaVamana, BuildsInManyParts) {
  for (const std::int64_t list : {40, 2500}) {  // in shared memory, or not
    for (const std::int64_t bits : {8, 4}) {
      const Dataset data = in_clusters(list > 100 ? 4000 : 9000);
      const VamanaParameters parameters{.max_degree = 20, .build_list_size = list, .code_bits = bits};
      const std::uint64_t least = least_memory(data, parameters);
      ASSERT_GT(least, 0U);
      const Vamana wanted = Vamana::build(data, parameters);
      const Vamana built = Vamana::build(data, parameters, on_gpu(least));
      const std::string its = "list " + std::to_string(list) + ", " + std::to_string(bits) + " bits";
      EXPECT_EQ(built.graph_hash(), wanted.graph_hash()) << its;
      expect_same_curve(built.recall_curve(), wanted.recall_curve());
      EXPECT_THROW((void)Vamana::build(data, parameters, on_gpu(least - 1)), OutOfMemory) << its;
    }
  }
}

// Hubs, whose edges overflow again and again, and rows that nothing leads to.
TEST_F(CudaVamana, BuildsTheGraphOfTheCpuForRowsThatAreHardToConnect) {
  std::vector<float> values(static_cast<std::size_t>(3000) * 4);
  for (std::size_t i = 0; i < 3000; ++i) {
    const bool far = i % 50 == 0;
    for (std::size_t j = 0; j < 4; ++j) {
      values[4 * i + j] = far ? 1000.0F * static_cast<float>(i) : static_cast<float>((i * (j + 3)) % 97) / 97;
    }
  }
  const DatasetView data(values.data(), Dtype::f32, 3000, 4, 4);
  for (const Metric metric : vamana_metrics) {
    const VamanaParameters parameters{.metric = metric, .max_degree = 5, .build_list_size = 10};
    EXPECT_EQ(Vamana::build(data, parameters, on_gpu()).graph_hash(),
              Vamana::build(data, parameters).graph_hash())
        << name(metric);
  }
}

TEST_F(CudaVamana, InsertsAsTheCpuDoes) {
  const Dataset data = in_clusters(3000);
  const Dataset more = in_clusters(700, 3000);
  const Vamana one = Vamana::build(data);
  EXPECT_EQ(one.insert(more, on_gpu()).graph_hash(), one.insert(more).graph_hash());
}

TEST_F(CudaVamana, GraphAndRowsMayLieOnTheHost) {
  const Dataset data = in_clusters(60'000, 0, Dtype::f32, 96);
  const Dataset queries = in_clusters(40, 60'000, Dtype::f32, 96);
  const VamanaParameters parameters{.max_degree = 64, .build_list_size = 64, .code_dim = 96};
  const Vamana index = Vamana::build(data, parameters);
  const SearchOptions options{.list_size = 30};
  const Neighbors wanted = index.search(queries, 10, {}, options);
  constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
  const std::uint64_t codes = 60'000 * 96;
  const std::uint64_t edges = 60'000 * 64 * 4;
  const auto placed = [&](std::uint64_t limit) {
    const Neighbors found = index.search(queries, 10, on_gpu(limit), options);
    expect_same(found, wanted, std::to_string(limit));
    return found.statistics.instruction_set;
  };
  EXPECT_EQ(placed(0), "cuda resident");
  EXPECT_EQ(placed(codes + edges + 66 * mib), "cuda host rows");
  EXPECT_EQ(placed(codes + 66 * mib), "cuda host graph");
  EXPECT_EQ(placed(0), "cuda host graph") << "it stays where it is";
  // With room for some nodes' edges.
  const Vamana with_cache = Vamana::build(data, parameters);
  const Neighbors found =
      with_cache.search(queries, 10, on_gpu(codes + edges / 2 + 66 * mib), {.list_size = 30});
  expect_same(found, wanted, "cached");
  EXPECT_EQ(found.statistics.instruction_set, "cuda host graph");
  EXPECT_GT(found.statistics.cached_hops, 0);
  EXPECT_LT(found.statistics.cached_hops, found.statistics.hops);
  EXPECT_TRUE(contains(message_of<OutOfMemory>([&] { (void)placed(codes); }), "device memory limit"));
  EXPECT_TRUE(
      contains(message_of<OutOfMemory>([&] { (void)Vamana::build(data, parameters, on_gpu(2 * mib)); }),
               "GPU memory"));
  // From a file, mapped.
  const test::TemporaryFolder folder;
  index.save(folder / "graph.kith");
  const Vamana loaded = Vamana::load(folder / "graph.kith");
  expect_same(loaded.search(queries, 10, on_gpu(codes + 66 * mib), options), wanted, "mapped");
  expect_same(Vamana::load(folder / "graph.kith").search(queries, 10, on_gpu(), options), wanted, "loaded");
}

TEST_F(CudaVamana, QueriesAndAnswersMayLieOnTheDevice) {
  const Dataset data = in_clusters(4000);
  const Dataset queries = in_clusters(300, 4000);
  const Vamana index = Vamana::build(data);
  const SearchOptions options{.list_size = 25};
  const Neighbors wanted = index.search(queries, 7, {}, options);
  const DeviceMemory asked(queries.view().data, 300 * 24 * sizeof(float));
  const DeviceMemory indices(300 * 7 * sizeof(std::int64_t));
  const DeviceMemory distances(300 * 7 * sizeof(float));
  DatasetView view(asked.data(), Dtype::f32, 300, 24, 24);
  view.space = MemorySpace::cuda;
  expect_same(index.search(view, 7, on_gpu(), options), wanted, "queries on the device");
  NeighborsView out{.indices = static_cast<std::int64_t*>(indices.data()),
                    .distances = distances.data(),
                    .queries = 300,
                    .k = 7,
                    .space = MemorySpace::cuda};
  (void)index.search_into(view, out, on_gpu(), options);
  EXPECT_EQ(indices.read<std::int64_t>(), wanted.indices);
  EXPECT_EQ(distances.read<float>(), std::get<std::vector<float>>(wanted.distances));
  // Also those that the exact engine answers.
  RowSet allowed(4000);
  for (std::int64_t row = 0; row < 4000; row += 2) allowed.insert(row);
  const SearchOptions among{.list_size = 25, .allowed = &allowed};
  const Neighbors some = index.search(queries, 7, {}, among);
  (void)index.search_into(view, out, on_gpu(), among);
  EXPECT_EQ(indices.read<std::int64_t>(), some.indices);
  EXPECT_THROW((void)index.search(view, 7, {}, options), InvalidArgument);
  EXPECT_THROW((void)index.search_into(queries, out, {}, options), InvalidArgument);
}

TEST_F(CudaVamana, ManyThreadsSearchOneIndex) {
  const Dataset data = in_clusters(5000);
  const Dataset queries = in_clusters(200, 5000);
  const Vamana index = Vamana::build(data);
  std::vector<Neighbors> wanted;
  for (std::int64_t k = 1; k <= 8; ++k) wanted.push_back(index.search(queries, k, {}, {.list_size = 10 * k}));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::int64_t k = 1; k <= 8; ++k) {
    threads.emplace_back([&, k] {
      for (int i = 0; i < 20; ++i) {
        const Neighbors found = index.search(queries, k, on_gpu(), {.list_size = 10 * k});
        const Neighbors& its = wanted[static_cast<std::size_t>(k - 1)];
        if (found.indices != its.indices || found.distances != its.distances) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CudaVamana, StatesRecallAndStops) {
  const Dataset data = in_clusters(20'000);
  const Dataset queries = in_clusters(500, 20'000);
  const Vamana index = Vamana::build(data, {}, on_gpu());
  const Neighbors exact = knn(data, queries, 10);
  const Neighbors found = index.search(queries, 10, on_gpu(), {.recall = 0.95});
  EXPECT_GE(evaluate(found, exact).recall, 0.94);
  EXPECT_GE(found.statistics.recall, 0.95);
  expect_same(found, index.search(queries, 10, {}, {.recall = 0.95}), "recall");
  expect_same(index.search(queries, 10, on_gpu(), {.recall = 1.0}), exact, "exactly");
  Execution stopped = on_gpu();
  stopped.cancelled = [] { return true; };
  EXPECT_THROW((void)Vamana::build(data, {}, stopped), Cancelled);
  EXPECT_THROW((void)index.search(queries, 10, stopped, {.list_size = 20}), Cancelled);
  // Rows go up while the graph grows: whoever asks, it is one at a time.
  std::atomic<int> inside = 0;
  std::atomic<bool> together = false;
  Execution watched = on_gpu();
  watched.cancelled = [&] {
    if (inside.fetch_add(1) != 0) together = true;
    std::this_thread::yield();
    inside.fetch_sub(1);
    return false;
  };
  EXPECT_EQ(Vamana::build(data, {}, watched).graph_hash(), index.graph_hash());
  EXPECT_FALSE(together);
}

}  // namespace
}  // namespace kith

#endif  // KITH_CUDA_ENABLED

// Walks over RaBitQ and PQ codes on a GPU: the bits of the CPU's answers. Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "codes/pq.hpp"
#include "k_means/cuda/k_means.hpp"
#include "k_means/k_means.hpp"
#include "kith/error.hpp"
#include "kith/row_set.hpp"
#include "kith/vamana.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "unit/vamana/cuda.hpp"
#include "unit/vamana/rows.hpp"

namespace kith {
namespace {

using test::contains;
using test::expect_same;
using test::in_clusters;
using test::message_of;
using test::on_gpu;
using test::with_few_directions;

using CudaVamanaCodes = test::OnGpu;

std::vector<VamanaParameters> kinds() {
  std::vector<VamanaParameters> all;
  for (const std::int64_t bits : {1, 2, 4, 7, 8})
    all.push_back({.codes = CodeKind::rabitq, .rabitq_bits = bits});
  for (const std::int64_t parts : {1, 5, 12, 16, 24})
    all.push_back({.codes = CodeKind::pq, .pq_subspaces = parts});
  return all;
}

std::string named(const VamanaParameters& parameters) {
  return std::string(name(parameters.codes)) + " " + std::to_string(parameters.rabitq_bits) + " " +
         std::to_string(parameters.pq_subspaces) + " " + std::string(name(parameters.metric)) + " ";
}

TEST_F(CudaVamanaCodes, FindWhatTheCpuFinds) {
  const Dataset data = in_clusters(2500);
  const Dataset queries = in_clusters(60, 2500);
  for (VamanaParameters parameters : kinds()) {
    for (const Metric metric : vamana_metrics) {
      parameters.metric = metric;
      const Vamana index = Vamana::build(data, parameters);
      for (const std::int64_t list : {10, 33, 200}) {
        compare(index, queries, 10, {.list_size = list}, named(parameters) + std::to_string(list));
      }
      compare(index, queries, 7, {.list_size = 90, .beam_width = 3}, named(parameters) + "beam");
      compare(index, queries, 5, {.list_size = 40, .rerank = 9}, named(parameters) + "rerank");
      compare(index, queries.view().slice(3, 1), 1, {.list_size = 1}, named(parameters) + "one query");
      compare(index, queries.view().slice(0, 0), 3, {.list_size = 8}, named(parameters) + "no query");
    }
  }
}

TEST_F(CudaVamanaCodes, ForEveryElementType) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64}) {
    const Dataset data = in_clusters(2000, 0, dtype);
    const Dataset queries = in_clusters(50, 2000, dtype);
    for (const Metric metric : vamana_metrics) {
      for (const CodeKind codes : {CodeKind::rabitq, CodeKind::pq}) {
        const Vamana index = Vamana::build(data, {.metric = metric, .codes = codes});
        for (const std::int64_t list : {12, 120}) {
          compare(
              index, queries, 10, {.list_size = list},
              std::string(name(dtype)) + " " + std::string(name(metric)) + " " + std::string(name(codes)));
        }
      }
    }
  }
}

// 32 to 129 values: teams of one to eight threads, transforms that overlap, and tables that do not fit shared
// memory.
TEST_F(CudaVamanaCodes, OfManyLengths) {
  const Dataset data = with_few_directions(1500);
  const Dataset queries = with_few_directions(40, 1500);
  for (const std::int64_t dim : {32, 64, 96, 128}) {
    for (const std::int64_t bits : {3, 4, 5, 6}) {
      const Vamana index =
          Vamana::build(data, {.code_dim = dim, .codes = CodeKind::rabitq, .rabitq_bits = bits});
      compare(index, queries, 10, {.list_size = 64}, std::to_string(dim) + " of " + std::to_string(bits));
    }
    for (const std::int64_t parts : {dim / 8, dim / 3, dim}) {
      const Vamana index =
          Vamana::build(data, {.code_dim = dim, .codes = CodeKind::pq, .pq_subspaces = parts});
      compare(index, queries, 10, {.list_size = 64}, std::to_string(dim) + " in " + std::to_string(parts));
    }
  }
  for (const std::int64_t dim : {1, 3, 31, 129, 300, 700, 2100}) {
    const Dataset rows = in_clusters(300, 0, Dtype::f32, dim);
    const Dataset asked = in_clusters(20, 300, Dtype::f32, dim);
    for (const CodeKind codes : {CodeKind::rabitq, CodeKind::pq}) {
      for (const Metric metric : {Metric::euclidean, Metric::inner_product}) {
        const VamanaParameters parameters{
            .metric = metric, .max_degree = 8, .build_list_size = 16, .code_dim = dim, .codes = codes};
        const Vamana index = Vamana::build(rows, parameters);
        const std::string where = std::to_string(dim) + std::string(name(codes));
        compare(index, asked, 5, {.list_size = 40}, where);
        EXPECT_EQ(Vamana::build(rows, parameters, on_gpu()).graph_hash(), index.graph_hash()) << where;
      }
    }
  }
}

TEST_F(CudaVamanaCodes, LongListsAndManyNeighbors) {
  const Dataset data = in_clusters(5000);
  const Dataset queries = in_clusters(12, 5000);
  for (const VamanaParameters& parameters : {VamanaParameters{.codes = CodeKind::rabitq},
                                             VamanaParameters{.codes = CodeKind::rabitq, .rabitq_bits = 1},
                                             VamanaParameters{.codes = CodeKind::pq}}) {
    const Vamana index = Vamana::build(data, parameters);
    for (const std::int64_t list : {600, 3000, 5000}) {
      for (const std::int64_t k : {1, 17, 64, 65, 300, 500}) {
        compare(index, queries, k, {.list_size = list},
                named(parameters) + std::to_string(list) + " " + std::to_string(k));
      }
    }
    compare(index, queries, 5100, {.list_size = 5100}, named(parameters) + "more than there are");
  }
}

TEST_F(CudaVamanaCodes, EqualRowsAndNaN) {
  std::vector<float> values(static_cast<std::size_t>(2000) * 6);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i / 6 % 90) * (i % 6 + 1));
  values[37] = std::numeric_limits<float>::quiet_NaN();
  values[80] = std::numeric_limits<float>::infinity();
  std::vector<float> asked(values.begin(), values.begin() + 60 * 6);
  asked[5] = std::numeric_limits<float>::quiet_NaN();
  asked[13] = -std::numeric_limits<float>::infinity();
  std::fill_n(asked.begin() + 24, 6, 0.0F);
  const DatasetView data(values.data(), Dtype::f32, 2000, 6, 6);
  const DatasetView queries(asked.data(), Dtype::f32, 60, 6, 6);
  std::vector<std::uint8_t> bytes(values.size());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i / 6 % 70 * (i % 6 + 1));
  const DatasetView small(bytes.data(), Dtype::u8, 2000, 6, 6);
  for (const CodeKind codes : {CodeKind::rabitq, CodeKind::pq}) {
    for (const Metric metric : vamana_metrics) {
      const VamanaParameters parameters{
          .metric = metric, .max_degree = 8, .build_list_size = 16, .codes = codes};
      const Vamana index = Vamana::build(data, parameters);
      const Vamana of_bytes = Vamana::build(small, parameters);
      for (const std::int64_t list : {30, 60, 90}) {
        for (const std::int64_t k : {1, 30}) {
          const std::string where = named(parameters) + std::to_string(list) + " " + std::to_string(k);
          compare(index, queries, k, {.list_size = list}, where);
          compare(of_bytes, small.slice(0, 40), k, {.list_size = list}, where + " bytes");
        }
      }
    }
    const Vamana none = Vamana::build(data.slice(0, 0), {.codes = codes});
    compare(none, queries, 3, {.list_size = 3}, "no rows");
    compare(Vamana::build(data.slice(0, 1), {.codes = codes}), queries, 3, {.list_size = 3}, "one row");
  }
}

TEST_F(CudaVamanaCodes, FindAmongAllowedRows) {
  const Dataset data = in_clusters(4000);
  const Dataset queries = in_clusters(50, 4000);
  for (const CodeKind codes : {CodeKind::rabitq, CodeKind::pq}) {
    const Vamana index = Vamana::build(data, {.max_degree = 16, .build_list_size = 32, .codes = codes});
    int walked = 0;
    for (const std::int64_t step : {1, 2, 3, 7, 40, 900}) {
      RowSet allowed(4000);
      for (std::int64_t row = 0; row < 4000; row += step) allowed.insert(row);
      for (const std::int64_t list : {12, 200}) {
        const SearchOptions options{.list_size = list, .allowed = &allowed};
        const Neighbors wanted = index.search(queries, 10, {}, options);
        const Neighbors found = index.search(queries, 10, on_gpu(), options);
        const std::string where = std::string(name(codes)) + " every " + std::to_string(step);
        expect_same(found, wanted, where);
        EXPECT_EQ(found.statistics.fallbacks, wanted.statistics.fallbacks) << where;
        // The exact engine, which answers where few are allowed, filters differently on a GPU.
        if (wanted.statistics.certified || wanted.statistics.fallbacks > 0) continue;
        EXPECT_EQ(found.statistics.candidates, wanted.statistics.candidates) << where;
        ++walked;
      }
    }
    EXPECT_GE(walked, 2) << name(codes);
  }
}

// The graph, the codes, what was measured and a file of it.
TEST_F(CudaVamanaCodes, AreBuiltAndInsertedAsTheCpuDoes) {
  const test::TemporaryFolder folder;
  const Dataset data = in_clusters(3000);
  const Dataset more = in_clusters(500, 3000);
  const Dataset queries = in_clusters(40, 3500);
  for (const VamanaParameters& parameters : kinds()) {
    const Vamana wanted = Vamana::build(data, parameters);
    const Vamana built = Vamana::build(data, parameters, on_gpu());
    EXPECT_EQ(built.graph_hash(), wanted.graph_hash()) << named(parameters);
    ASSERT_EQ(built.recall_curve().points.size(), wanted.recall_curve().points.size());
    for (std::size_t i = 0; i < wanted.recall_curve().points.size(); ++i) {
      EXPECT_EQ(built.recall_curve().points[i].recall.lower, wanted.recall_curve().points[i].recall.lower);
    }
    wanted.save(folder / "cpu.kith");
    built.save(folder / "gpu.kith");
    EXPECT_EQ(test::read_file(folder / "gpu.kith"), test::read_file(folder / "cpu.kith"))
        << named(parameters);
    EXPECT_EQ(built.insert(more, on_gpu()).graph_hash(), wanted.insert(more).graph_hash())
        << named(parameters);
    compare(Vamana::load(folder / "gpu.kith"), queries, 10, {.list_size = 40}, named(parameters) + "loaded");
    expect_same(built.search(queries, 10, on_gpu(), {.recall = 0.9}),
                wanted.search(queries, 10, {}, {.recall = 0.9}), named(parameters) + "recall");
  }
}

TEST_F(CudaVamanaCodes, GraphAndRowsMayLieOnTheHost) {
  const Dataset data = in_clusters(60'000, 0, Dtype::f32, 96);
  const Dataset queries = in_clusters(40, 60'000, Dtype::f32, 96);
  constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
  const std::uint64_t edges = 60'000 * 64 * 4;
  for (const CodeKind kind : {CodeKind::rabitq, CodeKind::pq}) {
    const VamanaParameters parameters{.max_degree = 64, .build_list_size = 64, .code_dim = 96, .codes = kind};
    const Vamana index = Vamana::build(data, parameters);
    const SearchOptions options{.list_size = 30};
    const Neighbors wanted = index.search(queries, 10, {}, options);
    const std::uint64_t codes = index.memory_bytes() - edges;
    const auto placed = [&](const Vamana& its, std::uint64_t limit) {
      const Neighbors found = its.search(queries, 10, on_gpu(limit), options);
      expect_same(found, wanted, std::string(name(kind)) + std::to_string(limit));
      EXPECT_EQ(found.statistics.filter, name(kind));
      return found.statistics;
    };
    EXPECT_EQ(placed(index, 0).instruction_set, "cuda resident");
    EXPECT_EQ(placed(index, codes + edges + 66 * mib).instruction_set, "cuda host rows");
    EXPECT_EQ(placed(index, codes + 66 * mib).instruction_set, "cuda host graph");
    // With room for some nodes' edges.
    const Vamana with_cache = Vamana::build(data, parameters);
    const SearchStatistics cached = placed(with_cache, codes + edges / 2 + 66 * mib);
    EXPECT_EQ(cached.instruction_set, "cuda host graph");
    EXPECT_GT(cached.cached_hops, 0);
    EXPECT_LT(cached.cached_hops, cached.hops);
    EXPECT_TRUE(
        contains(message_of<OutOfMemory>([&] { (void)placed(index, codes); }), "device memory limit"));
  }
}

using CudaKMeans = test::OnGpu;

TEST_F(CudaKMeans, FindsTheCentroidsOfTheCpu) {
  struct Shape {
    std::int64_t n, dim, parts, count;
  };
  const auto never = [] {};
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{5, 3, 2, 5}, Shape{300, 7, 7, 256},
                             Shape{1025, 40, 3, 255}, Shape{5000, 24, 6, 256}, Shape{70'000, 9, 2, 17}}) {
    for (const bool equal : {false, true}) {  // many rows are others: centroids without rows
      const Dataset data = in_clusters(shape.n, 0, Dtype::f32, shape.dim);
      const auto* from = static_cast<const float*>(data.view().data);
      std::vector<float> rows(from, from + shape.n * shape.dim);
      for (std::int64_t i = 0; equal && i < shape.n; ++i) {
        std::copy_n(from + i % 40 * i % shape.n / 2 * shape.dim, shape.dim, rows.begin() + i * shape.dim);
      }
      const std::vector<std::int64_t> starts = codes::even_starts(shape.dim, shape.parts);
      const KMeansParameters parameters{.count = shape.count, .iterations = 12, .seed = 5};
      std::vector<float> wanted;
      std::uint64_t most = 0;
      for (std::int64_t j = 0; j < shape.parts; ++j) {
        KMeansParameters its = parameters;
        its.seed += static_cast<std::uint64_t>(j);
        const std::int64_t begin = starts[static_cast<std::size_t>(j)];
        const std::int64_t width = starts[static_cast<std::size_t>(j) + 1] - begin;
        const KMeans found = k_means(rows.data() + begin, shape.n, width, shape.dim, its, 1, never);
        wanted.insert(wanted.end(), found.centroids.begin(), found.centroids.end());
        most = std::max(most, static_cast<std::uint64_t>(width * (8 * shape.n + 1024) + 6 * shape.n + 4096));
      }
      const auto on_device = [&](std::uint64_t room) {
        return clusters::cuda::k_means_of_parts(rows.data(), shape.n, starts, parameters, 0, room, never);
      };
      EXPECT_TRUE(on_device(std::uint64_t{1} << 30U) == wanted) << shape.n << " rows";
      EXPECT_TRUE(on_device(most) == wanted) << shape.n << " rows, few parts at once";
      EXPECT_THROW((void)on_device(100), OutOfMemory);
    }
  }
  EXPECT_THROW((void)clusters::cuda::k_means_of_parts(nullptr, 0, {0, 1}, {}, 0, 1000,
                                                      [] { throw Cancelled("stop"); }),
               Cancelled);
}

}  // namespace
}  // namespace kith

#endif  // KITH_CUDA_ENABLED

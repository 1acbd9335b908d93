// The data, the graph and the codes of the case of graphs, and how its answers are judged.
#include "graph_case.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "bang_parts.hpp"
#include "codes/pq_parts.hpp"
#include "core/parallel.hpp"
#include "grid.hpp"
#include "kith/codes.hpp"
#include "kith/generate.hpp"
#include "vamana/parts.hpp"

namespace kith::ladder {
namespace {

constexpr std::uint64_t data_seed = 3;
constexpr std::int64_t rows_at_once = std::int64_t{1} << 16;  // three times as floats

// Of one part of the variance.
GenerateParameters part(Generator generator, std::int64_t dim, std::uint64_t seed, std::int64_t directions) {
  GenerateParameters out;
  out.generator = generator;
  out.dim = dim;
  out.seed = seed;
  out.clusters = 200;
  out.spread = 0.4;  // the noise
  out.intrinsic_dim = std::min(directions, dim);
  out.noise = 0;
  return out;
}

Vamana build_graph(const DatasetView& points, const std::vector<int>& gpus, std::uint64_t device_memory_limit,
                   const Execution& execution) {
  if (!gpus.empty()) {
    Execution on_gpu = execution;
    on_gpu.devices = {{Device::Kind::cuda, gpus.front()}};
    on_gpu.device_memory_limit = device_memory_limit;
    try {
      return Vamana::build(points, {}, on_gpu);
    } catch (const OutOfMemory&) {
      if (device_memory_limit == 0) throw;
    }
  }
  return Vamana::build(points, {}, execution);
}

constexpr std::int64_t queries_a_task = 64;

template <class Work>
void for_each_query(std::int64_t queries, int threads, const Work& work) {
  Execution execution;
  execution.threads = threads;
  parallel_for(execution, (queries + queries_a_task - 1) / queries_a_task, [&](std::int64_t task) {
    const std::int64_t end = std::min(queries, (task + 1) * queries_a_task);
    for (std::int64_t q = task * queries_a_task; q < end; ++q) work(q);
  });
}

}  // namespace

Dataset embeddings(std::int64_t rows, std::int64_t dim, std::int64_t first_row, const Execution& execution) {
  const auto largest = static_cast<float>(largest_coordinate(dim));
  // Standard deviations of a coordinate: 1 of the centres, around them 0.6 along 6 directions, 0.8 along 24,
  // and 0.4 of noise. 1 is a ninth of the range, so that few values are cut off at its ends.
  struct Part {
    GenerateParameters parameters;
    float weight;
  };
  Part parts[] = {{part(Generator::clusters, dim, data_seed, 0), 1.0F},
                  {part(Generator::low_intrinsic_dimension, dim, data_seed + 1, 6), 0.6F},
                  {part(Generator::low_intrinsic_dimension, dim, data_seed + 2, 24), 0.8F}};
  Dataset out = Dataset::allocate(Dtype::f32, rows, dim);
  const std::span<float> values = out.mutable_values<float>();
  for (std::int64_t first = 0; first < rows; first += rows_at_once) {
    const std::int64_t some = std::min(rows_at_once, rows - first);
    float* to = values.data() + first * dim;
    std::fill_n(to, some * dim, 0.0F);
    for (Part& p : parts) {
      p.parameters.rows = some;
      p.parameters.first_row = first_row + first;
      Dataset made = generate(p.parameters, execution);
      const float* from = made.mutable_values<float>().data();
      for (std::int64_t i = 0; i < some * dim; ++i) to[i] += p.weight * from[i];
    }
    for (std::int64_t i = 0; i < some * dim; ++i) {
      to[i] = std::clamp(std::round(largest * (0.5F + to[i] / 9)), 0.0F, largest);
    }
  }
  return out;
}

GraphCase::GraphCase(const Problem& problem, std::int64_t list_size, const std::vector<int>& gpus,
                     const Execution& execution, std::uint64_t device_memory_limit)
    : points_(problem.point, problem.points, problem.dim),
      list_size_(list_size),
      execution_(execution),
      build_ms_(now_ms()),
      index_(build_graph(points_, gpus, device_memory_limit, execution)),
      graph_(graph_files::row_graph(vamana::Parts::of(index_), execution)) {
  build_ms_ = now_ms() - build_ms_;
}

const PqTables& GraphCase::pq(std::int64_t subspaces) const {
  std::unique_ptr<const PqTables>& kept = pq_[subspaces];
  if (kept != nullptr) return *kept;
  PqParameters parameters;
  parameters.subspaces = subspaces;
  parameters.iterations = 10;
  const Quantizer quantizer = Quantizer::train(points_, parameters, execution_);
  const codes::PqParts parts = codes::PqParts::of(quantizer);
  auto out = std::make_unique<PqTables>();
  out->subspaces = static_cast<int>(subspaces);
  for (const std::int64_t start : parts.starts) out->starts.push_back(static_cast<int>(start));
  out->mean.assign(parts.mean.begin(), parts.mean.end());
  out->centroid.resize(static_cast<std::size_t>(points_.dim * pq_centroids));
  const float* centroids = parts.centroids.data();  // of a part [count, its dimensions]
  for (std::size_t part = 0; part + 1 < parts.starts.size(); ++part) {
    const std::int64_t begin = parts.starts[part];
    const std::int64_t dims = parts.starts[part + 1] - begin;
    for (std::int64_t c = 0; c < pq_centroids; ++c) {
      // With few points there are fewer centroids, and codes name no others.
      const float* from = centroids + std::min(c, parts.count - 1) * dims;
      for (std::int64_t d = 0; d < dims; ++d) {
        out->centroid[static_cast<std::size_t>((begin + d) * pq_centroids + c)] = from[d];
      }
    }
    centroids += parts.count * dims;
  }
  out->codes = quantizer.encode(points_, execution_);
  kept = std::move(out);
  return *kept;
}

std::int64_t default_subspaces(const Problem& problem) {
  return std::min(most_subspaces, problem.dim);
}

void gather_lists(const GraphCase& graph, const std::uint32_t* rows, std::int64_t queries,
                  std::uint32_t* lists, int threads) {
  const std::int64_t degree = graph.degree();
  for_each_query(queries, threads, [&](std::int64_t q) {
    std::uint32_t* to = lists + q * degree;
    if (rows[q] == no_row) {
      *to = no_row;
    } else {
      std::copy_n(graph.list_of(rows[q]), degree, to);
    }
  });
}

void gather_vectors(const Problem& problem, const std::uint32_t* rows, std::int64_t queries, float* vectors,
                    int threads) {
  for_each_query(queries, threads, [&](std::int64_t q) {
    if (rows[q] == no_row) return;
    std::copy_n(problem.point + std::int64_t{rows[q]} * problem.dim, problem.dim, vectors + q * problem.dim);
  });
}

std::int64_t untrue_cells(const Problem& problem, const Answer& answer) {
  std::int64_t wrong = 0;
  for (std::int64_t q = 0; q < problem.queries; ++q) {
    bool ended = false;
    for (std::int64_t rank = 0; rank < problem.k; ++rank) {
      const auto at = static_cast<std::size_t>(q * problem.k + rank);
      const std::int64_t row = answer.indices[at];
      const float distance = answer.distances[at];
      if (row == -1) {
        ended = true;
        wrong += distance == std::numeric_limits<float>::infinity() ? 0 : 1;
        continue;
      }
      if (ended || row < 0 || row >= problem.points) {
        ++wrong;
        continue;
      }
      double sum = 0;  // of whole numbers
      for (std::int64_t c = 0; c < problem.dim; ++c) {
        const double difference = static_cast<double>(problem.query[q * problem.dim + c]) -
                                  static_cast<double>(problem.point[row * problem.dim + c]);
        sum += difference * difference;
      }
      const bool is_true =
          std::bit_cast<std::uint32_t>(distance) == std::bit_cast<std::uint32_t>(static_cast<float>(sum));
      // True distances that ascend by (distance, row) are those of different rows.
      const bool ascends = rank == 0 || answer.distances[at - 1] < distance ||
                           (answer.distances[at - 1] == distance && answer.indices[at - 1] < row);
      wrong += is_true && ascends ? 0 : 1;
    }
  }
  return wrong;
}

double recall_of(const Problem& problem, const Answer& answer, const Answer& truth) {
  const std::int64_t k = std::min(problem.k, problem.points);
  std::int64_t found = 0;
  for (std::int64_t q = 0; q < problem.queries; ++q) {
    const float farthest = truth.distances[static_cast<std::size_t>(q * problem.k + k - 1)];
    for (std::int64_t rank = 0; rank < k; ++rank) {
      const auto at = static_cast<std::size_t>(q * problem.k + rank);
      found += answer.indices[at] >= 0 && answer.distances[at] <= farthest ? 1 : 0;
    }
  }
  return static_cast<double>(found) / static_cast<double>(problem.queries * k);
}

}  // namespace kith::ladder

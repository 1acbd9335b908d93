// The data, the graph and the codes of the case of graphs, and how its answers are judged.
#include "graph_case.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "bang_parts.hpp"
#include "codes/pq.hpp"
#include "core/parallel.hpp"
#include "engine.hpp"
#include "grid.hpp"
#include "kith/generate.hpp"
#include "vamana/backend.hpp"
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

// Centroids as kernels read them. With few points there are fewer, and codes name no others.
PqTables tables_of(const codes::PqSpace& space) {
  PqTables out;
  out.subspaces = static_cast<int>(space.subspaces);
  for (const std::int64_t start : space.starts) out.starts.push_back(static_cast<int>(start));
  out.mean.assign(space.mean.begin(), space.mean.end());
  out.centroid.resize(static_cast<std::size_t>(space.rows.dim * pq_centroids));
  for (std::int64_t part = 0; part < space.subspaces; ++part) {
    const std::int64_t begin = space.begin(part);
    const std::int64_t dims = space.dim_of(part);
    for (std::int64_t c = 0; c < pq_centroids; ++c) {
      const float* from = space.centroids_of(part) + std::min(c, space.count - 1) * dims;
      for (std::int64_t d = 0; d < dims; ++d) {
        out.centroid[static_cast<std::size_t>((begin + d) * pq_centroids + c)] = from[d];
      }
    }
  }
  return out;
}

// Of whole numbers, rounded once.
template <class T>
float own_distance(const Problem& problem, const T* point, std::int64_t query, std::int64_t row) {
  double sum = 0;
  for (std::int64_t c = 0; c < problem.dim; ++c) {
    const double difference = static_cast<double>(problem.query[query * problem.dim + c]) -
                              static_cast<double>(point[row * problem.dim + c]);
    sum += difference * difference;
  }
  return static_cast<float>(sum);
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

// What is made once for all rungs and timed with none: on the GPU where there is one and it has room. At 100
// million rows the CPU would take hours for what the GPU does in a minute, so the limit is the rungs' alone.
template <class Work>
auto GraphCase::shared_by_rungs(const Work& work) const {
  if (!gpus_.empty()) {
    Execution on_gpu = execution_;
    on_gpu.devices = {{Device::Kind::cuda, gpus_.front()}};
    on_gpu.device_memory_limit = 0;
    try {
      return work(on_gpu);
    } catch (const OutOfMemory&) {
      // The CPU has more.
    }
  }
  return work(execution_);
}

GraphCase::GraphCase(const Problem& problem, std::int64_t list_size, const std::vector<int>& gpus,
                     const Execution& execution)
    : points_(host_points(problem)),
      list_size_(list_size),
      gpus_(gpus),
      execution_(execution),
      build_ms_(now_ms()),
      index_(shared_by_rungs([&](const Execution& where) { return Vamana::build(points_, {}, where); })),
      graph_(graph_files::row_graph(vamana::Parts::of(index_), execution)) {
  build_ms_ = now_ms() - build_ms_;
}

std::shared_ptr<const PqTables> GraphCase::pq(std::int64_t subspaces) const {
  if (pq_ != nullptr && pq_->subspaces == subspaces) return pq_;
  pq_.reset();  // first: codes of many rows are not to lie here twice
  PqParameters parameters;
  parameters.subspaces = subspaces;
  parameters.iterations = 10;
  pq_ = shared_by_rungs([&](const Execution& where) {
    const auto coding =
        codes::train_pq_on(vamana::backend_for(where).k_means(where), points_, parameters, where);
    PqTables made = tables_of(*codes::pq_space(*coding));
    made.codes = AlignedBuffer<std::uint8_t>(points_.rows * subspaces);
    // GPUs encode bytes.
    const Execution& encodes = points_.dtype == Dtype::u8 ? where : execution_;
    vamana::backend_for(encodes).encode(*coding, points_, made.codes.data(), encodes);
    return std::make_shared<const PqTables>(std::move(made));
  });
  return pq_;
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

template <class T>
void gather_vectors(const Problem& problem, const std::uint32_t* rows, std::int64_t queries, T* vectors,
                    int threads) {
  const T* point = problem.points_as<T>();
  for_each_query(queries, threads, [&](std::int64_t q) {
    if (rows[q] == no_row) return;
    std::copy_n(point + std::int64_t{rows[q]} * problem.dim, problem.dim, vectors + q * problem.dim);
  });
}
template void gather_vectors(const Problem&, const std::uint32_t*, std::int64_t, float*, int);
template void gather_vectors(const Problem&, const std::uint32_t*, std::int64_t, std::uint8_t*, int);

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
      const float own = problem.bytes() ? own_distance(problem, problem.point_bytes, q, row)
                                        : own_distance(problem, problem.point, q, row);
      const bool is_true = std::bit_cast<std::uint32_t>(distance) == std::bit_cast<std::uint32_t>(own);
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

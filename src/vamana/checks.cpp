#include "vamana/checks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "codes/leading.hpp"
#include "core/int128.hpp"
#include "core/search_checks.hpp"
#include "cuda/device_choice.hpp"
#include "kith/error.hpp"
#include "vamana/answer.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {
namespace {

constexpr std::int64_t least_degree = 4;
constexpr std::int64_t most_degree = 1024;
constexpr std::int64_t longest_build_list = 65536;
constexpr std::int64_t widest_beam = 64;
constexpr std::int64_t most_rabitq_bits = 8;

// Of codes that are not scalar, and of none that are.
void check_walk_codes(const VamanaParameters& parameters, std::int64_t dim) {
  if (parameters.codes != CodeKind::scalar && parameters.code_bits == 4) {
    throw InvalidArgument(fmt::format(
        "code_bits of {} with {} codes, which are made of scalar codes of 8 bits; leave code_bits "
        "out or at 8, or take scalar codes",
        parameters.code_bits, name(parameters.codes)));
  }
  if (parameters.rabitq_bits != 0) {
    if (parameters.codes != CodeKind::rabitq) {
      throw InvalidArgument(fmt::format("rabitq_bits of {} with {} codes; leave it out, or take rabitq codes",
                                        parameters.rabitq_bits, name(parameters.codes)));
    }
    if (parameters.rabitq_bits < 1 || parameters.rabitq_bits > most_rabitq_bits) {
      throw InvalidArgument(fmt::format("rabitq_bits of {}; use 1 to {}, or 0 for 4", parameters.rabitq_bits,
                                        most_rabitq_bits));
    }
  }
  if (parameters.pq_subspaces == 0) return;
  if (parameters.codes != CodeKind::pq) {
    throw InvalidArgument(fmt::format("pq_subspaces of {} with {} codes; leave it out, or take pq codes",
                                      parameters.pq_subspaces, name(parameters.codes)));
  }
  const std::int64_t most = parameters.code_dim > 0 ? parameters.code_dim : dim;
  if (parameters.pq_subspaces < 1 || parameters.pq_subspaces > most) {
    throw InvalidArgument(
        fmt::format("pq_subspaces of {}; use 1 to the {} values of a code, or 0 for one for "
                    "every four of these",
                    parameters.pq_subspaces, most));
  }
}

}  // namespace

void check_parameters(const VamanaParameters& parameters, std::int64_t dim) {
  check_metric(Vamana::index_type, parameters.metric);
  if (parameters.max_degree < least_degree || parameters.max_degree > most_degree) {
    throw InvalidArgument(fmt::format("a max_degree of {}; use {} to {}, 32 or 64 for most data",
                                      parameters.max_degree, least_degree, most_degree));
  }
  if (parameters.build_list_size != 0 && (parameters.build_list_size < parameters.max_degree ||
                                          parameters.build_list_size > longest_build_list)) {
    throw InvalidArgument(
        fmt::format("a build_list_size of {}; use max_degree, {}, to {}, two to four times max_degree for "
                    "most data, or 0 to leave it to the number of rows and values",
                    parameters.build_list_size, parameters.max_degree, longest_build_list));
  }
  if (!(parameters.alpha >= 1 && parameters.alpha <= 2)) {
    throw InvalidArgument(fmt::format("an alpha of {}; use 1 to 2, 1.05 for most data", parameters.alpha));
  }
  if (parameters.code_bits != 0 && parameters.code_bits != 4 && parameters.code_bits != 8) {
    throw InvalidArgument(fmt::format(
        "code_bits of {}; use 8, 4 for half the memory, or 0 to leave it to the data", parameters.code_bits));
  }
  check_walk_codes(parameters, dim);
  const std::int64_t values = parameters.code_dim;
  if (values < 0 || values > dim || (values != dim && values % codes::leading_step != 0)) {
    throw InvalidArgument(fmt::format(
        "a code_dim of {} for rows of dimension {}; use a multiple of {} below it, or {} for all values, or "
        "0 to leave it to the data",
        values, dim, codes::leading_step, dim));
  }
}

void choose_build_list(VamanaParameters& parameters, const DatasetView& rows) {
  if (parameters.build_list_size != 0 || rows.rows == 0) return;  // the first rows inserted decide
  parameters.build_list_size =
      std::max(tuning::build_list_of(rows.rows, rows.dim), 2 * parameters.max_degree);
}

void check_rows(const DatasetView& rows) {
  if (rows.space == MemorySpace::cuda) {
    throw InvalidArgument(fmt::format(
        "the rows lie in the memory of cuda:{}, the index vamana keeps them on the host; copy them there",
        rows.device));
  }
  if (!Vamana::index_type.takes_dim(rows.dim)) {
    throw InvalidArgument(
        fmt::format("rows of dimension {}; the index vamana takes up to {}, use brute_force", rows.dim,
                    Vamana::index_type.largest_dim));
  }
  if (rows.rows > most_rows) {
    throw InvalidArgument(
        fmt::format("{} rows; the index vamana takes up to {}, build several", rows.rows, most_rows));
  }
}

void check_search(const DatasetView& rows, const DatasetView& queries, std::int64_t k,
                  const Execution& execution) {
  validate(queries, "queries");
  check_k(k);
  check_queries_fit(queries, rows.dim, rows.dtype, Vamana::index_type.name);
  (void)backend_for(execution);
  if (queries.space == MemorySpace::cuda && cuda::kind_of_devices(execution) == Device::Kind::cpu) {
    throw InvalidArgument(fmt::format(
        "the queries lie in the memory of cuda:{}, this search runs on the CPU; name that device, or copy "
        "them to the host",
        queries.device));
  }
  check_answer_memory(static_cast<int128>(queries.rows) * k, answer_bytes(rows),
                      fmt::format("{} queries with k = {}", queries.rows, k), "the answer", execution);
}

std::optional<Decision> decide(const SearchOptions& options, std::int64_t k, std::int64_t rows,
                               std::int64_t nodes, const RecallCurve& curve) {
  check_options(Vamana::index_type, options);
  Decision decision;
  SearchPlan& plan = decision.plan;
  plan.k = k;
  plan.beam_width = options.beam_width.value_or(1);
  if (plan.beam_width < 1 || plan.beam_width > widest_beam) {
    throw InvalidArgument(fmt::format("a beam_width of {}; use 1 to {}", plan.beam_width, widest_beam));
  }
  const std::int64_t found = std::min(k, rows);
  if (options.list_size) {
    if (options.recall) {
      throw InvalidArgument(
          "list_size and recall say the same thing in two ways; give one of them, list_size for a walk as "
          "long as you say, recall for as long as it takes");
    }
    if (*options.list_size < std::max<std::int64_t>(1, found)) {
      throw InvalidArgument(
          fmt::format("a list_size of {} for {} neighbours; use at least as many as neighbours are asked for",
                      *options.list_size, k));
    }
    plan.list_size = std::max<std::int64_t>(1, std::min(*options.list_size, nodes));
    if (options.rerank) {
      if (*options.rerank < found || *options.rerank > *options.list_size) {
        throw InvalidArgument(
            fmt::format("a rerank of {}; use from the {} neighbours asked for to the list_size, {}",
                        *options.rerank, found, *options.list_size));
      }
      plan.rerank = *options.rerank;
    }
    // The longest list measured that is no longer, if it was measured as this search is done.
    if (plan.beam_width == 1 && plan.rerank == 0) {
      for (const RecallPoint& point : curve.points) {
        if (point.k >= k && point.list_size <= plan.list_size) {
          decision.recall = std::max(decision.recall, point.recall.lower);
        }
      }
    }
    return decision;
  }
  if (options.beam_width || options.rerank) {
    throw InvalidArgument(
        fmt::format("{} without list_size: recall is known for searches without it; give list_size, too",
                    options.beam_width ? "beam_width" : "rerank"));
  }
  const double recall = options.recall.value_or(Vamana::default_recall);
  if (!(recall > 0 && recall <= 1)) {
    throw InvalidArgument(fmt::format("a recall of {}; use above 0, to 1 for the exact answer", recall));
  }
  const RecallPoint* point = recall < 1 ? curve.reaching(recall, k) : nullptr;
  if (point == nullptr) return std::nullopt;
  plan.list_size = std::max<std::int64_t>(1, std::min(std::max(point->list_size, found), nodes));
  decision.recall = point->recall.lower;
  return decision;
}

}  // namespace kith::vamana

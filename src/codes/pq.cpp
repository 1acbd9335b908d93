#include "codes/pq.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codes/checks.hpp"
#include "codes/cpu/row_kernels.hpp"
#include "codes/pq_parts.hpp"
#include "core/parallel.hpp"
#include "kith/error.hpp"

namespace kith::codes {
namespace {

constexpr std::int64_t table_width = pq_table_width;

class PqCoding : public Coding {
 public:
  explicit PqCoding(PqSpace space) : space_(std::move(space)) {}

  std::int64_t code_bytes() const override { return space_.subspaces; }
  std::uint64_t memory_bytes() const override {
    std::uint64_t bytes = space_.mean.size() * sizeof(double) + space_.centroids.size() * sizeof(float);
    for (const SideBySide& part : space_.parts) bytes += part.values.size() * sizeof(float);
    bytes += space_.matrix.size() * sizeof(float);
    return bytes + (space_.rotation ? space_.rotation->memory_bytes() : 0);
  }
  std::unique_ptr<Worker> worker(double /*confidence*/) const override {
    return std::make_unique<PqWorker>(space_);
  }
  void save(nlohmann::json& header, std::vector<IndexSection>& sections) const override {
    header["centroids"] = space_.count;
    sections.push_back(bytes_section("mean", std::as_bytes(std::span(space_.mean))));
    sections.push_back(bytes_section("centroids", std::as_bytes(std::span(space_.centroids))));
    // Of imported ones alone.
    if (space_.starts != even_starts(space_.rows.dim, space_.subspaces)) header["starts"] = space_.starts;
    if (space_.matrix.empty()) return;
    header["matrix"] = true;
    sections.push_back(bytes_section("matrix", std::as_bytes(std::span(space_.matrix))));
  }
  const PqSpace& space() const { return space_; }

 private:
  PqSpace space_;
};

PqSpace make_space(Rows rows, const PqParameters& parameters, std::vector<double> mean) {
  PqSpace space;
  space.rows = rows;
  space.metric = parameters.metric;
  space.subspaces = parameters.subspaces;
  space.mean = std::move(mean);
  space.starts = even_starts(rows.dim, parameters.subspaces);
  if (parameters.rotate) space.rotation = std::make_unique<const Rotation>(rows.dim, parameters.seed);
  return space;
}

void check_starts(const std::vector<std::int64_t>& starts, std::int64_t dim, std::int64_t subspaces) {
  const bool good = static_cast<std::int64_t>(starts.size()) == subspaces + 1 && starts.front() == 0 &&
                    starts.back() == dim &&
                    std::adjacent_find(starts.begin(), starts.end(), std::greater_equal<>()) == starts.end();
  if (!good) {
    throw InvalidArgument(fmt::format("its parts do not cut {} dimensions into {} parts", dim, subspaces));
  }
}

}  // namespace

std::vector<std::int64_t> even_starts(std::int64_t dim, std::int64_t subspaces) {
  std::vector<std::int64_t> starts;
  for (std::int64_t j = 0; j <= subspaces; ++j) {
    starts.push_back(dim / subspaces * j + std::min(j, dim % subspaces));
  }
  return starts;
}

const PqSpace* pq_space(const Coding& coding) {
  const auto* its = dynamic_cast<const PqCoding*>(&coding);
  return its != nullptr ? &its->space() : nullptr;
}

void PqSpace::lay_out() {
  for (std::int64_t j = 0; j < subspaces; ++j) parts.emplace_back(centroids_of(j), count, dim_of(j));
}

PqWorker::PqWorker(const PqSpace& space)
    : space_(space),
      values_(static_cast<std::size_t>(space.rows.dim)),
      scratch_(values_.size()),
      floats_(values_.size()),
      table_(static_cast<std::size_t>(space.subspaces * table_width)) {}

const float* PqWorker::transformed(const void* row, bool centered) {
  row_kernels().load[static_cast<int>(space_.rows.dtype)](row, space_.rows.dim, values_.data());
  if (centered) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] -= space_.mean[i];
  }
  if (space_.rotation) space_.rotation->apply(values_.data(), scratch_.data());
  if (!space_.matrix.empty()) rotate();
  for (std::size_t i = 0; i < values_.size(); ++i) floats_[i] = static_cast<float>(values_[i]);
  return floats_.data();
}

// Sums in the order of dimensions: the same bits everywhere.
void PqWorker::rotate() {
  std::fill(scratch_.begin(), scratch_.end(), 0.0);
  const float* weights = space_.matrix.data();
  for (const double value : values_) {
    for (double& sum : scratch_) sum += value * static_cast<double>(*weights++);
  }
  values_.swap(scratch_);
}

// By the transposed matrix: it is orthogonal.
void PqWorker::rotate_back() {
  const float* weights = space_.matrix.data();
  for (double& sum : scratch_) {
    sum = 0;
    for (const double value : values_) sum += value * static_cast<double>(*weights++);
  }
  values_.swap(scratch_);
}

void PqWorker::encode(const void* row, std::uint8_t* code) {
  const float* values = transformed(row, true);
  for (std::int64_t j = 0; j < space_.subspaces; ++j) {
    float distance = 0;
    code[j] = static_cast<std::uint8_t>(
        space_.parts[static_cast<std::size_t>(j)].nearest(values + space_.begin(j), &distance));
  }
}

void PqWorker::decode(const std::uint8_t* code, double* row) {
  for (std::int64_t j = 0; j < space_.subspaces; ++j) {
    const std::int64_t dim = space_.dim_of(j);
    // A byte of another quantizer's codes may be past the last centroid.
    const std::int64_t number = std::min<std::int64_t>(code[j], space_.count - 1);
    std::copy_n(space_.centroids_of(j) + number * dim, dim, values_.begin() + space_.begin(j));
  }
  if (space_.rotation) space_.rotation->invert(values_.data(), scratch_.data());
  if (!space_.matrix.empty()) rotate_back();
  for (std::size_t i = 0; i < values_.size(); ++i) row[i] = space_.mean[i] + values_[i];
}

void PqWorker::set_query(const void* query) {
  const bool product = space_.metric == Metric::inner_product;
  const float* values = transformed(query, !product);
  offset_ = 0;
  if (product) {
    row_kernels().load[static_cast<int>(space_.rows.dtype)](query, space_.rows.dim, values_.data());
    for (std::size_t i = 0; i < values_.size(); ++i) offset_ -= values_[i] * space_.mean[i];
  }
  for (std::int64_t j = 0; j < space_.subspaces; ++j) {
    float* entries = table_.data() + j * table_width;
    const float* part = values + space_.begin(j);
    const std::int64_t dim = space_.dim_of(j);
    if (!product) {
      float squares[table_width];
      space_.parts[static_cast<std::size_t>(j)].distances(part, squares);
      std::copy_n(squares, space_.count, entries);
    } else {
      for (std::int64_t c = 0; c < space_.count; ++c) {
        const float* centroid = space_.centroids_of(j) + c * dim;
        float sum = 0;
        for (std::int64_t d = 0; d < dim; ++d) sum += part[d] * centroid[d];
        entries[c] = -sum;
      }
    }
    std::fill(entries + space_.count, entries + table_width, entries[space_.count - 1]);
  }
}

// Of the codes code(0), code(1), ..., eight at a time, whose sums do not wait for each other.
template <class Code>
void PqWorker::sum_entries(const Code& code, std::int64_t count, float* distances) const {
  const std::int64_t bytes = space_.subspaces;
  constexpr std::int64_t rows = 8;
  std::int64_t i = 0;
  for (; i + rows <= count; i += rows) {
    const std::uint8_t* its[rows];
    for (std::int64_t r = 0; r < rows; ++r) its[r] = code(i + r);
    float sums[rows] = {};
    for (std::int64_t j = 0; j < bytes; ++j) {
      const float* entries = table_.data() + j * table_width;
      for (std::int64_t r = 0; r < rows; ++r) sums[r] += entries[its[r][j]];
    }
    for (std::int64_t r = 0; r < rows; ++r) distances[i + r] = static_cast<float>(sums[r] + offset_);
  }
  for (; i < count; ++i) {
    const std::uint8_t* its = code(i);
    float sum = 0;
    for (std::int64_t j = 0; j < bytes; ++j)
      sum += table_[static_cast<std::size_t>(j * table_width + its[j])];
    distances[i] = static_cast<float>(sum + offset_);
  }
}

void PqWorker::estimate(const std::uint8_t* codes, std::int64_t count, float* distances, float* /*bounds*/) {
  sum_entries([&](std::int64_t i) { return codes + i * space_.subspaces; }, count, distances);
}

void PqWorker::estimate_gathered(const std::uint8_t* codes, const std::uint32_t* rows, std::int64_t count,
                                 float* distances) {
  sum_entries([&](std::int64_t i) { return codes + std::int64_t{rows[i]} * space_.subspaces; }, count,
              distances);
}

std::unique_ptr<const Coding> train_pq(const DatasetView& rows, const PqParameters& parameters,
                                       const Execution& execution) {
  return train_pq_on({}, rows, parameters, execution);
}

std::unique_ptr<const Coding> train_pq_on(const KMeansOfParts& on_machine, const DatasetView& rows,
                                          const PqParameters& parameters, const Execution& execution) {
  TrainingRows training = training_rows(rows, parameters.training_rows, execution);
  PqSpace space = make_space({rows.dtype, rows.dim}, parameters, std::move(training.mean));
  const std::int64_t dim = rows.dim;
  const auto n = static_cast<std::int64_t>(training.rows.size());
  std::vector<float> values(static_cast<std::size_t>(n * dim));
  parallel_for(execution, (n + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
    PqWorker worker(space);
    for (std::int64_t i = task * rows_a_task; i < std::min(n, (task + 1) * rows_a_task); ++i) {
      std::copy_n(worker.transformed(rows.row(training.rows[static_cast<std::size_t>(i)]), true), dim,
                  values.begin() + i * dim);
    }
  });
  space.count = std::min(n, table_width);
  space.centroids.resize(static_cast<std::size_t>(space.count * dim));
  const int threads = resolve_threads(execution);
  ProgressCounter progress(execution, "training", space.subspaces);
  const KMeansParameters wanted{space.count, parameters.iterations, parameters.seed};
  if (on_machine) {
    space.centroids = on_machine(values.data(), n, space.starts, wanted, [&] { progress.check(); });
    progress.advance(space.subspaces);
    progress.finish();
    space.lay_out();
    return std::make_unique<PqCoding>(std::move(space));
  }
  // Parts side by side, or one after the other with all threads on each: the centroids are the same.
  const bool wide = space.subspaces >= threads;
  parallel_for(wide ? threads : 1, space.subspaces, [&](std::int64_t j) {
    KMeansParameters its = wanted;
    its.seed += static_cast<std::uint64_t>(j);
    const KMeans found = k_means(values.data() + space.begin(j), n, space.dim_of(j), dim, its,
                                 wide ? 1 : threads, [&] { progress.check(); });
    std::copy(found.centroids.begin(), found.centroids.end(),
              space.centroids.begin() + space.begin(j) * space.count);
    progress.advance(1);
  });
  progress.finish();
  space.lay_out();
  return std::make_unique<PqCoding>(std::move(space));
}

std::unique_ptr<const Coding> load_pq(const Kept& kept, Rows rows, const PqParameters& parameters) {
  PqSpace space = make_space(rows, parameters, finite_doubles(kept, "mean", rows.dim));
  space.count = kept.header.at("centroids").get<std::int64_t>();
  if (space.count < 1 || space.count > table_width) {
    throw InvalidArgument(fmt::format("{} centroids a part; 1 to {} are possible", space.count, table_width));
  }
  space.centroids = finite_floats(kept, "centroids", space.count * rows.dim);
  if (const auto starts = kept.header.find("starts"); starts != kept.header.end()) {
    space.starts = starts->get<std::vector<std::int64_t>>();
    check_starts(space.starts, rows.dim, parameters.subspaces);
  }
  if (kept.header.value("matrix", false)) space.matrix = finite_floats(kept, "matrix", rows.dim * rows.dim);
  space.lay_out();
  return std::make_unique<PqCoding>(std::move(space));
}

PqParts PqParts::of(const Quantizer& quantizer) {
  const PqSpace* found = pq_space(*quantizer.state_->coding);
  if (found == nullptr) {
    throw InvalidArgument(
        fmt::format("the quantizer is of kind {}; DiskANN's files hold pq alone", name(quantizer.kind())));
  }
  const PqSpace& space = *found;
  return {space.rows,  space.metric,    space.mean,   space.starts,
          space.count, space.centroids, space.matrix, space.rotation.get()};
}

Quantizer PqParts::assemble() && {
  const auto parts = static_cast<std::int64_t>(starts.size()) - 1;
  CodesParameters parameters = PqParameters{.metric = metric, .subspaces = parts, .rotate = false};
  check_parameters(parameters, rows.dim);
  check_starts(starts, rows.dim, parts);
  PqSpace space = make_space(rows, std::get<PqParameters>(parameters), std::move(mean));
  space.starts = std::move(starts);
  space.count = count;
  space.centroids = std::move(centroids);
  space.matrix = std::move(matrix);
  space.lay_out();
  auto state = std::make_shared<Quantizer::State>();
  state->parameters = parameters;
  state->rows = rows;
  state->coding = std::make_unique<PqCoding>(std::move(space));
  return Quantizer(std::move(state));
}

}  // namespace kith::codes
